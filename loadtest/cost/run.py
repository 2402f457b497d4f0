#!/usr/bin/env python3
"""What Spillway costs against a bare Pingora proxy, Envoy and nginx.

Wall-clock time and requests per second say more about a machine and its neighbours than about a proxy. So every proxy
gets the same fixed number of requests and the CPU time of its processes is counted, by the kernel's own account. Runs are
interleaved there and back (A B B A), and a ratio is always of runs side by side. Origin and clients have one core, the
proxy another. Spillway's background work (probes, scrapes, log) is in its figures; the idle case shows it alone.
"""

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

import proxies
import usage

ENDPOINTS = 4
SIZES = {"2k": 2_000, "8k": 8_000, "38k": 38_000, "1m": 1_000_000}
SMALL = SIZES["2k"]

# Streams at once, 20 ms between two events: 5,000 events a second, below what any of the proxies can carry on one core,
# so that each event is passed on alone.
STREAMS, EVENTS, PACE = 100, 200, "20ms"

# A client that goes away leaves after the first event of a stream that would go on for a minute.
LEAVES = ["--events", 3_000, "--pace", PACE]

# Requests a second and sizes of the body with which time to first byte is measured.
RATES = [("2k", 100), ("8k", 100), ("38k", 50), ("38k", 100), ("38k", 200), ("1m", 50)]

CASES = {
    "2k": ("2 KB chat, CPU per request", "cpu_us", "µs"),
    "8k": ("8 KB chat, CPU per request", "cpu_us", "µs"),
    "38k": ("38 KB chat, CPU per request", "cpu_us", "µs"),
    "1m": ("1 MB chat, CPU per request", "cpu_us", "µs"),
    "sse": ("SSE, CPU per event", "cpu_us", "µs"),
    "cancel": ("SSE, the client leaves after one event, CPU per request", "cpu_us", "µs"),
    "memory": ("memory per open stream", "kb_per_stream", "KB"),
    **{f"{size}@{rate}": (f"time to first byte added, {size[:-1]} {size[-1:].upper()}B at {rate}/s, p50", "added_p50_us", "µs")
       for size, rate in RATES},
    "idle": ("idle, CPU per second", "cpu_us", "µs"),
}


class Load:
    """A cost-load process: started, warm, then told to go."""

    def __init__(self, bench, *arguments):
        command = ["taskset", "-c", bench.load_cores, str(bench.setup.built / "cost-load"), *map(str, arguments)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        self.expect("ready")
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        proxies.end(self.process)

    def go(self, line=""):
        """Sends a line and returns the one that comes back."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        if not answer:
            raise RuntimeError("the clients failed")
        return answer

    def expect(self, line):
        if self.process.stdout.readline().strip() != line:
            raise RuntimeError("the clients failed")


class Bench:
    """Runs one case through one proxy at a time."""

    def __init__(self, setup, origin, load_cores, quick):
        self.setup, self.origin, self.load_cores, self.quick = setup, origin, load_cores, quick

    def measure(self, case, kind):
        """The figures of one run through a proxy started for it."""
        with self.setup.running(kind) as proxy:
            if case == "memory":
                return self.memory(proxy)
            if "@" in case:
                return self.latency(proxy, *case.split("@"))
            if case == "idle":
                return self.idle(proxy)
            return self.cpu(proxy, case)

    def cpu(self, proxy, case):
        # About half a second of CPU in a quick run, so that what happens once is small beside it.
        usual = {"2k": 10_000, "8k": 8_000, "38k": 5_000, "1m": 400, "sse": STREAMS, "cancel": 3_000}
        count = usual[case] * (1 if self.quick else 2)
        per = count * EVENTS if case == "sse" else count
        stream = {"sse": ["--connections", STREAMS, "--events", EVENTS, "--pace", PACE], "cancel": LEAVES}.get(case, [])
        warm = STREAMS if case == "sse" else count // 5
        mode = "leave" if case == "cancel" else "closed"
        size = SIZES.get(case, SMALL)
        first = proxy.counted()
        with Load(self, mode, proxy.address, "--size", size, "--count", count, "--warm", warm, *stream) as load:
            # That a client has left may be noticed a moment later.
            counted = None if first is None else first + warm
            if counted is not None and not proxy.counts(counted):
                raise RuntimeError(f"{proxy.counted() - first} requests counted of {warm}")
            before, origin = usage.of(proxy.pid), usage.of(self.origin.pid)
            seconds = json.loads(load.go())["seconds"]
            used, origin = usage.since(proxy.pid, before), usage.since(self.origin.pid, origin)
            if counted is not None and not proxy.counts(counted + count):
                raise RuntimeError(f"{proxy.counted() - counted} requests counted of {count}")
        return {
            "cpu_us": used["cpu"] * 1e6 / per,
            "system_share": used["system"] / max(used["user"] + used["system"], usage.TICK),
            "waits": used["waits"] / per,
            "preempted": used["preempted"] / per,
            "origin_cpu_us": origin["cpu"] * 1e6 / per,
            "requests_per_s": count / seconds,
        }

    def memory(self, proxy):
        with Load(self, "hold", proxy.address, "--size", SMALL, "--events", 2) as load:
            # The first hundred pay for what exists once.
            few, many = 100, 600
            load.go(str(few))
            base = usage.memory(proxy.pid)
            load.go(str(many))
            grown = usage.memory(proxy.pid)
        return {"kb_per_stream": (grown - base) / 1024 / (many - few), "mb_at_100": base / 1024 / 1024}

    def latency(self, proxy, size, rate):
        count = int(rate) * (5 if self.quick else 20)
        direct = f"127.0.0.1:{self.setup.endpoints[0]}"
        arguments = ["--size", SIZES[size], "--events", 2, "--rate", rate, "--count", count, "--warm", 100]
        with Load(self, "open", direct, proxy.address, *arguments) as load:
            before = usage.of(proxy.pid)
            straight, through = (one["first_byte_us"] for one in json.loads(load.go()))
            used = usage.since(proxy.pid, before)
        added = {f"added_{name}_us": through[name] - straight[name] for name in ("p50", "p90", "p99")}
        return added | {"direct_p50_us": straight["p50"], "direct_p99_us": straight["p99"],
                        "cpu_us": used["cpu"] * 1e6 / count, "waits": used["waits"] / count}

    def idle(self, proxy):
        time.sleep(1)
        before, began = usage.of(proxy.pid), time.monotonic()
        time.sleep(3 if self.quick else 10)
        used, seconds = usage.since(proxy.pid, before), time.monotonic() - began
        return {"cpu_us": used["cpu"] * 1e6 / seconds, "waits": used["waits"] / seconds}


def machine():
    """What of a machine the figures depend on; the load average tells of neighbours."""
    cpus = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.partition(":")[2].strip() for line in cpus if line.startswith("model name")]
    return {"cpu": models[0] if models else platform.machine(), "cores": os.cpu_count(), "kernel": platform.release(),
            "load": os.getloadavg()[0]}


def short(value):
    """Three digits that count."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def spread(values):
    return f"{short(statistics.median(values))} ({short(min(values))} to {short(max(values))})"


def table(report):
    """One row per case and proxy."""
    at = report["machine"]
    lines = [
        f"{report['date']}, {at['cpu']}, {at['cores']} cores, Linux {at['kernel']}, load average {at['load']:.1f} at the "
        f"start; profile {report['profile']}, {report['threads']} thread(s) per proxy, {report['repetitions']} repetitions",
        "",
        *(f"- {proxies.NAMES[kind]}: {version}" for kind, version in report["versions"].items()),
        "",
        "Medians, in brackets least to most. Ratios are of runs side by side.",
        "",
        "| case | proxy | figure | ratio to bare | beside it |",
        "|---|---|---:|---:|---|",
    ]
    for case, (title, headline, unit) in CASES.items():
        for kind in report["versions"]:
            runs = by_repetition(report, case, kind)
            if not runs:
                continue
            bare = by_repetition(report, case, "bare")
            ratios = [run[headline] / bare[nth][headline] for nth, run in runs.items() if bare.get(nth, {}).get(headline)]
            beside = {name: statistics.median(run[name] for run in runs.values()) for name in next(iter(runs.values()))}
            del beside[headline]
            lines.append(
                f"| {title} | {proxies.NAMES[kind]} | {spread([run[headline] for run in runs.values()])} {unit} | "
                f"{spread(ratios) if ratios and kind != 'bare' and case != 'idle' else ''} | "
                f"{', '.join(f'{name} {short(value)}' for name, value in beside.items())} |"
            )
    return "\n".join(lines) + "\n"


def by_repetition(report, case, kind):
    runs = (run for run in report["runs"] if run["case"] == case and run["proxy"] == kind)
    return {run["repetition"]: run["figures"] for run in runs}


def build(profile):
    """Builds what is compared and what compares it, in one command so that all share their dependencies."""
    bins = ["--bin", "spillway", "--bin", "cost-origin", "--bin", "cost-load", "--example", "bare_proxy"]
    command = ["cargo", "build", "--profile", profile, "--locked", "-p", "spillway", "-p", "spillway-cost", *bins]
    subprocess.run(command, cwd=proxies.ROOT, check=True)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", proxies.ROOT / "target"))
    return target / profile


@contextlib.contextmanager
def origin_at(built, cores):
    process = subprocess.Popen(["taskset", "-c", cores, str(built / "cost-origin"), str(ENDPOINTS)],
                               stdout=subprocess.PIPE, text=True)
    try:
        yield process, [int(port) for port in process.stdout.readline().split()]
    finally:
        proxies.end(process)


def names(among):
    def parse(text):
        unknown = set(text.split(",")) - set(among)
        if unknown:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: not one of {', '.join(among)}")
        return [one for one in among if one in text.split(",")]
    return parse


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two repetitions of half the requests, for a first look")
    parser.add_argument("--profile", choices=["release", "dist"], default="release")
    parser.add_argument("--only", type=names(proxies.NAMES), default=proxies.USUAL, metavar="PROXY,...",
                        help=", ".join(proxies.NAMES))
    parser.add_argument("--cases", type=names(CASES), default=list(CASES), metavar="CASE,...", help=", ".join(CASES))
    parser.add_argument("--repetitions", type=int, help="5, or 2 with --quick")
    parser.add_argument("--threads", type=int, default=1, help="that carry requests, in every proxy")
    parser.add_argument("--proxy-cores", default="1", help="as taskset takes them")
    parser.add_argument("--load-cores", default="0", help="for origin and clients")
    parser.add_argument("--results", type=pathlib.Path, help="a folder other than results/DATE beside this program")
    arguments = parser.parse_args()

    built = build(arguments.profile)
    now = datetime.datetime.now(datetime.timezone.utc)
    repetitions = arguments.repetitions or (2 if arguments.quick else 5)
    with origin_at(built, arguments.load_cores) as (origin, endpoints):
        setup = proxies.Setup(built, endpoints, arguments.threads, arguments.proxy_cores)
        kinds = [kind for kind in arguments.only if setup.program(kind)]
        for kind in set(arguments.only) - set(kinds):
            print(f"{proxies.NAMES[kind]} is not installed and is left out", file=sys.stderr)
        report = {
            "date": now.isoformat(timespec="seconds"), "machine": machine(), "profile": arguments.profile,
            "threads": arguments.threads, "proxy_cores": arguments.proxy_cores, "load_cores": arguments.load_cores,
            "quick": arguments.quick, "repetitions": repetitions,
            "versions": {kind: setup.version(kind) for kind in kinds}, "runs": [],
        }
        bench = Bench(setup, origin, arguments.load_cores, arguments.quick)
        for case in arguments.cases:
            for repetition in range(repetitions):
                # There and back: a drift of the machine falls on all alike.
                for kind in kinds if repetition % 2 == 0 else reversed(kinds):
                    figures = bench.measure(case, kind)
                    said = ", ".join(f"{name} {short(value)}" for name, value in figures.items())
                    print(f"{case:8}{kind:18}{said}", file=sys.stderr, flush=True)
                    report["runs"].append({"case": case, "proxy": kind, "repetition": repetition, "figures": figures})
    print(table(report))
    folder = arguments.results or proxies.HERE / "results" / now.date().isoformat()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(report, indent=1) + "\n")
    (folder / "table.md").write_text(table(report))


if __name__ == "__main__":
    main()
