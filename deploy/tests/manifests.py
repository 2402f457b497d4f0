"""The Kubernetes manifests agree with each other, with the configuration they carry, and with the rest of deploy/.

    manifests.py RENDERED...      what `kubectl kustomize` makes of the base and of each overlay

That each object is valid by itself is for kubernetes-validate to say.
"""

import pathlib
import re
import sys

import yaml

DEPLOY = pathlib.Path(__file__).resolve().parent.parent
KUBERNETES = DEPLOY / "kubernetes"
REFERENCE = yaml.safe_load((DEPLOY.parent / "conf/spillway.yaml").read_text())
SIZES = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "Mi": 2**20, "Gi": 2**30, "m": 2**20}

# Seconds between SIGTERM and the end of accepting, at most (NOTICE in gateway/src/run/shutdown.rs), and for the rest of the end.
NOTICE, REST = 3, 5
# Memory of a gateway beyond bodies and indexes.
BESIDE = 100 * 2**20


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)(s|m|h)?", str(text)).groups()
    return int(number) * {None: 1, "s": 1, "m": 60, "h": 3600}[unit]


def size(text):
    number, unit = re.fullmatch(r"(\d+)(\w*)", str(text)).groups()
    return int(number) * SIZES[unit]


def port_of(address):
    return int(address.rsplit(":", 1)[1])


def documents(path):
    return [one for one in yaml.safe_load_all(path.read_text()) if one]


def lists_what_is_there(kustomization):
    """Every file of the folder is named in it, and nothing else; folders that it names have a kustomization too."""
    folder = kustomization.parent
    value = yaml.safe_load(kustomization.read_text())
    named = list(value.get("resources", [])) + list(value.get("components", []))
    named += [name for generator in value.get("configMapGenerator", []) for name in generator["files"]]
    files = {name for name in named if not (folder / name).is_dir()}
    there = {path.name for path in folder.iterdir()} - {kustomization.name}
    if files != there:
        yield f"{kustomization}: not listed {there - files}, not there {files - there}"
    for name in set(named) - files:
        if not (folder / name / "kustomization.yaml").is_file():
            yield f"{kustomization}: {name} has no kustomization.yaml"


class Rendering:
    """The objects of one rendering, by kind and name."""

    def __init__(self, path):
        self.path = path
        self.objects = {(one["kind"], one["metadata"]["name"]): one for one in documents(path)}
        self.deployment = self.objects["Deployment", "spillway"]["spec"]
        self.spec = self.deployment["template"]["spec"]
        self.container, = self.spec["containers"]
        self.labels = self.deployment["template"]["metadata"]["labels"]
        self.ports = {port["name"]: port["containerPort"] for port in self.container["ports"]}
        self.protocols = {port["name"]: port.get("protocol", "TCP") for port in self.container["ports"]}
        self.config = yaml.safe_load(self.objects["ConfigMap", "spillway"]["data"]["spillway.yaml"])

    def of(self, kind):
        return [one for (found, _), one in self.objects.items() if found == kind]

    def selected(self, labels):
        return labels.items() <= self.labels.items()

    def problems(self):
        yield from self.ports_and_names()
        yield from self.peers()
        yield from self.times_and_sizes()
        yield from self.mount()

    def ports_and_names(self):
        server = self.config["server"]
        configured = {"http": port_of(server["listen"][0]["address"]), "metrics": port_of(server["metrics"]["address"])}
        # Where it is off, the port is there for the day when it is not.
        configured["peers"] = port_of(self.config["peers"]["listen"]) if "peers" in self.config else self.ports["peers"]
        if self.ports != configured:
            yield f"the container's ports {self.ports} are not the configuration's"
        if not server["admin"]["address"].startswith("127.0.0.1:"):
            yield "the admin port is beyond loopback"
        annotation = self.deployment["template"]["metadata"]["annotations"]["prometheus.io/port"]
        if int(annotation) != self.ports["metrics"]:
            yield f"prometheus.io/port {annotation} is not the metrics port"
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            if self.container[probe]["httpGet"]["port"] not in self.ports:
                yield f"{probe} asks a port that is not there"
        for service in self.of("Service"):
            name, spec = service["metadata"]["name"], service["spec"]
            if not self.selected(spec["selector"]):
                yield f"the Service {name} selects no gateway"
            for port in spec["ports"]:
                if port["targetPort"] not in self.ports:
                    yield f"the Service {name} leads to a port that is not there: {port['targetPort']}"
                elif port.get("protocol", "TCP") != self.protocols[port["targetPort"]]:
                    yield f"the Service {name} leads to {port['targetPort']} by another protocol"
        selectors = [one["spec"]["selector"] for one in self.of("PodDisruptionBudget")]
        selectors += [one["spec"]["podSelector"] for one in self.of("NetworkPolicy")]
        selectors += [one["labelSelector"] for one in self.spec["topologySpreadConstraints"]]
        for selector in selectors + [self.deployment["selector"]]:
            if not self.selected(selector["matchLabels"]):
                yield f"{selector} selects no gateway"
        for ingress in self.of("Ingress"):
            for path in (path for rule in ingress["spec"]["rules"] for path in rule["http"]["paths"]):
                backend = path["backend"]["service"]
                ports = self.objects["Service", backend["name"]]["spec"]["ports"]
                if backend["port"]["name"] not in [port["name"] for port in ports]:
                    yield f"the Ingress leads to a port that is not there: {backend}"
        for policy in self.of("NetworkPolicy"):
            for rule in policy["spec"]["ingress"]:
                for port in rule["ports"]:
                    if self.protocols.get(port["port"]) != port.get("protocol", "TCP"):
                        yield f"the NetworkPolicy opens a port that is not there: {port}"
            for way, side in (("ingress", "from"), ("egress", "to")):
                between = [rule for rule in policy["spec"][way] if {"port": "peers", "protocol": "UDP"} in rule["ports"]]
                selected = [one["podSelector"].get("matchLabels", {}) for rule in between for one in rule[side]]
                if len(selected) != 1 or not selected[0] or not self.selected(selected[0]):
                    yield f"the NetworkPolicy does not keep {way} of peers to the gateways"

    def peers(self):
        peers, service = self.config.get("peers"), self.objects["Service", "spillway-peers"]
        port, = [port["port"] for port in service["spec"]["ports"] if port["name"] == "peers"]
        if port != self.ports["peers"] or service["spec"]["clusterIP"] != "None":
            yield "a name of a headless Service leads to the containers' own ports"
        if peers is None:
            return
        namespace = self.objects["Deployment", "spillway"]["metadata"]["namespace"]
        if peers["dns"] != {"name": f"spillway-peers.{namespace}.svc.cluster.local", "port": port}:
            yield f"peers.dns {peers['dns']} is not the Service spillway-peers"
        mount, = [mount for mount in self.container["volumeMounts"] if mount["name"] == "peers"]
        if peers["secret_file"] != f"{mount['mountPath']}/secret":
            yield "the secret of peers is not where it is mounted"

    def times_and_sizes(self):
        config, pools = self.config, self.config["pools"]
        grace, drain = self.spec["terminationGracePeriodSeconds"], seconds(config["server"]["drain"])
        if grace < drain + NOTICE + REST:
            yield f"terminationGracePeriodSeconds {grace} is too short for server.drain {drain}"
        for name, pool in pools.items():
            # Those that talk count each other.
            gateways = pool.get("affinity", {}).get("gateways", self.deployment["replicas"] if "peers" in config else 1)
            if gateways != self.deployment["replicas"]:
                yield f"the pool {name} counts {gateways} gateways, not {self.deployment['replicas']}"
        resources = self.container["resources"]
        if config["server"]["threads"] != int(resources["requests"]["cpu"]):
            yield "server.threads is not the CPUs asked for"
        default = REFERENCE["pools"]["llama"]
        bodies = size(config.get("limits", {}).get("body_memory", REFERENCE["limits"]["body_memory"]))
        indexes = sum(size(pool.get("affinity", {}).get("index_memory", default["affinity"]["index_memory"])) for pool in pools.values())
        if bodies + indexes + BESIDE > size(resources["limits"]["memory"]):
            yield f"{bodies} bytes of bodies and {indexes} of indexes do not fit into {resources['limits']['memory']}"
        for ingress in self.of("Ingress"):
            said = {name.rsplit("/", 1)[1]: value for name, value in ingress["metadata"]["annotations"].items()}
            if said["proxy-buffering"] != "off" or said["proxy-request-buffering"] != "off":
                yield "the Ingress buffers"
            if int(said["proxy-read-timeout"]) < seconds(default["timeouts"]["ttft"]):
                yield "the Ingress waits less than timeouts.ttft"
            if size(said["proxy-body-size"]) != size(REFERENCE["limits"]["body"]):
                yield "the Ingress and limits.body disagree"

    def mount(self):
        mounts = {mount["name"]: mount for mount in self.container["volumeMounts"]}
        volumes = {volume["name"]: volume for volume in self.spec["volumes"]}
        if mounts.keys() != volumes.keys():
            yield f"the volumes {set(volumes)} are mounted as {set(mounts)}"
        mount, volume = mounts["config"], volumes["config"]
        if any("subPath" in mount for mount in mounts.values()):
            yield "a file mounted by subPath never changes"
        if mount["name"] != volume["name"] or ("ConfigMap", volume["configMap"]["name"]) not in self.objects:
            yield "the configuration is not mounted"
        if self.container["args"] != ["--config", f"{mount['mountPath']}/spillway.yaml"]:
            yield "the configuration is not read from where it is mounted"
        if self.spec["securityContext"]["runAsUser"] != int(dockerfile(r"^USER (\d+):")):
            yield "runAsUser is not the image's user"
        if sorted(self.ports.values()) != sorted(int(port.partition("/")[0]) for port in dockerfile(r"^EXPOSE (.*)$").split()):
            yield "the image exposes other ports"


def dockerfile(pattern):
    return re.search(pattern, (DEPLOY / "Dockerfile").read_text(), re.M)[1]


def around(base, overlay):
    """What stands in other files of deploy/."""
    service, = documents(KUBERNETES / "examples/model-servers.yaml")
    meta = service["metadata"]
    dns = base.config["pools"]["llama"]["dns"]
    if dns["name"] != f"{meta['name']}.{meta['namespace']}.svc.cluster.local" or service["spec"]["clusterIP"] != "None":
        yield "the base's pool is not the example's headless Service"
    if dns["port"] not in [port["port"] for port in service["spec"]["ports"]]:
        yield "the base's pool and the example's Service have different ports"
    allowed = {value for policy in overlay.of("NetworkPolicy") for rule in policy["spec"]["egress"] for peer in rule.get("to", [])
               for one in peer["podSelector"].get("matchExpressions", []) for value in one["values"]}
    asked = {pool["dns"]["name"].split(".")[0] for pool in overlay.config["pools"].values()}
    if asked != allowed:
        yield f"the overlay's pools are {asked}, its NetworkPolicy lets the gateway reach {allowed}"
    jobs = yaml.safe_load((DEPLOY / "prometheus/prometheus.yaml").read_text())["scrape_configs"]
    scraped, = [one for job in jobs for one in job.get("dns_sd_configs", [])]
    namespace = overlay.objects["Deployment", "spillway"]["metadata"]["namespace"]
    if scraped["names"] != [f"spillway-peers.{namespace}.svc.cluster.local"] or scraped["port"] != base.ports["metrics"]:
        yield "prometheus.yaml scrapes something else than spillway-peers"
    version = re.search(r'^version = "(.*)"', (DEPLOY.parent / "Cargo.toml").read_text(), re.M)[1]
    if not base.container["image"].endswith(f":{version}") or dockerfile(r"^ARG VERSION=(.*)$") != version:
        yield f"the image's version is not {version}"
    for name in ("hpa-gateway", "hpa-model-servers"):
        scaled, = documents(KUBERNETES / f"examples/{name}.yaml")
        target = scaled["spec"]["scaleTargetRef"]["name"]
        if target not in ("spillway", meta["name"]):
            yield f"{name}: scales {target}, which nobody deploys"
    recorded = re.findall(r"- record: (\S+)", (DEPLOY / "prometheus/rules.yaml").read_text())
    for query in re.findall(r"'(pool:[\w:]+)", (KUBERNETES / "examples/hpa-model-servers.yaml").read_text()):
        if query not in recorded:
            yield f"hpa-model-servers: no rule records {query}"
    unit = (DEPLOY / "systemd/spillway.service").read_text()
    if int(re.search(r"^TimeoutStopSec=(\d+)$", unit, re.M)[1]) < seconds(REFERENCE["server"]["drain"]) + NOTICE + REST:
        yield "the unit's TimeoutStopSec is too short for server.drain"


def main(paths):
    found = [problem for path in sorted(KUBERNETES.rglob("kustomization.yaml")) for problem in lists_what_is_there(path)]
    renderings = [Rendering(pathlib.Path(path)) for path in paths]
    found += [f"{one.path}: {problem}" for one in renderings for problem in one.problems()]
    found += around(*renderings)
    if found:
        sys.exit("\n".join(found))
    print(f"{sum(len(one.objects) for one in renderings)} objects in {len(renderings)} renderings agree")


if __name__ == "__main__":
    main(sys.argv[1:])
