"""Prompts that no server has seen before: token ids where the length matters, text where a chat needs it."""

import os
import random

# Ids that every model of the script has, and that are no special tokens of theirs.
LOWEST, HIGHEST = 300, 2000
SYLLABLES = "ba de fi go lu ma ne ri so tu va we".split()

# Another run must not find what an earlier one has left in the cache.
rng = random.Random(os.urandom(16))


def ids(count):
    return [rng.randrange(LOWEST, HIGHEST) for _ in range(count)]


def words(count):
    return " ".join("".join(rng.choices(SYLLABLES, k=2)) for _ in range(count))
