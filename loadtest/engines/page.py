"""A /metrics page: its families, and the sum of a family's series."""

import re

import wire

SAMPLE = re.compile(r'^([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"')

# Labels whose values name a thing of this run.
PARTICULAR = {"model_name", "engine", "le", "running_lora_adapters", "waiting_lora_adapters", "max_lora"}


class Page:
    def __init__(self, text):
        self.types, self.samples = {}, []
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split()
                self.types[name] = kind
            elif line and not line.startswith("#") and (match := SAMPLE.match(line)):
                name, labels, value = match.groups()
                self.samples.append((name, dict(LABEL.findall(labels or "")), float(value)))

    def value(self, name, **only):
        """The sum of all series of this name that have these labels; None where there is none."""
        values = [v for n, labels, v in self.samples if n == name and only.items() <= labels.items()]
        return sum(values) if values else None

    def label(self, name, label):
        """The value of a label of the first series of this name."""
        return next((labels.get(label) for n, labels, _ in self.samples if n == name), None)

    def families(self, prefix):
        """By name: type, names of labels, values of labels that enumerate something, bounds of buckets."""
        found = {}
        for family, kind in self.types.items():
            if not family.startswith(prefix):
                continue
            endings = ("_bucket", "_count", "_sum") if kind == "histogram" else ("",)
            names = {family + ending for ending in endings}
            series = [(name, labels) for name, labels, _ in self.samples if name in names]
            entry = {"type": kind, "labels": sorted({x for _, labels in series for x in labels} - {"le"})}
            if not family.endswith("_info"):
                values = {label: sorted({labels[label] for _, labels in series if label in labels})
                          for label in entry["labels"] if label not in PARTICULAR}
                entry |= {"values": values} if values else {}
            bounds = dict.fromkeys(labels["le"] for name, labels in series if name == family + "_bucket")
            entry |= {"buckets": " ".join(f"{float(x):g}" for x in bounds)} if bounds else {}
            found[family] = entry
        return found


def read(url):
    """Fetches the page of a server."""
    reply = wire.exchange(url, "/metrics")
    if reply.status != 200:
        raise RuntimeError(f"/metrics: {reply.status}")
    return Page(reply.body.decode())
