"""The dashboard is whole: every panel says what it shows and in which unit, asks the chosen source, and has its own place.

What its queries ask for is looked at by queries.py.
"""

import sys

from expressions import dashboard

SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def problems(board):
    panels = board["panels"]
    ids = [panel["id"] for panel in panels]
    if len(set(ids)) != len(ids):
        yield "two panels have one id"
    names = {variable["name"] for variable in board["templating"]["list"]}
    for needed in {"datasource", "gateway", "pool", "model", "endpoint"} - names:
        yield f"there is no variable {needed}"
    taken = {}
    for panel in panels:
        title, place = panel["title"], panel["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                if x >= 24 or taken.setdefault((x, y), title) != title:
                    yield f"{title}: beside the grid, or over {taken.get((x, y))}"
                    break
        if panel["type"] == "row":
            continue
        if len(panel.get("description", "")) < 10:
            yield f"{title}: no description"
        if not panel["fieldConfig"]["defaults"].get("unit"):
            yield f"{title}: no unit"
        if not panel["targets"]:
            yield f"{title}: no query"
        for target in panel["targets"]:
            if panel["datasource"] != SOURCE or target["datasource"] != SOURCE:
                yield f"{title}: not from the chosen source"


found = sorted(set(problems(dashboard())))
if found:
    sys.exit("\n".join(found))
print(f"the dashboard's {len(dashboard()['panels'])} panels and rows are whole")
