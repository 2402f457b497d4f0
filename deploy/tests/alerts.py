"""Every alert says how bad it is, what it is and what to do, and the README's runbooks are those of the alerts, in their order."""

import re
import sys

from expressions import DEPLOY, rules

alerts = [rule for rule in rules() if "alert" in rule]
found = []
for alert in alerts:
    name, said = alert["alert"], alert["annotations"]
    if alert["labels"].get("severity") not in ("critical", "warning", "info"):
        found.append(f"{name}: no severity")
    if set(said) != {"summary", "description", "runbook"} or not all(said.values()):
        found.append(f"{name}: its annotations are not summary, description and runbook")
    if said.get("runbook") != f"deploy/README.md#{name.lower()}":
        found.append(f"{name}: its runbook is not under its name")
headings = re.findall(r"^### (Spillway\w+)$", (DEPLOY / "README.md").read_text(), re.M)
if headings != [alert["alert"] for alert in alerts]:
    found.append(f"the README's runbooks are not the alerts: {set(headings) ^ {alert['alert'] for alert in alerts}}")
if found:
    sys.exit("\n".join(found))
print(f"{len(alerts)} alerts have a runbook each")
