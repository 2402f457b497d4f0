"""Facts: what was expected of a server, and what it did."""

import time


class Facts:
    """Prints each fact as it is found, and keeps it."""

    def __init__(self):
        self.found = []

    def add(self, about, fact, expected, seen, ok=None):
        """A fact holds if what was seen is what was expected, unless `ok` says whether it does."""
        ok = expected == seen if ok is None else bool(ok)
        self.found.append({"about": about, "fact": fact, "expected": expected, "seen": seen, "ok": ok})
        print(f"fact {about}: {fact} | expected {expected} | seen {seen} | {'ok' if ok else 'DIFFERENT'}", flush=True)


def settled(read, expected, seconds=5.0):
    """Reads until the value is the expected one, or time is up: counters follow a response by a moment."""
    end = time.monotonic() + seconds
    while (value := read()) != expected and time.monotonic() < end:
        time.sleep(0.02)
    return value
