"""The running and waiting gauges while there are more requests than the batch holds, and whether the server answers.

A server that answers neither a scrape nor a probe while it is busy looks like a dead one.
"""

import functools
import threading
import time

import page
import prompts
import wire
from facts import settled

GAUGES = {
    "vllm": ("vllm:num_requests_running", "vllm:num_requests_waiting"),
    "llamacpp": ("llamacpp:requests_processing", "llamacpp:requests_deferred"),
}
EXTRA, TIMES = 4, 4
# Of an ordinary server, and of a slow one.
PROMPT_TOKENS, OUTPUT_TOKENS = 20, (220, 40)
# What the gateway gives a scrape by default.
TIMEOUT_S = 1.0


def until_running(server, count):
    """Waits until so many requests run."""
    if settled(lambda: page.read(server.url).value(GAUGES[server.engine][0]), count, seconds=60) != count:
        raise RuntimeError(f"the server never ran {count} requests at once")


def measure(facts, server):
    for requests in (server.slots + EXTRA, TIMES * server.slots):
        crowd(facts, server, requests)


def crowd(facts, server, requests):
    """So many requests at once."""
    running, waiting = GAUGES[server.engine]
    body = {"model": server.model, "max_tokens": OUTPUT_TOKENS[server.few], "ignore_eos": True}
    bodies = [body | {"prompt": prompts.ids(PROMPT_TOKENS)} for _ in range(requests)]
    calls = [functools.partial(wire.ask, server.url, "/v1/completions", body) for body in bodies]
    seen, slowest, over = [], {}, threading.Event()

    def watch(path):
        while not over.is_set():
            began = time.monotonic()
            reply = wire.exchange(server.url, path)
            slowest[path] = max(slowest.get(path, 0), time.monotonic() - began)
            if path == "/metrics":
                read = page.Page(reply.body.decode())
                reasons = [read.value(f"{waiting}_by_reason", reason=reason) for reason in ("capacity", "deferred")]
                seen.append((read.value(running), read.value(waiting), reasons))
            over.wait(0.02)

    watchers = [threading.Thread(target=watch, args=(path,)) for path in ("/metrics", "/health")]
    for watcher in watchers:
        watcher.start()
    try:
        wire.at_once(calls)
    finally:
        over.set()
        for watcher in watchers:
            watcher.join()
    about = f"{requests} requests at {server.slots} slots"
    facts.add("batch", f"{about}: most running", server.slots, int(max(r for r, _, _ in seen)))
    full = [(w, reasons) for r, w, reasons in seen if r == server.slots]
    most = int(max((w for w, _ in full), default=0))
    facts.add("batch", f"{about}: most waiting while {server.slots} run", requests - server.slots, most)
    if server.engine == "vllm":
        sums = all(w == sum(reasons) for _, w, reasons in seen)
        facts.add("batch", f"{about}: waiting is the sum of its reasons", "always", "always" if sums else "not always")
        capacity = int(max((reasons[0] for _, reasons in full), default=0))
        facts.add("batch", f"{about}: most waiting for capacity", requests - server.slots, capacity)
    for path, took in sorted(slowest.items()):
        facts.add("batch", f"{about}: slowest answer of {path}", f"under {TIMEOUT_S:g} s", f"{took:.2f} s",
                  took < TIMEOUT_S)
    after = settled(lambda: [page.read(server.url).value(gauge) for gauge in (running, waiting)], [0.0, 0.0])
    facts.add("batch", f"{about}: running and waiting when all have ended", "0, 0", ", ".join(f"{x:g}" for x in after))
