"""The prefix cache of an engine with blocks, in its own counters: what is hit, what is counted, what is evicted first.

Prompts are lists of token ids, so their lengths are exact. One block of the engine's number is the null block, which
holds nothing.
"""

import functools
import threading

import page
import prompts
import wire
from facts import settled

USAGE = "vllm:kv_cache_usage_perc"
LENGTH = 8  # blocks of an ordinary prompt
SHARERS = 4


class Cache:
    def __init__(self, facts, server):
        read = page.read(server.url)
        self.facts, self.server = facts, server
        self.block = int(read.label("vllm:cache_config_info", "block_size"))
        self.usable = int(read.label("vllm:cache_config_info", "num_gpu_blocks")) - 1

    def counters(self):
        read = page.read(self.server.url)
        return tuple(int(read.value(f"vllm:prefix_cache_{what}_total")) for what in ("queries", "hits"))

    def complete(self, body):
        return wire.ask(self.server.url, "/v1/completions", body)

    def send(self, *prompts_, max_tokens=1, **other):
        """Sends prompts at once; returns their usages and what they added to queried and hit tokens."""
        body = {"model": self.server.model, "max_tokens": max_tokens, "ignore_eos": True} | other
        before = self.counters()
        calls = [functools.partial(self.complete, body | {"prompt": prompt}) for prompt in prompts_]
        usages = [answer["usage"] for answer in wire.at_once(calls)]
        queried = sum(map(len, prompts_))
        settled(lambda: self.counters()[0] - before[0], queried)
        queries, hits = (after - was for after, was in zip(self.counters(), before))
        return usages, queries, hits

    def expect(self, fact, hits, prompt, **other):
        """One request, its hits expected in blocks."""
        _, _, seen = self.send(prompt, **other)
        self.facts.add("cache", f"{fact}: blocks hit", hits, in_blocks(seen, self.block))

    def usage(self):
        return page.read(self.server.url).value(USAGE)


def same(seen, expected):
    return "yes" if seen == expected else f"{seen}, not {expected}"


def in_blocks(tokens, block):
    return tokens // block if tokens % block == 0 else round(tokens / block, 2)


def amount(tokens, block):
    """In words that do not depend on the size of a block."""
    return f"{tokens // block} blocks and {tokens % block} tokens"


def measure(facts, server):
    cache = Cache(facts, server)
    whole_blocks(cache)
    output(cache)
    what_counts(cache)
    sharing(cache)
    gauge(cache)
    eviction(cache)
    return {"block_tokens": cache.block, "usable_blocks": cache.usable}


def whole_blocks(cache):
    block, facts = cache.block, cache.facts
    prompt = prompts.ids(LENGTH * block + 5)
    whole = amount(len(prompt), block)
    _, queries, hits = cache.send(prompt)
    facts.add("cache", "a new prompt: queried", whole, amount(queries, block))
    facts.add("cache", "a new prompt: hit", amount(0, block), amount(hits, block))
    usages, queries, hits = cache.send(prompt)
    facts.add("cache", "the same again: queried", whole, amount(queries, block))
    facts.add("cache", "the same again: hit", amount(LENGTH * block, block), amount(hits, block))
    cached = (usages[0].get("prompt_tokens_details") or {}).get("cached_tokens")
    facts.add("cache", "the same again: cached_tokens in usage are the tokens hit", "yes", same(cached, hits))
    facts.add("cache", "the same again: prompt_tokens in usage are all of them", whole,
              amount(usages[0]["prompt_tokens"], block))
    for extra, expected in ((0, LENGTH - 1), (1, LENGTH)):
        prompt = prompts.ids(LENGTH * block + extra)
        cache.send(prompt)
        cache.expect(f"{amount(LENGTH * block + extra, block)} again (the last token is computed)", expected, prompt)


def output(cache):
    """The next turn of a conversation finds what the server wrote itself; the last token written is not computed."""
    block = cache.block
    body = {"model": cache.server.model, "max_tokens": 2 * block, "ignore_eos": True, "return_token_ids": True}
    prompt, more = prompts.ids(4 * block + 5), prompts.ids(10)
    answer = cache.complete(body | {"prompt": prompt})
    written = answer["choices"][0].get("token_ids")
    if written is None:
        # Without ids, as text, which model-sim is to read back as the tokens it wrote.
        prompt, more = prompts.words(4 * block + 5), " " + prompts.words(10)
        answer = cache.complete(body | {"prompt": prompt})
        written = answer["choices"][0]["text"]
    before = cache.counters()
    cache.complete(body | {"prompt": prompt + written + more})
    settled(lambda: cache.counters()[0] > before[0], True)
    hits = cache.counters()[1] - before[1]
    own = answer["usage"]["prompt_tokens"] // block
    cache.facts.add("cache", "a prompt, the 2 blocks of output that followed it, and more: blocks of the output hit", 2,
                    in_blocks(hits - own * block, block))


def what_counts(cache):
    block = cache.block
    prompt = prompts.ids(LENGTH * block + 5)
    cache.send(prompt)
    half = 4 * block + block // 2
    cache.expect("the first 4.5 blocks are the same", 4, prompt[:half] + prompts.ids(len(prompt) - half))
    cache.expect("all but the first token is the same", 0, [prompt[0] ^ 1, *prompt[1:]])
    cache.expect("another cache_salt", 0, prompt, cache_salt="one")
    cache.expect("the same cache_salt again", LENGTH, prompt, cache_salt="one")
    cache.expect("no cache_salt again", LENGTH, prompt)
    if adapter := cache.server.adapter:
        cache.expect("a LoRA adapter", 0, prompt, model=adapter)
        cache.expect("the same LoRA adapter again", LENGTH, prompt, model=adapter)
        cache.expect("the base model again", LENGTH, prompt)


def sharing(cache):
    block = cache.block
    prompt = prompts.ids(LENGTH * block + 5)
    _, _, hits = cache.send(*[prompt] * SHARERS)
    cache.facts.add("cache", f"{SHARERS} requests of one new prompt at once: blocks hit, computed once",
                    (SHARERS - 1) * LENGTH, in_blocks(hits, block))


def gauge(cache):
    """Blocks that no request refers to do not show in the usage gauge, though the cache still has them."""
    block, facts = cache.block, cache.facts
    prompt, seen, over = prompts.ids(LENGTH * block + 5), [], threading.Event()

    def watch():
        while not over.is_set():
            seen.append(cache.usage())
            over.wait(0.005)

    cache.send(prompt)
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        cache.send(*[prompt] * SHARERS, max_tokens=4 * block)
    finally:
        over.set()
        watcher.join()
    # Each has, beside what they share, a block for the prompt's last tokens and those of its own output.
    expected = LENGTH + SHARERS * (-(-(5 + 4 * block - 1) // block))
    facts.add("cache", f"{SHARERS} requests share {LENGTH} blocks: most blocks in use, by the usage gauge", expected,
              round(max(seen) * cache.usable))
    facts.add("cache", "usage gauge when the requests have ended", 0.0, settled(cache.usage, 0.0))
    cache.expect("the same prompt when the gauge is at 0", LENGTH, prompt)


def eviction(cache):
    """A prompt as long as 32 blocks, and then so much else that 16 of them must go: which ones?"""
    block, long, left = cache.block, 32, 16
    fill(cache, cache.usable)
    prompt = prompts.ids(long * block + 5)
    cache.send(prompt)
    fill(cache, cache.usable - left)
    cache.expect(f"{left} of {long} blocks of a prompt have room (its head outlives its tail)", left, prompt)
    old, new = prompts.ids(LENGTH * block + 5), prompts.ids(LENGTH * block + 5)
    cache.send(old)
    cache.send(new)
    cache.send(old)
    fill(cache, cache.usable - LENGTH)
    cache.expect("of two prompts the one used last, when only one has room", LENGTH, old)


def fill(cache, blocks, most=30):
    """Takes so many blocks with prompts that share nothing."""
    while blocks > 0:
        cache.send(prompts.ids(min(blocks, most) * cache.block))
        blocks -= most
