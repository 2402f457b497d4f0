"""Writes table.md: what the servers of one run did, side by side. `table.py FOLDER`"""

import json
import pathlib
import sys

GROUPS = {
    "vLLM": ["vllm", "model-sim"],
    "llama.cpp": ["llamacpp", "llamacpp-smollm2", "model-sim-llamacpp"],
}
ORDER = [
    "vllm", "vllm-spillway", "model-sim",
    "llamacpp", "llamacpp-smollm2", "llamacpp-smollm2-spillway", "model-sim-llamacpp",
]
STAGES = ("head", "body", "token", "done")


def main():
    folder = pathlib.Path(sys.argv[1])
    observed = {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}
    lines = [f"# Real model servers and model-sim, {folder.name}", ""]
    versions = [f"{name} is {one['version']}" for name in ORDER if (one := observed.get(name)) and one["version"]]
    lines += ["; ".join(versions) + ".", ""]
    lines += times({name: observed[name] for name in ORDER if name in observed})
    for title, names in GROUPS.items():
        lines += facts(title, {name: observed[name] for name in names if name in observed})
    (folder / "table.md").write_text("\n".join(lines))


def times(observed):
    lines = ["## Streams", "", "Milliseconds from the request, median (95th percentile).", ""]
    lines += row("server", "case", "prompt tokens", "head", "first body byte", "first token", "[DONE]", "token / head")
    lines += row("---", "---", *["---:"] * 6)
    for name, one in observed.items():
        for case, found in one["timings"].items():
            if "requests" not in found:
                continue
            spreads = (found[f"{stage}_ms"] for stage in STAGES)
            cells = (f"{spread['p50']:g} ({spread['p95']:g})" for spread in spreads)
            clients = f", {found['clients']} clients" if "clients" in found else ""
            lines += row(name, case + clients, found["prompt_tokens"], *cells, f"{found['token_by_head']:g}")
    lines += ["", "One stream sent while the batch is full of others:", ""]
    lines += row("server", "head", "first token") + row("---", "---:", "---:")
    for name, one in observed.items():
        if found := one["timings"].get("completions full"):
            lines += row(name, found["head_ms"], found["token_ms"])
    return [*lines, ""]


def facts(title, observed):
    lines = [f"## Facts: {title}", ""]
    lines += row("fact", "expected", *observed) + row("---", "---", *["---"] * len(observed))
    found = {name: {(x["about"], x["fact"]): x for x in one["facts"]} for name, one in observed.items()}
    for key in dict.fromkeys(key for of_one in found.values() for key in of_one):
        cells = [cell(of_one.get(key)) for of_one in found.values()]
        expected = next(of_one[key]["expected"] for of_one in found.values() if key in of_one)
        lines += row(f"{key[0]}: {key[1]}", expected, *cells)
    return [*lines, ""]


def cell(fact):
    if fact is None:
        return ""
    return f"{fact['seen']}" if fact["ok"] else f"{fact['seen']} **DIFFERENT**"


def row(*cells):
    return ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"]


if __name__ == "__main__":
    main()
