"""What the queries are asked of: the demo, a second gateway that has trouble, and a Prometheus that scrapes both each second."""

import concurrent.futures
import http.client
import json
import pathlib
import re
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

RULES = pathlib.Path(__file__).resolve().parent.parent / "prometheus/rules.yaml"
DEMO_METRICS = "127.0.0.1:9091"


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def fetch(url, body=None, timeout=15):
    """Status and text of an answer; status 0 where there is none or it breaks off."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except (OSError, ValueError, http.client.HTTPException) as error:
        return 0, str(error)


class Stand:
    """The processes, from `with` to its end."""

    def __init__(self, spillway, prometheus, folder):
        self.spillway, self.prometheus, self.folder = spillway, prometheus, pathlib.Path(folder)
        self.running = []

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for _, process in self.running:
            process.kill()
            process.wait()

    def start(self):
        self.listen, self.metrics, self.admin, self.query = (free_port() for _ in range(4))
        self.run("demo", self.spillway, "demo", "--port", str(free_port()))
        self.until("the demo", lambda: fetch(f"http://{DEMO_METRICS}/readyz")[0] == 200)
        welcome = (self.folder / "demo.log").read_text()
        self.endpoints = re.findall(r"^  (http://\S+)$", welcome, re.M)
        assert len(self.endpoints) == 4, f"the demo did not say where its endpoints are: {welcome}"
        self.dead = [f"http://127.0.0.1:{free_port()}" for _ in range(2)]
        self.configuration = self.folder / "spillway.yaml"
        self.configure()
        self.run("gateway", self.spillway, "--config", str(self.configuration))
        self.until("the gateway", lambda: fetch(f"http://127.0.0.1:{self.metrics}/readyz")[0] == 200)
        settings = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(RULES)],
            "scrape_configs": [{"job_name": "spillway", "static_configs": [
                {"targets": [DEMO_METRICS, f"127.0.0.1:{self.metrics}"]}]}],
        }
        # JSON is YAML.
        (self.folder / "prometheus.yaml").write_text(json.dumps(settings))
        self.run("prometheus", self.prometheus, f"--config.file={self.folder}/prometheus.yaml",
                 f"--storage.tsdb.path={self.folder}/tsdb", f"--web.listen-address=127.0.0.1:{self.query}")
        self.until("Prometheus", lambda: fetch(f"http://127.0.0.1:{self.query}/-/ready")[0] == 200)

    def run(self, name, *command):
        log = open(self.folder / f"{name}.log", "w")
        self.running.append((name, subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)))

    def until(self, what, is_so, seconds=30):
        deadline = time.monotonic() + seconds
        while not is_so():
            self.check()
            assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
            time.sleep(0.1)

    def check(self):
        """Everything still runs."""
        for name, process in self.running:
            if process.poll() is not None:
                tail = (self.folder / f"{name}.log").read_text()[-2000:]
                raise AssertionError(f"{name} has ended with {process.returncode}:\n{tail}")

    def configure(self, pools="pools"):
        """Writes the second gateway's configuration; with another word for `pools` one that is refused."""
        value = {
            "server": {"listen": [{"address": f"127.0.0.1:{self.listen}"}],
                       "metrics": {"address": f"127.0.0.1:{self.metrics}"},
                       "admin": {"address": f"127.0.0.1:{self.admin}"}},
            "models": [
                {"name": "support", "sticky": "off", "split": [
                    {"pool": "served", "model": "demo-sql", "weight": 1},
                    {"pool": "served", "model": "demo-support", "weight": 1}]},
                {"name": "one-at-a-time", "pool": "narrow", "model": "demo-8b"},
                {"name": "gone", "pool": "gone"},
            ],
            pools: {
                "served": {"endpoints": self.endpoints},
                "narrow": {"endpoints": self.endpoints[:1], "limits": {"in_flight": 1}},
                "gone": {"endpoints": self.dead},
            },
        }
        self.configuration.write_text(json.dumps(value))

    def ask(self, model, tokens=8, stream=True):
        """A chat through the second gateway."""
        prompt = "You answer questions about rivers. " * 60
        body = {"model": model, "max_tokens": tokens, "stream": stream, "messages": [
            {"role": "system", "content": prompt}, {"role": "user", "content": "Where does it rise?"}]}
        if stream:
            body["stream_options"] = {"include_usage": True}
        return fetch(f"http://127.0.0.1:{self.listen}/v1/chat/completions", body)

    def trouble(self):
        """One round of all that can go wrong, and of some that goes right. What is counted then is for the queries to say."""
        self.check()
        url = f"http://127.0.0.1:{self.listen}/v1/chat/completions"
        for endpoint in self.endpoints:
            for fault in ({"kind": "crash_midstream", "after": 2, "count": 1}, {"kind": "reset", "count": 1},
                          {"kind": "metrics", "mode": "garbage", "count": 1}):
                fetch(f"{endpoint}/admin/fault", fault)
        with concurrent.futures.ThreadPoolExecutor(12) as several:
            asked = [several.submit(self.ask, "support") for _ in range(8)]
            asked += [several.submit(self.ask, "one-at-a-time", 64) for _ in range(3)]
            asked += [several.submit(self.ask, "gone"), several.submit(self.ask, "nobody's"), several.submit(fetch, url, b"[]")]
            for one in asked:
                one.result()
        self.configure("pool")
        self.until("the refusal of a configuration", lambda: '"rejected"' in fetch(f"http://127.0.0.1:{self.admin}/config")[1])
        self.configure()
        self.until("the next configuration", lambda: '"rejected"' not in fetch(f"http://127.0.0.1:{self.admin}/config")[1])

    def ask_prometheus(self, path, **arguments):
        status, text = fetch(f"http://127.0.0.1:{self.query}/api/v1/{path}?" + urllib.parse.urlencode(arguments))
        answer = json.loads(text) if text.startswith("{") else {"status": "none", "error": text}
        assert status == 200 and answer["status"] == "success", f"{arguments}: {answer.get('error')}"
        return answer["data"]
