# SPDX-License-Identifier: Apache-2.0
"""llama.cpp's own check of its attention, run on folio's device; and that the check can fail."""

from __future__ import annotations

import pathlib

import backend_ops
import pytest

SERVED = "hsk=64,hsv=64,type_K=f16,type_V=q8_0"
REFUSED = "hsk=65,hsv=64,type_K=f16,type_V=f16"


@pytest.mark.parametrize("part", ["quick", pytest.param("whole", marks=pytest.mark.full)])
def test_every_case_agrees_or_is_refused_as_stated(built: pathlib.Path, part: str) -> None:
    summary, wrong = backend_ops.check(built, part)
    assert not wrong, "\n".join([summary, *wrong[:50]])


def test_results_as_expected_have_no_complaint() -> None:
    cases = [(SERVED, "OK"), (REFUSED, "not supported [folio]")]
    assert list(backend_ops.complaints(cases, 2, "OK")) == []


@pytest.mark.parametrize(
    ("case", "complaint"),
    [
        ((SERVED, "FAIL"), "failed"),
        ((SERVED, ""), "failed"),
        ((SERVED, "not supported [folio]"), "refused"),
        ((REFUSED, "OK"), "expected to be refused"),
        (("hsk=64,hsv=64,type_K=q1_0,type_V=f16", "OK"), "expected to be refused"),
    ],
)
def test_other_results_are_complained_of(case: tuple[str, str], complaint: str) -> None:
    (line,) = backend_ops.complaints([case], 1, "OK")
    assert complaint in line


def test_missing_cases_are_complained_of() -> None:
    (line,) = backend_ops.complaints([], 426, "OK")
    assert "0 cases, expected 426" in line


@pytest.mark.parametrize(
    "trace",
    ["", "nodes 9 refused 0 graphs", "nodes 10 refused 1 graphs", "left to the CPU backend: x"],
)
def test_cases_that_the_device_did_not_run_are_complained_of(trace: str) -> None:
    assert list(backend_ops.complaints_of_trace(trace, 10))


def test_a_trace_of_all_cases_has_no_complaint() -> None:
    assert list(backend_ops.complaints_of_trace("nodes 10 refused 0 graphs 10", 10)) == []
