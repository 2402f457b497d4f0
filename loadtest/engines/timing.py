"""When a stream's head, first body byte, first token and [DONE] come, of an idle server and of a loaded one.

The head is what tools call time to first byte. It is not the time to the first token: a server that streams may send it
as soon as it has read the request, and load moves the first token away from it.
"""

import functools
import json
import statistics

import batch
import page
import prompts
import wire

# Of an ordinary server, and of a slow one.
PROMPT_TOKENS, IDLE_REQUESTS, ROUNDS = (1200, 150), (20, 5), (3, 1)
OUTPUT_TOKENS = 16
FILL_TOKENS = 200
# llama.cpp sends it when the request gets its slot, since 2026; before, with the first token.
HEAD_WHEN_FULL = {"vllm": "at once", "llamacpp": "with its place"}
STAGES = ("head", "body", "token", "done")


def measure(facts, server):
    """Measures and returns the times; `server.held` says that the head must come with the first token."""
    words = words_for(server, PROMPT_TOKENS[server.few])
    makers = {"chat": functools.partial(chat, server, words), "completions": functools.partial(completions, server)}
    for make in makers.values():
        stream(server, make())
    found = {}
    for surface, make in makers.items():
        found[f"{surface} idle"] = summary([stream(server, make()) for _ in range(IDLE_REQUESTS[server.few])])
    for surface, make in makers.items():
        before = engine_ttft(server)
        clients = 2 * server.slots
        loop = lambda make=make: [stream(server, make()) for _ in range(ROUNDS[server.few])]
        replies = [reply for replies in wire.at_once([loop] * clients) for reply in replies]
        found[f"{surface} loaded"] = summary(replies) | {"clients": clients}
        compare_with_engine(facts, server, surface, before, replies)
    for name, times in found.items():
        judge(facts, server, name, times)
    if not server.held:
        found["completions full"] = full(facts, server)
    return found


def full(facts, server):
    """A stream for which there is no room yet: does its head wait for a place in the batch?"""
    long = options(server) | {"prompt": prompts.ids(20), "max_tokens": FILL_TOKENS}
    calls = [lambda: stream(server, ("/v1/completions", long))] * server.slots
    late = []

    def then():
        batch.until_running(server, server.slots)
        late.append(stream(server, completions(server)))

    wire.at_once([*calls, then])
    head, token = (round(late[0][stage] * 1e3, 1) for stage in ("head", "token"))
    seen = "at once" if head < 0.2 * token else "with its place" if head < 0.95 * token else "with the first token"
    facts.add("timing", "a stream for which the batch has no place yet: its head comes", HEAD_WHEN_FULL[server.engine],
              seen)
    return {"head_ms": head, "token_ms": token}


def judge(facts, server, name, times):
    head, body, token = (times[f"{stage}_ms"]["p50"] for stage in ("head", "body", "token"))
    seen = f"head {head} ms, first token {token} ms"
    if server.held:
        facts.add("timing", f"{name}: the head comes with the first token", "within 5 %", seen, token <= 1.05 * head)
    elif name.endswith("loaded") and server.engine == "vllm":
        facts.add("timing", f"{name}: the head comes long before the first token", "2 times or more earlier", seen,
                  token >= 2 * head)
    else:
        facts.add("timing", f"{name}: the head comes before the first token", "earlier", seen, token > 1.05 * head)
    facts.add("timing", f"{name}: the first body byte comes with the first token", "within 5 %",
              f"first body byte {body} ms, first token {token} ms", token <= 1.05 * body)


def engine_ttft(server):
    """The engine's own sum and count of times to the first token."""
    if server.engine != "vllm" or server.held:
        return None
    read = page.read(server.url)
    return tuple(read.value(f"vllm:time_to_first_token_seconds_{what}") for what in ("sum", "count"))


def compare_with_engine(facts, server, surface, before, replies):
    if before is None:
        return
    after = engine_ttft(server)
    engine = (after[0] - before[0]) / (after[1] - before[1]) * 1e3
    client = statistics.fmean(reply["token"] for reply in replies) * 1e3
    facts.add("timing", f"{surface} loaded: the engine's own TTFT is the client's", "within 25 %",
              f"mean of engine {engine:.0f} ms, of client {client:.0f} ms", abs(engine - client) <= 0.25 * client)


def words_for(server, tokens):
    """How many words make a chat prompt of about so many tokens."""
    return int(50 * tokens / stream(server, chat(server, 50))["prompt_tokens"])


def chat(server, words):
    return "/v1/chat/completions", options(server) | {"messages": [{"role": "user", "content": prompts.words(words)}]}


def completions(server):
    return "/v1/completions", options(server) | {"prompt": prompts.ids(PROMPT_TOKENS[server.few])}


def options(server):
    return {"model": server.model, "max_tokens": OUTPUT_TOKENS, "ignore_eos": True, "stream": True,
            "stream_options": {"include_usage": True}}


def stream(server, request):
    """Sends a streaming request and returns the stages, in seconds, and its prompt's length."""
    reply = wire.exchange(server.url, *request)
    events = reply.events()
    if reply.status != 200 or not events or events[-1][1] != b"[DONE]":
        raise RuntimeError(f"{request[0]}: {reply.status}, a stream without [DONE]: {reply.body[-300:]!r}")
    done, parsed = events[-1][0], [(at, json.loads(data)) for at, data in events[:-1]]
    token = next(at for at, event in parsed if any(has_token(choice) for choice in event.get("choices", ())))
    usage = next(event["usage"] for _, event in reversed(parsed) if event.get("usage"))
    return {"head": reply.head_s, "body": reply.first_byte_s, "token": token, "done": done,
            "prompt_tokens": usage["prompt_tokens"]}


def has_token(choice):
    delta = choice.get("delta") or {}
    return any(choice.get("text") or delta.get(field) for field in ("content", "reasoning_content", "reasoning"))


def summary(replies):
    times = {f"{stage}_ms": spread([reply[stage] * 1e3 for reply in replies]) for stage in STAGES}
    ratio = times["token_ms"]["p50"] / times["head_ms"]["p50"]
    tokens = statistics.median_low(reply["prompt_tokens"] for reply in replies)
    return {"requests": len(replies), "prompt_tokens": tokens, "token_by_head": round(ratio, 1)} | times


def spread(values):
    ordered = sorted(values)
    return {"p50": round(statistics.median(ordered), 1), "p95": round(ordered[int(0.95 * (len(ordered) - 1) + 0.5)], 1)}
