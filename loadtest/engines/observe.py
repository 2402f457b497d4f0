#!/usr/bin/env python3
"""Observes a running model server and writes down the facts that the simulator and the gateway rest on.

Each fact is one line: what it is about, what was expected, what was seen, and `ok` or `DIFFERENT`. A different fact is
a result, not a failure: the exit status is 0 when everything could be observed.
"""

import argparse
import dataclasses
import json
import pathlib

import batch
import cache
import families
import slots
import timing
from facts import Facts


@dataclasses.dataclass
class Server:
    url: str
    engine: str
    model: str
    adapter: str | None
    slots: int
    held: bool
    few: bool


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--engine", required=True, choices=["vllm", "llamacpp"])
    parser.add_argument("--model", required=True)
    parser.add_argument("--adapter", help="name of a LoRA adapter the server has")
    parser.add_argument("--slots", type=int, default=16, help="sequences the server runs at once (default 16)")
    parser.add_argument("--against", metavar="FILE", help="observation of model-sim to compare the metrics page with")
    parser.add_argument("--held", action="store_true", help="the URL is a gateway that holds heads back: times only")
    parser.add_argument("--few", action="store_true", help="fewer and shorter requests, for a slow model")
    parser.add_argument("--version", help="what the server is, for the record")
    parser.add_argument("--json", metavar="FILE", help="where to write what was found")
    given = parser.parse_args()
    server = Server(given.url.rstrip("/"), given.engine, given.model, given.adapter, given.slots, given.held, given.few)
    facts = Facts()
    found = {"engine": server.engine, "version": given.version, "slots": server.slots}
    found["timings"] = timing.measure(facts, server)
    if not server.held:
        found["cache"] = (cache if server.engine == "vllm" else slots).measure(facts, server)
        batch.measure(facts, server)
        # Last: some families have no series before their first event.
        found["families"] = families.measure(facts, server, given.against)
    found["facts"] = facts.found
    if given.json:
        pathlib.Path(given.json).write_text(json.dumps(found, indent=1) + "\n")
    different = sum(not fact["ok"] for fact in facts.found)
    print(f"{len(facts.found)} facts, {different} DIFFERENT")


if __name__ == "__main__":
    main()
