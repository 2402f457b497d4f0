"""The names in a PromQL expression: metrics with their matchers, and labels it groups or joins by.

No parser: strings, functions and keywords are taken away, and names are what is left.
"""

import re

STRING = re.compile(r'"(?:\\.|[^"\\])*"')
GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
SELECTOR = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(\{[^}]*\})?")
MATCHER = re.compile(r"([a-zA-Z_]\w*)\s*(?:=~|!~|!=|=)\s*@")
WORDS = {"and", "or", "unless", "bool", "offset", "inf", "nan", "by", "without", "on", "ignoring", "group_left",
         "group_right"}


class Selector:
    """A metric as an expression asks for it: `text` as it stands there, the metric's name, the labels it matches."""

    def __init__(self, text, name, labels):
        self.text, self.name, self.labels = text, name, labels


def names(expression):
    """The selectors of an expression, and the labels of its groupings and joins."""
    strings = STRING.findall(expression)
    bare = STRING.sub("@", expression)
    labels = {label.strip() for group in GROUPING.findall(bare) for label in group.split(",") if label.strip()}
    # Groupings and ranges go, but keep their place, so that strings are put back in order.
    bare = GROUPING.sub(lambda found: " " * len(found.group()), bare)
    bare = re.sub(r"\[[^\]]*\]", lambda found: " " * len(found.group()), bare)
    selectors = []
    for found in SELECTOR.finditer(bare):
        name, matchers = found.groups()
        rest = bare[found.end():].lstrip()
        before = bare[found.start() - 1] if found.start() else " "
        if name in WORDS or rest.startswith("(") or before.isalnum() or before == ".":
            continue
        first = bare[:found.start()].count("@")
        own = iter(strings[first:])
        text = re.sub("@", lambda _: next(own), found.group().strip())
        selectors.append(Selector(text, name, MATCHER.findall(matchers or "")))
    return selectors, labels
