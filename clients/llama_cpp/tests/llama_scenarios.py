# SPDX-License-Identifier: Apache-2.0
"""What a server does with a cache, as commands for `llama_run`: one function per scenario.

A scenario is (options of the context, commands). A Change is what a test has otherwise in it.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

Commands = list[dict[str, Any]]
Scenario = tuple[dict[str, Any], Commands]

VOCABULARY = 256


@dataclasses.dataclass(frozen=True)
class Change:
    """For tests that prove that a wrong mask is noticed, what such a mask does: `hidden` tokens of
    the first sequence's context are removed before the last commands; the token at `other` of the
    first call is another one. `draw`: other texts, by a permutation of the vocabulary."""

    hidden: int = 0
    other: int | None = None
    draw: int = 0


NONE = Change()


def tokens(seed: int, count: int) -> list[int]:
    """Numbers below VOCABULARY without a pattern that attention could see."""
    state, result = 2654435761 * (seed + 1) % 2**32, []
    for _ in range(count):
        state = (1664525 * state + 1013904223) % 2**32
        result.append((state >> 16) % VOCABULARY)
    return result


def decode(*parts: tuple[int, int, int], outputs: int = 10**9) -> dict[str, Any]:
    """A call with several sequences' tokens: parts of (sequence, first position, count). The last
    `outputs` tokens of each part and every 16th before them give logits."""
    call: dict[str, Any] = {"do": "decode"}
    call |= {"tokens": [], "positions": [], "sequences": [], "outputs": []}
    for sequence, first, count in parts:
        call["tokens"] += tokens(1000 * sequence + first, count)
        call["positions"] += range(first, first + count)
        call["sequences"] += [sequence] * count
        call["outputs"] += [int(i >= count - outputs or i % 16 == 0) for i in range(count)]
    return call


def remove(sequence: int, begin: int, end: int) -> dict[str, Any]:
    return {"do": "remove", "sequence": sequence, "from": begin, "to": end}


def shift(sequence: int, begin: int, end: int, by: int) -> dict[str, Any]:
    return {"do": "shift", "sequence": sequence, "from": begin, "to": end, "by": by}


def copy(sequence: int, target: int) -> dict[str, Any]:
    return {"do": "copy", "sequence": sequence, "target": target, "from": -1, "to": -1}


def steps(lengths: list[int], count: int) -> Commands:
    """`count` steps of one token for each sequence whose context has a length."""
    return [decode(*((s, length + i, 1) for s, length in enumerate(lengths))) for i in range(count)]


def prompt(length: int, hidden: int = 0) -> Scenario:
    hide = [remove(0, length - hidden - 1, length - 1)] if hidden else []
    # A cache no larger than needed, so that windows turn over in it.
    options = {"tokens": length + 40, "full_windows": False}
    return options, [decode((0, 0, length), outputs=64), *hide, *steps([length], 24)]


def sequences(unified: bool, hidden: int = 0) -> Scenario:
    """Four prompts in one call, steps of all, a chunk among steps, a sequence replaced."""
    options = {"tokens": 1024, "sequences": 4, "unified": unified}
    commands = [decode((0, 0, 65), (1, 0, 33), (2, 0, 80), (3, 0, 17)), *steps([65, 33, 80, 17], 6)]
    commands += [remove(0, 50, 50 + hidden)] if hidden else []
    commands += [
        decode((0, 71, 1), (1, 39, 9), (2, 86, 1), (3, 23, 1)),
        remove(2, -1, -1),
        decode((0, 72, 1), (1, 48, 1), (2, 0, 40), (3, 24, 1)),
        *steps([73, 49, 40, 25], 4),
    ]
    return options, commands


def shifted(hidden: int = 0) -> Scenario:
    """llama.cpp's context shift: a part of the context leaves, what follows moves up."""
    commands = [decode((0, 0, 200)), remove(0, 32, 96), shift(0, 96, -1, -64)]
    commands += [remove(0, 130 - hidden, 130)] if hidden else []
    return {"tokens": 512}, [*commands, *steps([136], 8), decode((0, 144, 20)), *steps([164], 2)]


def copied(unified: bool, hidden: int = 0) -> Scenario:
    """A shared prefix, then two continuations."""
    options = {"tokens": 1024, "sequences": 2, "unified": unified}
    commands = [decode((0, 0, 100)), copy(0, 1), *steps([100, 100], 6)]
    commands += [remove(0, 90, 90 + hidden)] if hidden else []
    return options, [*commands, decode((0, 106, 10), (1, 106, 25)), *steps([116, 131], 4)]


def make(name: str, change: Change = NONE) -> Scenario:
    options, commands = _make(name, change.hidden)
    calls = [command for command in commands if command["do"] == "decode"]
    if change.other is not None:
        text = calls[0]["tokens"]
        text[change.other] = (text[change.other] + VOCABULARY // 2) % VOCABULARY
    if change.draw:
        drawn = np.random.default_rng(change.draw).permutation(VOCABULARY)
        for call in calls:
            call["tokens"] = drawn[call["tokens"]].tolist()
    return options, commands


def _make(name: str, hidden: int) -> Scenario:
    kind, _, argument = name.partition("-")
    if kind == "prompt":
        return prompt(int(argument), hidden)
    if kind == "sequences":
        return sequences(argument == "unified", hidden)
    if kind == "copied":
        return copied(argument == "unified", hidden)
    return shifted(hidden)


NAMES = [
    *(f"prompt-{length}" for length in (1, 17, 512, 4096)),
    *(f"{kind}-{form}" for kind in ("sequences", "copied") for form in ("unified", "split")),
    "shifted",
]
