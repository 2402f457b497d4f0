"""The metrics page: whether it has what the gateway reads, and what model-sim shows of the same engine."""

import json
import pathlib
import re

import page

# The gateway's own table is read, so that the two cannot differ.
NAMES = pathlib.Path(__file__).parent.parent.parent / "gateway/src/engine/names.rs"
TABLES = {"vllm": "VLLM", "llamacpp": "LLAMA_CPP"}
ROW = re.compile(r'row\("(\w+)", Signal::(\w+)\)(?:\.number_in\("(\w+)"\))?')
# What is compared of a family, and what it is called.
PARTS = {"type": "type", "labels": "labels", "values": "values of labels", "buckets": "bounds of buckets"}
# Signals that current versions do not have, with the version that had them last; the gateway does without.
GONE = {("vllm", "AlsoQueued"): "0.10", ("llamacpp", "KvUsage"): "2025"}


def measure(facts, server, against):
    """Compares the page with the gateway's table and the families of another observation; returns its families."""
    prefix = server.engine + ":"
    read = page.read(server.url)
    found = read.families(prefix)
    wanted(facts, server, read, prefix)
    if against:
        compare(facts, found, json.loads(pathlib.Path(against).read_text())["families"])
    return found


def wanted(facts, server, read, prefix):
    table = re.search(rf"static {TABLES[server.engine]}: .*?\n}};", NAMES.read_text(), re.DOTALL).group()
    by_signal = {}
    for name, signal, label in ROW.findall(table):
        by_signal.setdefault(signal, []).append((name, label))
    for signal, rows in by_signal.items():
        if signal == "Adapters" and not server.adapter:
            continue
        names = " or ".join(f"{name}{{{label}}}" if label else name for name, label in rows)
        seen = [f"{name}{{{label}}}" if label else name for name, label in rows if tells(read, prefix + name, label)]
        last = GONE.get((server.engine, signal))
        expected = f"none since {last}" if last else "a gauge with a number"
        facts.add("metrics", f"what the gateway reads as {signal}: {names}", expected, ", ".join(seen) or "none",
                  bool(seen) != bool(last))


def tells(read, name, label):
    if read.types.get(name) != "gauge":
        return False
    value = read.label(name, label) if label else read.value(name)
    try:
        return value is not None and float(value) >= 0
    except ValueError:
        return False


def compare(facts, real, simulated):
    both = sorted(real.keys() & simulated.keys())
    extra, missing = sorted(simulated.keys() - real.keys()), sorted(real.keys() - simulated.keys())
    facts.add("metrics", "families of model-sim that the real page has", f"all {len(simulated)}",
              f"{len(both)}" + (", without " + ", ".join(extra) if extra else ""), not extra)
    facts.add("metrics", "families of the real page that model-sim has", f"all {len(real)}",
              f"{len(both)}" + (", without " + ", ".join(missing) if missing else ""), not missing)
    for part, what in PARTS.items():
        different = [name for name in both if real[name].get(part) != simulated[name].get(part)]
        facts.add("metrics", f"families with the same {what} on both pages", f"all {len(both)}",
                  f"{len(both) - len(different)}", not different)
        for name in different:
            ours, theirs = simulated[name].get(part), real[name].get(part)
            facts.add("metrics", f"{what} of {name}, of model-sim and here", *difference(ours, theirs), ok=False)


def difference(simulated, real):
    """Both as text, lists without what they share."""
    if isinstance(simulated, list) and isinstance(real, list):
        return only(simulated, real), only(real, simulated)
    return str(simulated), str(real)


def only(these, those):
    return ", ".join(["what both have", *(x for x in these if x not in those)])
