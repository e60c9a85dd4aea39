# SPDX-License-Identifier: Apache-2.0
"""Caches of four bits whose rows llama.cpp turns by Hadamard matrices before it quantises them, as it
does unless told otherwise: folio reads them in place, because llama.cpp turns queries and outputs.

The model's keys have channels of 8 times the others, one among each 32 that share a scale.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from prompt_runs import COUNT, PAGE, PROMPT, Runs, restored, same

from llama_comparison import LARGEST_OF_ONE, MEAN_OF_ONE, Distance, Pair
from llama_scenarios import NONE

CACHE = "q4_0"
SCENARIO = "prompt-512"
Q4_0 = 2  # its number in ggml
AS_IT_IS = {"LLAMA_ATTN_ROT_DISABLE": "1"}
GENERATE = [["generate", PROMPT, COUNT]]


@pytest.fixture(scope="module")
def pairs(built: pathlib.Path, model_files: dict[str, pathlib.Path]) -> Iterator[dict[bool, Pair]]:
    """With turned rows, and without."""
    program, device = built / "llama_run", built / "libggml-folio.so"
    made = {
        turned: Pair(program, model_files["outliers"], device, turned) for turned in (True, False)
    }
    yield made
    for pair in made.values():
        pair.close()


@pytest.mark.parametrize("is_turned", [True, False], ids=["turned", "as it is"])
def test_logits_are_those_of_the_cache_that_llama_cpp_makes(
    pairs: dict[bool, Pair], is_turned: bool
) -> None:
    """Beside exact attention over the values that this cache holds, and over those of the other."""
    pair, other = pairs[is_turned], pairs[not is_turned]
    found = pair.compare(SCENARIO, CACHE)
    print(f"{found}")
    log = pair.folio("close")["log"]
    assert f"attn_rot_k = {int(is_turned)}" in log and f"attn_rot_v = {int(is_turned)}" in log
    assert found.mean <= MEAN_OF_ONE and found.largest <= LARGEST_OF_ONE
    far = Distance.between(
        pair.run_folio(SCENARIO, CACHE, NONE), other.oracle(SCENARIO, CACHE, NONE)
    )
    print(f"of the other cache: {far}")
    assert far.mean > 1.5 * found.folio.mean


def test_turned_rows_lose_less(pairs: dict[bool, Pair]) -> None:
    """Beside a cache that is not quantised."""
    exact = pairs[True].run_stock(SCENARIO, "f32", "off", NONE)
    lost = {}
    for is_turned, pair in pairs.items():
        folio = pair.run_folio(SCENARIO, CACHE, NONE)
        stock = pair.run_stock(SCENARIO, CACHE, "on", NONE)
        lost[is_turned] = [Distance.between(logits, exact).mean for logits in (folio, stock)]
    print(f"folio, stock: turned {lost[True]}, as they are {lost[False]}")
    for turned, as_it_is in zip(lost[True], lost[False]):
        assert turned < 0.7 * as_it_is
    for folio, stock in lost.values():
        assert folio < 1.1 * stock


def generated(
    runs: Runs, model: str, options: dict[str, Any], **more: Any
) -> tuple[dict[str, Any], str]:
    """Tokens and logits of llama-cpp-python, and the log."""
    process = runs.begin([(model, {"verbose": True, **options})], GENERATE, **more)
    (found,), log = runs.end(process)
    return found, log


def test_one_option_generates_with_it(runs: Runs, text_models: Callable[[str], str]) -> None:
    model, as_it_is = text_models("outliers"), {"variables": AS_IT_IS}
    found, log = generated(runs, model, {}, dtype="q4_0")
    assert "folio serves 2 of 2 attention layers" in log
    assert "attn_rot_k = 1" in log and "attn_rot_v = 1" in log
    same([found], [generated(runs, model, {"type_k": Q4_0, "type_v": Q4_0})[0]])
    plain, log = generated(runs, model, as_it_is, dtype="q4_0")
    assert "attn_rot_k = 0" in log and "attn_rot_v = 0" in log
    exact, _ = generated(runs, model, {})
    first = [np.array(result["logits"][0]) for result in (found, plain, exact)]
    turned, other = (np.abs(row - first[2]).mean() for row in first[:2])
    print(f"behind the prompt, from those of f16: turned {turned:.3g}, as it is {other:.3g}")
    assert turned < 0.8 * other


def test_a_prompt_of_the_other_cache_is_not_taken(
    runs: Runs, text_models: Callable[[str], str]
) -> None:
    model = text_models("outliers")
    do = [["generate", PROMPT[:200], 1]]
    runs(model, do, dtype="q4_0")
    found, _ = runs([(model, {"variables": AS_IT_IS})], do, dtype="q4_0")
    assert restored(found) == [0]
    found, log = runs(model, do, dtype="q4_0")
    assert restored(found) == [3 * PAGE], log
