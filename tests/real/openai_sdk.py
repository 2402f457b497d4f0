"""Drives a gateway in front of two real llama.cpp servers with the OpenAI SDK: `openai_sdk.py GATEWAY METRICS`.

Fails on the first thing that is not as it would be with the server itself.
"""

import sys
import threading
import urllib.request

from openai import NotFoundError, OpenAI

gateway, metrics = sys.argv[1:3]
client = OpenAI(base_url=f"{gateway}/v1", api_key="unused", max_retries=0, timeout=120)
# Without the system message this small model answers in French verse.
QUESTION = [
    {"role": "system", "content": "You are a helpful assistant. Answer in one short English sentence."},
    {"role": "user", "content": "What is the capital of France?"},
]


def ask(model="smollm2", **more):
    return client.chat.completions.create(model=model, messages=QUESTION, max_tokens=16, temperature=0, seed=1, **more)


models = {model.id for model in client.models.list()}
assert {"smollm2", "gpt-4o-mini"} <= models, models

whole = ask()
assert "Paris" in whole.choices[0].message.content, whole
assert whole.usage.prompt_tokens > 0

text, usage, chunks = "", None, 0
for chunk in ask(model="gpt-4o-mini", stream=True, stream_options={"include_usage": True}):
    chunks += 1
    usage = chunk.usage or usage
    for choice in chunk.choices:
        text += choice.delta.content or ""
assert "Paris" in text, text
assert chunks > 3, f"{chunks} chunks: the stream was gathered"
assert usage and usage.completion_tokens > 0, usage

try:
    ask(model="nobody-serves-this")
    raise AssertionError("an unknown model was answered")
except NotFoundError as error:
    assert error.code == "model_not_found", error

# llama.cpp closes the connection after each streamed reply without saying so: none of that may reach a client.
failures = []


def stream_once():
    try:
        assert "".join(c.choices[0].delta.content or "" for c in ask(stream=True) if c.choices)
    except Exception as error:  # noqa: BLE001: every kind counts
        failures.append(error)


for _ in range(4):
    threads = [threading.Thread(target=stream_once) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
assert not failures, failures

page = urllib.request.urlopen(f"{metrics}/metrics").read().decode()
picked = {line.split('endpoint="')[1].split('"')[0] for line in page.splitlines() if line.startswith("spillway_picks_total")}
assert len(picked) == 2, f"only {picked} served"
assert all(float(line.split()[-1]) == 0 for line in page.splitlines() if line.startswith("spillway_in_flight{")), page
assert "spillway_endpoint_running" in page, "llama.cpp's metrics page was not read"
print("real llama.cpp servers, OpenAI SDK: all well")
