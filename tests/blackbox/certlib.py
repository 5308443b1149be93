# SPDX-License-Identifier: Apache-2.0
"""Certificates with any names and dates, by the test's own authorities (tlslib.Authority)."""
import ssl

from tlslib import Authority, openssl

__all__ = ["Authority", "issue", "self_signed", "server_context"]

SETTINGS = """\
[ca]
default_ca = own
[own]
database = {folder}/index
new_certs_dir = {folder}
default_md = sha256
policy = policy
rand_serial = yes
unique_subject = no
[policy]
commonName = supplied
"""
ALWAYS = ("20200101000000Z", "20991231000000Z")


def issue(authority, name, *alternatives, dates=ALWAYS, ca=False):
    """Writes NAME.pem with key and certificate into the authority's folder; its path.

    alternatives: as "DNS:cdn.example.com" or "IP:127.0.0.1"."""
    folder = authority.folder
    settings, extensions, request = folder / "ca.cnf", folder / f"{name}.ext", folder / f"{name}.req"
    key, cert, both = folder / f"{name}.key", folder / f"{name}.crt", folder / f"{name}.pem"
    settings.write_text(SETTINGS.format(folder=folder), encoding="ascii")
    (folder / "index").touch()
    lines = [f"basicConstraints=critical,CA:{'TRUE' if ca else 'FALSE'}"]
    if alternatives:
        lines.append("subjectAltName=" + ",".join(alternatives))
    extensions.write_text("\n".join(lines) + "\n", encoding="ascii")
    openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
            "-keyout", key, "-out", request)
    openssl("ca", "-config", settings, "-batch", "-notext", "-in", request, "-out", cert, "-cert", authority.cert,
            "-keyfile", authority.key, "-startdate", dates[0], "-enddate", dates[1], "-extfile", extensions)
    both.write_text(key.read_text(encoding="ascii") + cert.read_text(encoding="ascii"), encoding="ascii")
    return both


def self_signed(folder, name):
    key, cert, both = folder / f"{name}.key", folder / f"{name}.crt", folder / f"{name}.pem"
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
            "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}", "-keyout", key, "-out", cert)
    both.write_text(key.read_text(encoding="ascii") + cert.read_text(encoding="ascii"), encoding="ascii")
    return both


def server_context(pem, names=None):
    """A server's TLS context; the SNI of each client is appended to `names`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    if names is not None:
        context.sni_callback = lambda sock, name, ctx: names.append(name)
    return context
