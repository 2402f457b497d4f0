"""The prompt cache of llama.cpp, in its counters and `usage`: no blocks, one sequence of tokens per slot."""

import functools

import page
import prompts
import wire
from facts import settled

LENGTH = 200
SHARERS = 4


def measure(facts, server):
    def counters():
        read = page.read(server.url)
        return tuple(int(read.value(f"llamacpp:{what}_total")) for what in ("prompt_tokens", "prompt_tokens_cached"))

    def send(*prompts_, max_tokens=1):
        """Usages, and tokens computed and taken from the cache by the counters."""
        body = {"model": server.model, "max_tokens": max_tokens, "ignore_eos": True}
        before, total = counters(), sum(map(len, prompts_))
        calls = [functools.partial(wire.ask, server.url, "/v1/completions", body | {"prompt": p}) for p in prompts_]
        usages = [answer["usage"] for answer in wire.at_once(calls)]
        settled(lambda: sum(counters()) - sum(before), total)
        computed, cached = (after - was for after, was in zip(counters(), before))
        return usages, computed, cached

    prompt = prompts.ids(LENGTH)
    usages, computed, cached = send(prompt)
    facts.add("cache", "a new prompt: tokens computed, by the counter", LENGTH, computed)
    facts.add("cache", "a new prompt: tokens cached, by the counter", 0, cached)
    usages, computed, cached = send(prompt)
    facts.add("cache", "the same again: tokens cached (all but the last)", LENGTH - 1, cached)
    facts.add("cache", "the same again: the counter of prompt tokens is without cached ones", 1, computed)
    details = usages[0].get("prompt_tokens_details") or {}
    facts.add("cache", "cached_tokens in usage are the tokens cached", cached, details.get("cached_tokens"))
    facts.add("cache", "prompt_tokens in usage are all tokens, cached or not", LENGTH, usages[0]["prompt_tokens"])
    _, _, cached = send(prompt[:130] + prompts.ids(LENGTH - 130))
    facts.add("cache", "the first 130 tokens are the same: tokens cached, by the token", 130, cached)
    _, _, cached = send([prompt[0] ^ 1, *prompt[1:]])
    facts.add("cache", "all but the first token is the same: tokens cached", 0, cached)
    prompt = prompts.ids(LENGTH)
    _, _, cached = send(*[prompt] * SHARERS, max_tokens=64)
    facts.add("cache", f"{SHARERS} requests of one new prompt at once: tokens cached (slots share nothing)", 0, cached)
    prompt = prompts.ids(LENGTH)
    send(prompt)
    for _ in range(2 * server.slots):
        send(prompts.ids(LENGTH))
    _, _, cached = send(prompt)
    facts.add("cache", "a prompt again when every slot has had two others: tokens cached", LENGTH - 1, cached)
