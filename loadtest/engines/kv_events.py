#!/usr/bin/env python3
"""Follows the KV events of a real vLLM through the gateway: `kv_events.py VLLM_URL --model NAME --spillway PROGRAM`.

The server must publish events and have VLLM_SERVER_DEV_MODE=1 and `--enable-prompt-tokens-details`; its cache should be
small, so that it can be filled. Chats, a burst, an eviction and a reset are played, and after each what the gateway
believes is compared with what the server says it had cached. Prints one line per claim, and exits 1 if one does not hold.
"""

import argparse
import concurrent.futures
import json
import random
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

# What a server of 255 blocks of 32 tokens has room for twice, and twenty prompts of have not.
PROMPT_WORDS = 180


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def call(url, body=None, accept="application/json"):
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json", "accept": accept}
    request = urllib.request.Request(url, data=data, headers=headers)
    with urllib.request.urlopen(request, timeout=120) as answer:
        text = answer.read().decode()
    return json.loads(text) if text.startswith(("{", "[")) else text


def until(what, look, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if (found := look()) is not None:
            return found
        time.sleep(0.05)
    raise SystemExit(f"not within {seconds} s: {what}")


class Scene:
    def __init__(self, arguments, listen, metrics, admin):
        self.server, self.model = arguments.url.rstrip("/"), arguments.model
        self.listen, self.metrics, self.admin = (f"http://127.0.0.1:{port}" for port in (listen, metrics, admin))
        self.failures = 0

    def body(self, messages, output=8):
        return {"model": self.model, "messages": messages, "max_tokens": output, "temperature": 0, "ignore_eos": True}

    def ask(self, messages, output=8, past_gateway=False, **more):
        url = self.server if past_gateway else self.listen
        return call(f"{url}/v1/chat/completions", self.body(messages, output) | more)

    def believed(self, messages):
        """Tokens of the prompt that the gateway believes the server holds, and tokens it takes the prompt to have."""
        decision = call(f"{self.admin}/explain", self.body(messages))["decision"]
        return decision["endpoints"][0]["cached_tokens"], decision["prompt_tokens"]

    def standing(self):
        pools = call(f"{self.admin}/pools")
        return pools["only"]["endpoints"][0]["kv_events"]

    def counters(self):
        lines = call(f"{self.metrics}/metrics", accept="text/plain").splitlines()
        return {line.split('what="')[1].split('"')[0]: float(line.rsplit(" ", 1)[1])
                for line in lines if line.startswith("spillway_kv_events_total")}

    def claim(self, what, holds, seen):
        self.failures += not holds
        print(f"claim {what} | seen {seen} | {'ok' if holds else 'DIFFERENT'}", flush=True)


def text(seed, words=PROMPT_WORDS):
    random.seed(seed)
    return " ".join(random.choice("the of and river stone light under seven maps walked over cold bright".split())
                    for _ in range(words))


def user(content):
    return {"role": "user", "content": content}


def play(scene):
    until("events are followed", lambda: scene.standing())
    before = scene.standing()
    first = [user(text(1))]
    usage = scene.ask(first)["usage"]
    until("blocks of the first prompt are held", lambda: scene.standing()["held"] or None)
    cached, tokens = scene.believed(first)
    scene.claim("a prompt that was computed is held", cached > 0.7 * tokens, f"{cached:.0f} of {tokens:.0f} tokens "
                f"(the server counts {usage['prompt_tokens']})")

    # Chats: each turn continues the reply of the one before it.
    def chat(seed):
        messages = [{"role": "system", "content": text(1000, 100)}]
        for turn in range(3):
            messages.append(user(text(seed * 10 + turn, 30)))
            messages.append(scene.ask(messages, 40)["choices"][0]["message"] | {"tool_calls": []})
            messages[-1] = {"role": "assistant", "content": messages[-1]["content"] or ""}
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        list(pool.map(chat, range(6)))
    time.sleep(3)
    standing = scene.standing()
    told = {key: standing[key] - before[key] for key in ("attributed", "unattributed", "mismatched")}
    share = told["attributed"] / max(1, told["attributed"] + told["unattributed"])
    scene.claim("most blocks are attributed", share > 0.8, f"{share:.2f}: {told}, {standing['held']} held")

    # Others fill the cache.
    victim = [user(text(2))]
    scene.ask(victim)
    until("it is held", lambda: scene.believed(victim)[0] > 100 or None)
    for seed in range(100, 160):
        scene.ask([user(text(seed))], 1, past_gateway=True)
        if scene.believed(victim)[0] < 50:
            break
    scene.claim("a prompt that others pushed out is not believed to be there", scene.believed(victim)[0] < 50,
                f"{scene.believed(victim)[0]:.0f} tokens after {seed - 99} prompts past the gateway")
    usage = scene.ask(victim)["usage"]
    really = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    scene.claim("and it was not", really < 100, f"{really} of {usage['prompt_tokens']} tokens cached")

    call(f"{scene.server}/reset_prefix_cache", {})
    other = [user(text(3))]
    scene.ask(other)
    until("the reset is told", lambda: scene.counters().get("clears"))
    cached = until("the belief ends", lambda: 1 if scene.believed(victim)[0] == 0 else None)
    scene.claim("after a reset nothing is believed but what came since", cached and scene.believed(other)[0] > 0,
                f"{scene.believed(victim)[0]:.0f} and {scene.believed(other)[0]:.0f} tokens")
    scene.claim("nothing was lost or not understood",
                not any(scene.counters().get(what) for what in ("losses", "gaps", "undecodable", "skipped")),
                scene.counters())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--model", required=True)
    parser.add_argument("--spillway", default="target/release/spillway")
    arguments = parser.parse_args()
    listen, metrics, admin = free_port(), free_port(), free_port()
    scene = Scene(arguments, listen, metrics, admin)
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as config:
        config.write(f"""server:
  listen: [{{address: "127.0.0.1:{listen}"}}]
  metrics: {{address: "127.0.0.1:{metrics}"}}
  admin: {{address: "127.0.0.1:{admin}"}}
pools:
  only:
    endpoints: ["{scene.server}"]
    affinity: {{events: auto}}
""")
        config.flush()
        gateway = subprocess.Popen([arguments.spillway, "--config", config.name], stdout=subprocess.DEVNULL)
        try:
            def ready():
                try:
                    return call(f"{scene.metrics}/readyz")
                except OSError:
                    return None
            until("the gateway is ready", ready)
            play(scene)
        finally:
            gateway.terminate()
            gateway.wait()
    sys.exit(1 if scene.failures else 0)


if __name__ == "__main__":
    main()
