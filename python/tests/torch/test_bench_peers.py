# SPDX-License-Identifier: Apache-2.0
"""bench/peers: folio and torch take turns over tiny shapes, and both are right in all of them."""

import json
import math
import os
import pathlib
import subprocess
import sys

import pytest
import torch

PEERS = pathlib.Path(__file__).resolve().parents[3] / "bench/peers"
pytestmark = pytest.mark.skipif(not PEERS.is_dir(), reason="bench/peers is not here")


def compare(*arguments: object) -> subprocess.CompletedProcess:
    command = [sys.executable, PEERS / "compare.py", "--seconds", "0.001", "--rounds", "2"]
    command += ["--rotate-mib", "1", "--threads", "2", *arguments]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True)


def test_folio_and_torch_are_right_in_every_tiny_shape_and_have_times(tmp_path) -> None:
    results = tmp_path / "results.json"
    done = compare("--shapes", "tiny", "--contenders", "folio,torch", "--json", results)
    assert done.returncode == 0, done.stderr
    shapes = {part["shape"]: part["rows"] for part in json.loads(results.read_text())["shapes"]}
    assert {name: len(rows) for name, rows in shapes.items()} == {
        "tiny_decode": 4, "tiny_share": 4, "tiny_prefill": 3, "tiny_latent": 3, "tiny_8bit": 6,
        "tiny_4bit": 8, "tiny_append": 7,
    }  # fmt: skip
    for rows in shapes.values():
        for row in rows:
            assert "refused" not in row and not row["wrong"], row
            assert 0 < row["best_ms"] and row["calls"] >= 2 and row["bytes"] > 0, row
    assert "| best peer / folio hm |" in done.stdout


def test_a_library_that_is_missing_is_named_with_the_reason(tmp_path) -> None:
    done = compare("--shapes", "tiny_decode", "--contenders", "llama.cpp fa-off")
    assert done.returncode == 0, done.stderr
    assert "Missing: llama.cpp fa-off (tiny_decode): llama.cpp's ggml is not built" in done.stdout


@pytest.mark.parametrize(
    "arguments", [("--shapes", "no_such_shape"), ("--threads", "0"), ("--rounds", "0")]
)
def test_what_makes_no_sense_is_refused(arguments) -> None:
    done = compare(*arguments)
    assert done.returncode == 2 and "usage:" in done.stderr


def test_only_bytes_of_four_bits_and_their_scales_are_counted(tmp_path) -> None:
    results = tmp_path / "results.json"
    done = compare("--shapes", "tiny_4bit", "--contenders", "folio hm", "--json", results)
    assert done.returncode == 0, done.stderr
    (part,) = json.loads(results.read_text())["shapes"]
    elements = 2 * 70 * 2 * (64 + 64)  # of both sequences
    assert {row["contender"]: row["bytes"] * 8 / elements for row in part["rows"]} == {
        "folio hm": 16, "folio hm i4": 4.5, "folio hm nvfp4": 4.5, "folio hm kv4": 6.625,
    }  # fmt: skip


@pytest.fixture
def problem_module(monkeypatch):
    monkeypatch.syspath_prepend(os.fspath(PEERS))
    import problem

    return problem


def test_sequences_differ_and_the_reference_is_the_formula(problem_module) -> None:
    from shapes import SHAPES

    problem = problem_module.Problem(SHAPES["tiny_prefill"], 0)
    row = problem.sampled_rows()[1]
    q, key, value = (x.double() for x in (problem.q[row, 3], problem.key(0), problem.value(0)))
    visible = 100 - 40 + row + 1
    weights = (key[:visible, 0] @ q / 8).softmax(0)
    torch.testing.assert_close(problem.reference()[1, 3], weights @ value[:visible, 0])
    several = problem_module.Problem(SHAPES["tiny_decode"], 0)
    assert not several.key(0).equal(several.key(1)) and not several.value(0).equal(several.value(1))


@pytest.mark.parametrize("name", ["folio hm i4", "folio tm nvfp4", "folio hm kv4"])
def test_four_bits_are_right_and_those_whose_queries_are_not_turned_are_wrong(
    problem_module, monkeypatch, name
) -> None:
    from contenders import ENTRIES, folio
    from shapes import SHAPES

    problem = problem_module.Problem(SHAPES["tiny_4bit"], 0)
    entry, want = ENTRIES[name], problem.reference()

    def is_wrong() -> bool:
        contender = entry.make(problem, 1)
        contender.attend(0)
        got = contender.output()[problem.sampled_rows()]
        return entry.is_wrong(problem_module.relative_rms(got, want))

    assert not is_wrong()
    kind = folio.folio_kv.Kind
    monkeypatch.setattr(
        folio.folio_kv, "Kind", lambda *heads, **words: kind(*heads, **words, q_is_turned=True)
    )
    assert is_wrong()


def test_every_page_of_every_copy_is_used_once(problem_module) -> None:
    from shapes import SHAPES

    problem = problem_module.Problem(SHAPES["tiny_decode"], 1 << 20)
    table = problem.table(32)
    assert table.shape == (problem.copies, 2, 3) and problem.copies > 1
    assert table.flatten().sort().values.tolist() == list(range(table.numel()))
    slots = problem.slots(table[0], 32)
    assert len(slots) == 140 and slots[70] == table[0, 1, 0] * 32
    assert problem.slots(table[0], 32, 1).tolist() == [slots[69], slots[139]]


def test_an_error_that_is_not_a_number_counts_as_endless(problem_module) -> None:
    want = torch.ones(2, 3, dtype=torch.float64)
    assert problem_module.relative_rms(torch.full((2, 3), 1.5), want) == 0.5
    assert problem_module.relative_rms(torch.full((2, 3), math.nan), want) == math.inf
