"""Every expression that deploy/ ships, where it stands, and what it may name."""

import json
import pathlib
import re

import yaml

DEPLOY = pathlib.Path(__file__).resolve().parent.parent
README = DEPLOY.parent / "README.md"

# What Prometheus adds to every series, and what it has of its own.
TARGET_LABELS = {"job", "instance"}
OWN = {"up": set()}

# What the dashboard's variables stand for when all is chosen, and the range Grafana would choose at a scrape a second.
VARIABLES = {"$gateway": ".*", "$pool": ".*", "$model": ".*", "$endpoint": ".*", "$__rate_interval": "10s"}


class Expression:
    """One expression: where it stands, its text with variables filled in, whether it must have a result."""

    def __init__(self, place, text, must_have_result):
        for variable, value in VARIABLES.items():
            text = text.replace(variable, value)
        assert "$" not in text, f"{place}: a variable that is not known: {text}"
        self.place, self.text, self.must_have_result = place, " ".join(text.split()), must_have_result


def dashboard():
    """Grafana's dashboard."""
    return json.loads((DEPLOY / "grafana/spillway.json").read_text())


def rules():
    """The recording and alerting rules."""
    groups = yaml.safe_load((DEPLOY / "prometheus/rules.yaml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def expressions():
    """All of them. An alert's result is empty while all is well."""
    found = []
    board = dashboard()
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            found.append(Expression(f"panel {panel['title']!r}", target["expr"], True))
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            text = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"])
            assert text, f"variable {variable['name']}: not label_values(series, label)"
            found.append(Expression(f"variable {variable['name']}", f"count by ({text[2]}) ({text[1]})", True))
    for rule in rules():
        is_alert = "alert" in rule
        place = f"alert {rule['alert']}" if is_alert else f"record {rule['record']}"
        found.append(Expression(place, rule["expr"], not is_alert))
    return found


def documented():
    """Labels by metric, from the README's table. A histogram's three series are in it under one name."""
    table = re.findall(r"^\| `(spillway_\w+)` \| ([^|]*)\|", README.read_text(), re.M)
    assert len(table) > 20, "the README's table of metrics is not where it was"
    known = dict(OWN)
    for name, labels in table:
        labels = {label.strip() for label in labels.split(",") if label.strip()}
        known[name] = labels
        # Of what is no histogram there are no such series: a selector without a result, which is found as that.
        known.update({f"{name}_bucket": labels | {"le"}, f"{name}_sum": labels, f"{name}_count": labels})
    return known
