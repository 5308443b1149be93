# SPDX-License-Identifier: Apache-2.0
"""BIND and NSD as secondaries that transfer over TLS (RFC 9103) and verify our certificate."""
import pytest

import secondaries
import serverlib
import sluicelib
from secondaries import HOST
from tlslib import NAME, Authority

# More than one message; BIND takes no more than 100 records of a name and type.
RECORDS = "".join(f"h{i}: {{TXT: ['{'y' * 240}', '{'z' * 240}']}}\n" for i in range(200))


class Bind(secondaries.Bind):
    """Transfers over TLS from `self.primary`, with the authority in `self.authority`."""

    def start(self):
        primaries = f"{{ {HOST} port {self.primary} tls sluice; }}"
        text = (f'tls sluice {{ ca-file "{self.authority}"; remote-hostname "{NAME}"; protocols {{ TLSv1.3; }}; }};\n'
                f'options {{ directory "{self.folder}"; listen-on port {self.port} {{ {HOST}; }};'
                ' listen-on-v6 { none; }; recursion no; pid-file none; dnssec-validation no;'
                f' session-keyfile "{self.folder}/session.key"; empty-zones-enable no; notify no;'
                ' serial-query-rate 1000; min-refresh-time 1; min-retry-time 1;'
                f' allow-transfer {{ {HOST}; }}; }};\ncontrols {{ }};\n')
        for zone in self.zones:
            text += (f'zone "{zone}" {{ type secondary; primaries {primaries}; file "{zone}.db";'
                     f' allow-notify {{ {HOST}; }}; }};\n')
        self.spawn("named", "-4", "-g", "-n", "1", "-c", self.write("named.conf", text))


class Nsd(secondaries.Nsd):
    def start(self):
        text = (f'server:\n  ip-address: {HOST}@{self.port}\n  port: {self.port}\n  server-count: 1\n'
                f'  username: ""\n  zonesdir: "{self.folder}"\n  database: ""\n  do-ip6: no\n'
                f'  zonelistfile: "{self.folder}/zone.list"\n  xfrdfile: "{self.folder}/xfrd.state"\n'
                f'  xfrdir: "{self.folder}"\n  pidfile: "{self.folder}/nsd.pid"\n  rrl-ratelimit: 0\n'
                f'  verbosity: 2\n  xfrd-reload-timeout: 0\n  tls-cert-bundle: "{self.authority}"\n'
                'remote-control:\n  control-enable: no\n'
                f'tls-auth:\n  name: sluice\n  auth-domain-name: {NAME}\n')
        for zone in self.zones:
            text += (f'zone:\n  name: "{zone}"\n  zonefile: "{zone}.zone"\n'
                     f'  request-xfr: AXFR {HOST}@{self.primary} NOKEY sluice\n  allow-notify: {HOST} NOKEY\n'
                     f'  provide-xfr: {HOST} NOKEY\n')
        self.spawn("nsd", "-d", "-c", self.write("nsd.conf", text))


@pytest.mark.parametrize("make", [Bind, Nsd])
def test_secondary_over_tls(make, tmp_path, start):
    """The first transfer, and the one after a change that NOTIFY tells of."""
    authority = Authority(tmp_path / "ca")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    authority.issue(cert, key)
    reserved = sluicelib.Port()
    secondary = make(tmp_path / "secondary", reserved.number)
    secondary.authority = authority.cert
    config, data = tmp_path / "config", tmp_path / "data"

    def write(address):
        zone = sluicelib.ZONE + f"transfer: {{allow: [{HOST}], notify: [{secondary.address}]}}\n"
        records = RECORDS + f"new: {{A: [{address}]}}\n"
        sluicelib.build(sluicelib.write_tree(config, sluicelib.config_files({}, records=records, zone_yaml=zone)), data)

    write("192.0.2.1")
    server = start(data, "--tls-listen", f"{HOST}@{reserved.number}", "--tls-cert", cert, "--tls-key", key)
    try:
        secondary.start()
        secondary.wait_serial(1)
        assert secondary.transfer() == secondaries.transfer(server.port)
        write("192.0.2.2")
        server.reload()
        secondary.wait_serial(2)
        assert secondary.transfer() == secondaries.transfer(server.port)
        found = serverlib.counters(server)
        assert found["tls_established"] > 0 and found["tls_failed"] == 0
        assert found["transfers_whole"] + found["transfers_differences"] >= 4
    finally:
        secondary.kill()
        reserved.close()
