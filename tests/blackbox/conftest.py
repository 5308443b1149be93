# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the black-box tests; what they are made of is in sluicelib.py."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import sluicelib  # noqa: E402


@pytest.fixture
def make_config(tmp_path):
    """make_config({"cdn": domain_yaml}, ...) writes a configuration directory; see config_files()."""
    def make(domains=None, name="config", files=None, **options):
        tree = sluicelib.config_files(domains, **options)
        tree.update(files or {})
        return sluicelib.write_tree(tmp_path / name, tree)
    return make


@pytest.fixture
def start(tmp_path):
    """start(config_or_data, ...) builds (when given a configuration) and starts sluiced.

    Each server is stopped at the end of the test; it must then exit with 0 and without any report
    of a sanitizer.
    """
    servers = []

    def run(source, *options, **keywords):
        source = pathlib.Path(source)
        data = source
        if not (source / "current").exists():
            data = tmp_path / f"data{len(servers)}"
            sluicelib.build(source, data)
        server = sluicelib.Server(data, *options, **keywords)
        servers.append(server)
        return server

    yield run
    problems = []
    for server in servers:
        try:
            if server.proc.returncode is None:
                server.stop()
            server.check_sanitizers()
        except AssertionError as problem:
            server.kill()
            problems.append(str(problem))
    assert not problems, "\n".join(problems)


@pytest.fixture(scope="session")
def city_mmdb():
    """The test database in the GeoIP2 City schema (tests/geo)."""
    return str(sluicelib.REPO / "tests/geo/test-city.mmdb")


@pytest.fixture
def places():
    """Client networks of the city database: where they are -> ECS network."""
    return {"ca-qc": "198.51.100.7/32", "ca": "198.51.100.200/32", "us-ny": "192.0.2.9/32",
            "fr": "203.0.113.100/32", "no": "203.0.113.5/32"}


# A test that is skipped shows nothing: it counts as a failure of the run.
_skipped = []


def pytest_runtest_logreport(report):
    if report.skipped:
        _skipped.append(report.nodeid)


def pytest_sessionfinish(session, exitstatus):
    if _skipped and exitstatus == 0:
        session.exitstatus = 1


def pytest_terminal_summary(terminalreporter):
    if _skipped:
        terminalreporter.write_line(f"skipped tests count as failures: {', '.join(_skipped)}")
