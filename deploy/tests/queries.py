"""Every query of the dashboard and of the rules, asked of a Prometheus that scrapes running gateways.

    queries.py SPILLWAY PROMETHEUS FOLDER

Three things are wrong with a query: it names a metric or label that the README does not, Prometheus cannot evaluate it, or
nothing comes of it although all that it asks about has happened. The last is said of each selector too, so that a mistyped
value in an alert, which has no result while all is well, is found as well.
"""

import math
import sys
import time

from expressions import TARGET_LABELS, documented, expressions, rules
from promql import names
from stand import Stand

# Seconds until everything must have been seen. The demo learns and Prometheus scrapes each second; a busy machine is slow.
DEADLINE = 120

# Queries and selectors without a result here, by their text, and why.
EMPTY = {}


def unknown_names(all_expressions, known, recorded):
    for expression in all_expressions:
        selectors, grouped = names(expression.text)
        if not selectors:
            yield f"{expression.place}: no metric in {expression.text}"
        allowed = set(TARGET_LABELS)
        for selector in selectors:
            if selector.name in recorded:
                allowed |= recorded[selector.name]
                continue
            if selector.name not in known:
                yield f"{expression.place}: there is no metric {selector.name}"
                continue
            allowed |= known[selector.name]
            for label in set(selector.labels) - known[selector.name] - TARGET_LABELS:
                yield f"{expression.place}: {selector.name} has no label {label}"
        # What count_values makes of a value is a label too, and no expression groups by it.
        for label in grouped - allowed:
            yield f"{expression.place}: nothing in it has the label {label}"


def has_result(stand, text):
    """Whether there is a number in the answer. A ratio of nothing to nothing is none."""
    result = stand.ask_prometheus("query", query=text)["result"]
    return any(not math.isnan(float(sample["value"][1])) for sample in result)


def main(spillway, prometheus, folder):
    everything = expressions()
    recorded = {rule["record"]: names(rule["expr"])[1] for rule in rules() if "record" in rule}
    wrong = list(unknown_names(everything, documented(), recorded))
    assert not wrong, "\n".join(wrong)

    with Stand(spillway, prometheus, folder) as stand:
        wanted = {one.text: one.place for one in everything if one.must_have_result}
        for one in everything:
            wanted.update({selector.text: f"{one.place}, selector" for selector in names(one.text)[0]})
        for one in everything:
            stand.ask_prometheus("query", query=one.text)
        assert not set(EMPTY) - set(wanted), f"excused, and no query any more: {set(EMPTY) - set(wanted)}"
        total = len(wanted)
        wanted = {text: place for text, place in wanted.items() if text not in EMPTY}

        began = time.monotonic()
        while wanted and time.monotonic() < began + DEADLINE:
            stand.trouble()
            # What has been seen once is settled: a rate goes back to nothing when its cause is over.
            wanted = {text: place for text, place in wanted.items() if not has_result(stand, text)}
        assert not wanted, "no result:\n" + "\n".join(f"{place}: {text}" for text, place in wanted.items())

        for group in stand.ask_prometheus("rules")["groups"]:
            for rule in group["rules"]:
                assert rule["health"] == "ok", f"rule {rule['name']}: {rule.get('lastError') or rule['health']}"
        print(f"{len(everything)} expressions and their selectors, {total} queries: all answered, "
              f"{total - len(EMPTY)} with a result, after {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except AssertionError as error:
        sys.exit(str(error))
