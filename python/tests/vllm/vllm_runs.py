# SPDX-License-Identifier: Apache-2.0
"""What the engines of the session said to the cases, for tests that compare them."""

from __future__ import annotations

from typing import Any

import pytest
from vllm_cases import QUICK

Runs = dict[str, dict[str, Any]]


def marked(names: Any) -> list[Any]:
    """The names as parameters: those of `QUICK` with the mark `quick`, the others with `full`."""
    marks = {name: pytest.mark.quick if name in QUICK else pytest.mark.full for name in names}
    return [pytest.param(name, marks=mark) for name, mark in marks.items()]


def of(runs: Runs, which: str, case: str) -> dict[str, Any]:
    """What a run said to a case; a case that failed in the engine fails here with its traceback."""
    result = runs[which][case]
    assert "error" not in result, f"{case}, {which}: {result['error']}"
    return result


def errors_of(reference: dict[str, Any], result: dict[str, Any]) -> list[float]:
    """|difference| of the log-probability of every given token."""
    pairs = zip(reference["scored"], result["scored"], strict=True)
    return [
        abs(a - b)
        for expected, request in pairs
        for a, b in zip(expected["prompt_logprobs"], request["prompt_logprobs"], strict=True)
    ]
