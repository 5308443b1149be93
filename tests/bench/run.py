#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The work of scripts/bench: builds sluice, runs the shared benchmark and what it lacks, reports."""
import argparse
import json
import os
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SHARED = os.path.abspath(os.environ.get("SLUICE_SHARED", os.path.join(ROOT, "..", "shared")))
PARTS = ("udp", "kinds", "tcp", "steer", "mem", "build", "reload", "instructions")
SHARED_PARTS = PARTS[:-1]  # what needs the shared load generators and zones
PEERS = {"nsd": "nsd", "knot": "knotd", "gdnsd": "gdnsd"}
KINDS = ("a", "aaaa", "wild", "cname", "deleg", "nx", "nodata", "mix", "steer")
ORIGIN = "bench.example"
RELOAD_PORT = 15290
SERVER_CORE, LOAD_CORE = 0, 1


def fail(text):
    sys.exit(f"scripts/bench: {text}")


def say(text):
    print(text, file=sys.stderr, flush=True)


class Report:
    """Markdown to stdout as it comes, and to a file."""

    def __init__(self, path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.file = open(path, "w", encoding="utf-8")

    def text(self, text):
        print(text, flush=True)
        self.file.write(text + "\n")
        self.file.flush()

    def table(self, head, rows):
        self.text("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
        for row in rows:
            self.text("| " + " | ".join(str(cell) for cell in row) + " |")
        self.text("")


def spread(values, form="{:.2f}"):
    middle, least, most = statistics.median(values), min(values), max(values)
    return f"{form.format(middle)} ({form.format(least)}..{form.format(most)})"


# ---- the machine and the programs ----------------------------------------------------------------


def first_match(path, pattern, otherwise="?"):
    with open(path, encoding="utf-8", errors="replace") as file:
        found = re.search(pattern, file.read(), re.M)
    return found[1].strip() if found else otherwise


def output(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (done.stdout + done.stderr).strip()


def describe_machine(report, options):
    def version(package):
        return output("dpkg-query", "-W", "-f", "${Version}", package) or "?"
    commit = output("git", "-C", ROOT, "describe", "--always", "--dirty", "--abbrev=12")
    rows = [
        ("date", time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())),
        ("sluice", commit or "?"),
        ("build", options.build),
        ("kernel", platform.release()),
        ("processor", first_match("/proc/cpuinfo", r"^model name\s*:(.*)$") + f", {os.cpu_count()} CPUs"),
        ("memory", first_match("/proc/meminfo", r"^MemTotal:\s*(.*)$")),
        ("load average at the start", " ".join(f"{x:.1f}" for x in os.getloadavg())),
        ("peers", ", ".join(f"{name} {version(name)}" for name, program in PEERS.items() if shutil.which(program))),
        ("rounds", options.rounds),
    ]
    report.text("# Benchmark\n")
    report.table(("", ""), rows)
    if os.getloadavg()[0] > 1:
        report.text("The machine was not idle: trust the ratios between rows of one table only.\n")


def build_programs(options):
    directory = options.build
    if not os.path.exists(f"{directory}/build.ninja"):
        subprocess.run(["meson", "setup", "--wrap-mode=nodownload", "--buildtype=release", "-Db_lto=true",
                        "-Dbench=true", directory, ROOT], check=True, stdout=subprocess.DEVNULL)
    targets = ["server/sluiced", "tools/sluice"]
    if "instructions" in options.only:
        targets.append("tests/bench/query_bench")
    subprocess.run(["ninja", "-C", directory] + targets, check=True, stdout=subprocess.DEVNULL)
    options.sluiced, options.sluice = (f"{directory}/{target}" for target in targets[:2])


# ---- zones ---------------------------------------------------------------------------------------


def built_zone(options, names):
    """The zone of so many names as a master file, and its build beside it."""
    import gen
    zone = gen.ensure(f"{options.work}/zone.{names}", lambda path: gen.zone(path, names))
    data = f"{zone}.data"
    if names not in options.builds:
        shutil.rmtree(data, ignore_errors=True)
        options.builds[names] = build_once(options, zone, data)
    return zone


def build_once(options, zone, data):
    before = time.monotonic()
    command = [options.sluice, "build", "--zone-file", zone, "--origin", ORIGIN, "--out", data]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        fail(f"'{' '.join(command)}' failed")
    current = f"{data}/current/zones"
    return {"wall": time.monotonic() - before, "user": usage.ru_utime, "system": usage.ru_stime,
            "rss": usage.ru_maxrss / 1024, "image": os.path.getsize(f"{current}/{ORIGIN}.image") / 1048576}


def report_builds(options, report):
    for names in options.sizes:
        built_zone(options, names)
    report.text("`sluice build` of the zone from its master file (master file and image written and synced)\n")
    report.table(("names", "s", "CPU user s", "CPU system s", "largest RSS MiB", "image MiB", "image bytes/name"),
                 [(names, f"{b['wall']:.2f}", f"{b['user']:.2f}", f"{b['system']:.2f}", f"{b['rss']:.0f}",
                   f"{b['image']:.1f}", f"{b['image'] * 1048576 / names:.0f}")
                  for names, b in sorted(options.builds.items())])


# ---- the shared benchmark ------------------------------------------------------------------------


def compile_echo(options):
    echo = f"{options.work}/echo"
    subprocess.run(["cc", "-O2", "-w", "-o", echo, f"{SHARED}/bench/floor/echo_mmsg.c"], check=True)
    return echo


def shared_bench(options, suites, *more):
    """One interleaved run of everybody; its tables, checks and single results."""
    python = sys.executable
    server = f"{options.sluiced} --threads 1 --listen 127.0.0.1@{{port}}"
    steer = "{dir}/data --geo {mmdb}"
    adapter = os.path.join(ROOT, "tests/bench/steer_config.py")
    peers = [name for name, program in PEERS.items() if shutil.which(program)]
    command = [f"{SHARED}/bench/run.sh", "--suite", ",".join(suites), "--only", ",".join(peers + ["ours"]),
               "--floor", f"echo={options.echo} {{port}}",
               "--ours", f"{server} --data {{zonefile}}.data",
               "--ours-steer", f"{server} --data {steer}",
               "--ours-steer-prepare", f"{python} {adapter} {{spec}} {{mode}} {{dir}} {options.sluice}",
               "--work", options.work, "--names", str(options.names), "--secs", str(options.seconds),
               "--core", str(SERVER_CORE), "--load-core", str(LOAD_CORE),
               "--json", f"{options.work}/results.json"]
    if options.quick:
        command += ["--noise", "100"]  # one try, whatever the neighbours do
    if options.mmdb:
        command += ["--mmdb", options.mmdb]
    process = subprocess.Popen(command + list(more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    checks = []
    for line in process.stderr:
        say("  " + line.rstrip())
        if line.startswith("check ") or "FAILED" in line:
            checks.append(line.strip())
    tables = process.stdout.read()
    if process.wait() != 0:
        fail("the shared benchmark failed (its messages are above)")
    with open(f"{options.work}/results.json", encoding="utf-8") as file:
        results = json.load(file)
    return tables, checks, results


def ratio_to(results, base, row, *path):
    """Median of the ratios inside each round: the machine's speed drifts between rounds."""
    def value(result):
        for key in path:
            result = result[key]
        return result
    pairs = [(value(a), value(b)) for a, b in zip(results.get(row, []), results.get(base, []))]
    ratios = [a / b for a, b in pairs if b]
    return f"{statistics.median(ratios):.2f}" if ratios else "-"


def report_ratios(options, report, results):
    """User time against gdnsd's, the fastest of the peers: what is left beside the kernel's work."""
    rows = []
    for part, name, base, path in (("udp", "ours", "gdnsd", ("udp",)), ("tcp", "ours", "gdnsd", ("tcpk",)),
                                   ("steer", "ours:weighted", "gdnsd:weighted", ()),
                                   ("steer", "ours:geo", "gdnsd:geo", ())):
        if part in options.only:
            rows.append((f"{part}, {name}", ratio_to(results, base, name, *path, "us_user"),
                         ratio_to(results, base, name, *path, "us_cpu")))
    report.text("sluice against gdnsd (median of the ratios inside each round)\n")
    report.table(("", "user", "total"), rows)


def report_memory(options, report, results):
    rows = []
    for names in options.sizes:
        for name in [peer for peer in PEERS if shutil.which(PEERS[peer])] + ["ours"]:
            runs = results.get(f"mem{names}:{name}", [])
            if runs:
                def cell(key, form, scale=1.0, runs=runs):
                    return spread([run[key] * scale for run in runs], form)
                rows.append((names, name, cell("pss_mb", "{:.1f}"), cell("load_s", "{:.0f}", 1000),
                             cell("us_user", "{:.2f}"), cell("pss_after_mb", "{:.1f}")))
    report.text("Memory (PSS of all processes) and start (exec to first answer)\n")
    report.table(("names", "server", "MiB", "start ms", "CPU user us/query", "MiB after load"), rows)


def report_servers(options, report):
    suites = [part for part in ("udp", "kinds", "tcp", "steer") if part in options.only]
    if suites:
        built_zone(options, options.names)
        say("-- servers")
        tables, checks, results = shared_bench(options, ["check"] + suites, "--runs", str(options.rounds))
        report.text(re.sub(r"^(?=[A-Z])", "\n", tables, flags=re.M).strip() + "\n")
        report_ratios(options, report, results)
        report.text("Same answers?\n")
        report.text("".join(f"- {check}\n" for check in dict.fromkeys(checks)))
    if "mem" in options.only:
        for names in options.sizes:
            built_zone(options, names)
        say("-- memory and start")
        sizes = ",".join(str(names) for names in options.sizes)
        _, _, results = shared_bench(options, ["mem"], "--mem-names", sizes,
                                     "--runs", str(min(options.rounds, 3)))
        report_memory(options, report, results)


# ---- reload under load ---------------------------------------------------------------------------


def wait_for_line(process, word, seconds=60):
    end = time.monotonic() + seconds
    for line in process.stderr:
        if re.search(rf"\b{word}\b", line):
            return
        if time.monotonic() > end:
            break
    fail(f"sluiced did not say '{word}'")


def reload_once(options, names, socket):
    """Queries all the time and one reload in between: what udpload saw, and ms of the reload."""
    seconds = 2
    load = subprocess.Popen(
        ["taskset", "-c", str(LOAD_CORE), f"{options.work}/udpload", "-p", str(RELOAD_PORT), "-f",
         f"{options.work}/queries.{names}", "-l", str(seconds), "-w", "0.2", "-q", "100", "-e"],
        stdout=subprocess.PIPE, text=True)
    time.sleep(seconds / 2)
    before = time.monotonic()
    subprocess.run([options.sluice, "reload", "--socket", socket], check=True, stdout=subprocess.DEVNULL)
    took = (time.monotonic() - before) * 1000
    return json.loads(load.communicate(timeout=60)[0]), took


def changed_zone(zone, number):
    """The zone with one more record."""
    changed = f"{zone}.changed"
    shutil.copyfile(zone, changed)
    with open(changed, "a", encoding="utf-8") as file:
        file.write(f"changed IN A 192.0.2.{number}\n")
    return changed


def reloads(options, names, rounds):
    import gen
    zone = built_zone(options, names)
    gen.ensure(f"{options.work}/queries.{names}", lambda path: gen.queries(path, names))
    socket = f"{options.work}/control"
    if os.path.exists(socket):
        os.unlink(socket)
    server = subprocess.Popen(
        ["taskset", "-c", str(SERVER_CORE), options.sluiced, "--threads", "1", "--listen",
         f"127.0.0.1@{RELOAD_PORT}", "--data", f"{zone}.data", "--control", socket],
        stderr=subprocess.PIPE, text=True)
    try:
        wait_for_line(server, "ready")
        results = []
        for number in range(rounds):
            build_once(options, changed_zone(zone, number), f"{zone}.data")
            results.append(reload_once(options, names, socket))
        return results
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(30)
        server.stderr.close()
        os.unlink(f"{zone}.changed")
        del options.builds[names]  # the data are another zone's now


def report_reload(options, report):
    subprocess.run(["cc", "-O2", "-w", "-o", f"{options.work}/udpload", f"{SHARED}/bench/udpload.c"], check=True)
    rows = []
    for names in options.sizes:
        results = reloads(options, names, min(options.rounds, 3))
        sent = sum(result["sent"] for result, _ in results)
        lost = sum(result["lost"] for result, _ in results)
        rows.append((names, len(results), spread([took for _, took in results], "{:.0f}"), sent, lost))
    report.text("Reload of a build with a changed zone, under load on the same two cores\n")
    report.table(("names", "reloads", "ms each", "queries meanwhile", "lost"), rows)


# ---- instructions --------------------------------------------------------------------------------


def instructions(options, kind, rounds):
    out = f"{options.work}/callgrind.out"
    done = subprocess.run(
        ["valgrind", "--tool=callgrind", "--collect-atstart=no", "--toggle-collect=run_batches*",
         f"--callgrind-out-file={out}", f"{options.build}/tests/bench/query_bench", "10000", str(rounds), kind],
        capture_output=True, text=True, check=False)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or not found:
        fail("query_bench under callgrind failed: " + done.stderr[-400:])
    return int(found[1]) / (4096 * (rounds + 1))


def report_instructions(options, report):
    if not shutil.which("valgrind"):
        report.text("Instructions per query: valgrind is not installed.\n")
        return
    say("-- instructions")
    report.text("Query path alone (no socket), 10 000 names: instructions per query by callgrind, CPU time natively\n")
    rows = []
    for kind in KINDS:
        native = output(f"{options.build}/tests/bench/query_bench", "10000", "300", kind)
        ns = re.search(r"([\d.]+) ns", native)
        rows.append((kind, f"{instructions(options, kind, 2):.0f}", ns[1] if ns else "?"))
    report.table(("kind", "instructions", "ns"), rows)


# ---- main ----------------------------------------------------------------------------------------


def parse():
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--mmdb")
    parser.add_argument("--build", default=os.path.join(ROOT, "build/bench"))
    parser.add_argument("--no-deps", action="store_true")
    options = parser.parse_args()
    options.only = options.only.split(",")
    for part in options.only:
        if part not in PARTS:
            fail(f"unknown part '{part}'; there are {', '.join(PARTS)}")
    options.rounds = options.rounds or (1 if options.quick else 5)
    options.seconds = 1 if options.quick else 4
    options.names = 10000
    options.sizes = [10000] if options.quick else [10000, 100000, 1000000]
    options.build = os.path.abspath(options.build)
    options.mmdb = options.mmdb and os.path.abspath(options.mmdb)
    options.work = os.path.join(options.build, "work")
    options.builds = {}
    os.makedirs(options.work, exist_ok=True)
    return options


def main():
    options = parse()
    needs_shared = [part for part in options.only if part in SHARED_PARTS]
    if needs_shared and not os.path.exists(f"{SHARED}/bench/run.sh"):
        fail(f"{SHARED}/bench/run.sh is not there: it has the load generators and the peers' configuration.\n"
             "Name its folder with SLUICE_SHARED=DIR, or measure the query path alone: --only instructions")
    if needs_shared and (os.cpu_count() or 1) < 2:
        fail("server and load generator need a core each")
    sys.path.insert(0, f"{SHARED}/bench")
    build_programs(options)
    report = Report(os.path.join(ROOT, "build/bench-report.md"))
    describe_machine(report, options)
    if needs_shared:
        options.echo = compile_echo(options)
    if "build" in options.only:
        report_builds(options, report)
    report_servers(options, report)
    if "reload" in options.only:
        report_reload(options, report)
    if "instructions" in options.only:
        report_instructions(options, report)
    say(f"the report is in {report.file.name}")


if __name__ == "__main__":
    main()
