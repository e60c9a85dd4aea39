# SPDX-License-Identifier: Apache-2.0
"""The bench of clients/llama_cpp: it measures what it names, and the document says what it found."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys
from typing import Any

import pytest

import llama_report as report

BENCH = pathlib.Path(report.__file__).with_name("bench.py")


def cell(factor: float, **more: Any) -> dict[str, Any]:
    rates = {"on": 10.0, "off": 20.0, "folio": 20.0 * factor}
    usual = {"threads": 2, "cache": "f16", "cell": "tg@4096", "commit": "abc"}
    return {**usual, "tokens_per_second": rates, **more}


def test_the_document_says_what_the_results_say() -> None:
    assert report.update(is_check=True) == 0, "clients/llama_cpp/bench/bench.py --update"


def test_a_cell_takes_the_place_of_an_older_one(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "results.json"
    for factor, cache in (1.0, "f16"), (2.0, "bf16"), (3.0, "f16"):
        report.keep(path, cell(factor, cache=cache))
    held = json.loads(path.read_text())
    assert [report.factor(each) for each in held["cells"]] == [3.0, 2.0]
    rows = report.table(held).splitlines()
    assert rows[-2] == "| 2 | f16 | step at 4,096 | 20.0 | 10.0 | 60.0 | 3.00 × |"


def test_results_of_another_machine_are_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"machine": "another", "cells": []}))
    with pytest.raises(SystemExit, match="another machine: another"):
        report.keep(path, cell(1.0))


def test_the_smallest_run(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "results.json"
    sizes = ["--sittings", "1", "--rounds", "1", "--steps", "1", "--results", path]
    part = ["--threads", "1", "--caches", "q8_0", "--cells", "tg@0"]
    subprocess.run([sys.executable, BENCH, *part, *sizes], check=True)
    (found,) = json.loads(path.read_text())["cells"]
    assert found["tokens_per_second"].keys() == {"on", "folio"}
    assert all(rate > 0 for rate in found["tokens_per_second"].values())


def test_an_unknown_cell_is_refused() -> None:
    command = [sys.executable, BENCH, "--cells", "tg@5"]
    refused = subprocess.run(command, capture_output=True, text=True)
    assert refused.returncode == 2 and "--cells: expected some of tg@0" in refused.stderr


@pytest.mark.full
def test_the_bench_of_prompts_shows_a_restart_and_a_cost(text_model: str) -> None:
    small = ["--tokens", "512", "--turns", "1", "--requests", "2", "--threads", "1"]
    command = [sys.executable, BENCH.with_name("prompts.py"), "--model", text_model, *small]
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert "restart, 552 tokens, 512 of them restored: " in said
    assert re.search(
        r"^cost, wall time: [0-9.]+ tokens/s without, [0-9.]+ with: ", said, re.MULTILINE
    )
