# SPDX-License-Identifier: Apache-2.0
"""Prompts that survive: what a process finds of an earlier one's gives the logits that computing it
gives, and what is not surely the same is not found.
"""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from prompt_runs import (
    COUNT,
    KINDS,
    NEAR,
    OTHER,
    PAGE,
    PROMPT,
    SECOND,
    SYSTEM,
    Runs,
    restored,
    same,
    tokens,
)


@pytest.mark.parametrize("architecture", KINDS)
def test_a_conversation_is_taken_up_after_a_restart(
    runs: Runs, text_models: Callable[[str], str], architecture: str
) -> None:
    model = text_models(architecture)
    before, _ = runs(model, [["generate", PROMPT, COUNT], ["generate", OTHER, COUNT]])
    assert restored(before) == [0, 0]
    # The end of an answer is the last token that was evaluated; the next turn stands behind it.
    turn = PROMPT + before[0]["tokens"][: COUNT - 1] + tokens(90, 4)
    longer = SYSTEM + SECOND[:130] + tokens(200, 5)
    do = [["generate", prompt, COUNT] for prompt in (PROMPT, turn, OTHER, longer)]
    after, log = runs(model, do)
    cold = runs.computed(model, do, is_cold=True)
    same(after, cold)
    last_page = [(len(prompt) - 1) // PAGE * PAGE for prompt in (PROMPT, OTHER)]
    # The second prompt stands in the context but for its last tokens; the last shares 430 tokens
    # with the third, and the context has them unless it is of a kind that cannot go back.
    assert restored(after)[::2] == last_page, log
    assert restored(after)[1] in (0, len(PROMPT) + COUNT - 1)
    assert f"restored {last_page[0]} of {len(PROMPT)} tokens in" in log
    again, _ = runs(model, [do[1], do[3]])
    same(again, [cold[1], cold[3]])
    first, second = restored(again)
    assert first >= len(PROMPT) + COUNT - 1
    assert second == (len(longer) - 1) // PAGE * PAGE


def test_logits_tell_a_wrong_state(runs: Runs, text_models: Callable[[str], str]) -> None:
    """The control: another token far ahead is seen, so that `same` would see another prompt's state."""
    other = [*PROMPT[:100], PROMPT[100] ^ 1, *PROMPT[101:]]
    prompts = [["generate", prompt, COUNT] for prompt in (PROMPT, other)]
    found, changed = runs.computed(text_models("llama"), prompts, is_cold=True)
    with pytest.raises(AssertionError):
        same([changed], [found])


CONTEXTS = {
    "keys_q8_0_values_q4_0": {"type_k": 8, "type_v": 2},
    "q8_0": {"type_k": 8, "type_v": 8},
    "q4_0": {"type_k": 2, "type_v": 2},
    "bf16": {"type_k": 30, "type_v": 30},
    "transposed": {"flash_attn": False},
    "small_windows": {"swa_full": False},
    "small_batches": {"n_batch": 96, "n_ubatch": 32},
}


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "context"),
    [
        (name, context)
        for name in KINDS
        for context in CONTEXTS
        # llama.cpp makes no context of MLA whose keys and values have two types.
        if (name, context) != ("deepseek2", "keys_q8_0_values_q4_0")
    ],
)
def test_all_kinds_of_contexts(
    runs: Runs, text_models: Callable[[str], str], name: str, context: str
) -> None:
    """A restored prompt goes on as the one that was computed in the same batches."""
    model = [(text_models(name), CONTEXTS[context])]
    first = [["generate", PROMPT[: 9 * PAGE], 1], ["generate", PROMPT, COUNT]]
    expected = runs.computed(model, first)
    runs(model, first[:1])
    found, log = runs(model, first[1:])
    assert restored(found)[0] >= 8 * PAGE, log
    limit = NEAR if context in ("transposed", "small_windows", "small_batches") else 0.2
    for a, b in zip(found[0]["logits"][:1], expected[1]["logits"][:1], strict=True):
        assert np.abs(np.subtract(a, b)).max() <= limit * np.abs(b).max()


def with_another_weight(path: str, folder: pathlib.Path) -> str:
    """A copy of a model whose last weight has another sign."""
    data = bytearray(pathlib.Path(path).read_bytes())
    data[-1] ^= 0x80
    made = folder / "other.gguf"
    made.write_bytes(data)
    return str(made)


def test_what_may_be_another_state_is_not_found(
    runs: Runs, text_models: Callable[[str], str]
) -> None:
    model = text_models("llama")
    copy = runs.folder / "copy.gguf"
    shutil.copyfile(model, copy)
    quantised = {"type_k": 8, "type_v": 8}
    kept = [(model, {}), (str(copy), {}), (model, quantised)]
    others: dict[str, tuple[str, dict[str, Any]]] = {
        "weights": (with_another_weight(model, runs.folder), {}),
        "values' type": (model, {"type_v": 8}),
        "rotation": (model, {**quantised, "variables": {"LLAMA_ATTN_ROT_DISABLE": "1"}}),
        "layout": (model, {"flash_attn": False}),
        "rope": (model, {"rope_freq_base": 20000.0}),
        "context": (model, {"n_ctx": 1024}),
        "overrides": (model, {"kv_overrides": {"llama.attention.causal": True}}),
    }

    def each(count: int) -> list[list[Any]]:
        return [["generate", PROMPT[:200], 1, number] for number in range(count)]

    runs([kept[0], kept[2]], each(2))
    found, _ = runs([*others.values(), *kept], each(len(others) + len(kept)))
    restored_by = [int(result["figures"]["restored_tokens"]) for result in found]
    names = [*others, "itself", "a copy", "quantised"]
    expected = dict.fromkeys(others, 0) | dict.fromkeys(names[len(others) :], 3 * PAGE)
    assert dict(zip(names, restored_by, strict=True)) == expected


def test_two_models_at_once_keep_their_own(runs: Runs, text_models: Callable[[str], str]) -> None:
    """Two contexts of one model and one of another in a process, by turns."""
    both = [(text_models(name), {}) for name in ("llama", "llama", "deepseek2")]
    turns = [(PROMPT, 0), (OTHER, 1), (PROMPT, 2), (PROMPT, 1), (OTHER, 0), (OTHER, 2)]
    do = [["generate", prompt, COUNT, model] for prompt, model in turns]
    found, _ = runs(both, do)
    expected = runs.computed(both, do, is_cold=True)
    same(found, expected)
    again, _ = runs(both, do)
    same(again, expected)
    assert all(int(result["figures"]["restored_tokens"]) > 0 for result in again)


def test_a_shifted_context_is_not_kept(runs: Runs, text_models: Callable[[str], str]) -> None:
    """Its tokens are those of another prompt, its cells are not."""
    model = text_models("llama")
    do: list[Any] = [["generate", PROMPT, 1], ["shift", 128]]
    held = runs.computed(model, do)[1]["held"]
    more = held + tokens(100, 6)
    before, _ = runs(model, [*do, ["generate", more, 1]])
    kept = [result["figures"]["kept_pages"] for result in before]
    assert kept == [len(PROMPT) // PAGE] * 3
    found, _ = runs(model, [["generate", more, COUNT]])
    assert restored(found) == [0]
    same(found, runs.computed(model, [["generate", more, COUNT]]))


def test_what_is_computed_behind_a_hole_is_not_kept(runs: Runs, text_model: str) -> None:
    more = [["generate", PROMPT + SECOND, COUNT]]
    before, _ = runs(text_model, [["generate", PROMPT, 1], ["hole", 64, 128], *more])
    expected = runs.computed(text_model, more)
    with pytest.raises(AssertionError):  # it is another one
        same(before[2:], expected)
    found, _ = runs(text_model, more)
    assert restored(found) == [len(PROMPT)]
    same(found, expected)


def test_a_request_that_is_given_up_leaves_the_next_one_alone(
    runs: Runs, text_models: Callable[[str], str]
) -> None:
    """Its generator ends in one thread while another one evaluates."""
    model = text_models("llama")
    do = [["abandon", PROMPT, OTHER, COUNT], ["generate", OTHER, COUNT]]
    found, log = runs(model, do)
    expected, _ = runs(model, do, has_cache=False)
    same(found, expected)
    assert not found[0]["read"] and "not kept" not in log


def test_a_model_that_is_set_back_sees_its_windows(
    runs: Runs, text_models: Callable[[str], str]
) -> None:
    """A restored context has the last window alone; stock's, by default, has all of it."""
    model = text_models("gemma3")
    do: list[Any] = [["generate", PROMPT, 1], ["back", 300, SECOND]]
    runs(model, do[:1])
    found, _ = runs(model, do)
    assert restored(found)[0] > 600
    same(found, runs.computed(model, do))


def test_logits_of_a_prompt_are_computed_where_they_are_asked_for(
    runs: Runs, text_model: str
) -> None:
    text, model = (
        "".join(map(chr, (97 + t % 26 for t in PROMPT))),
        [(text_model, {"logits_all": True})],
    )
    do = [["complete", text, 4, False], ["complete", text, 4, True]]
    runs(model, do[:1])
    found, _ = runs(model, do)
    assert restored(found) == [len(PROMPT) // PAGE * PAGE, 0]
    expected = runs.computed(model, do[1:])
    assert len(expected[0]["of_tokens"]) > len(PROMPT)
    a, b = (np.array(one["of_tokens"][1:], float) for one in (found[1], expected[0]))
    assert np.abs(a - b).max() < 0.05


def test_whole_states_where_none_can_be_cut(runs: Runs, text_models: Callable[[str], str]) -> None:
    model, do = text_models("llama"), [["generate", PROMPT, COUNT]]
    before, log = runs(model, do, is_whole=True)
    said = "prompts are kept as whole states, by ends of requests and not by tokens: "
    assert log.count(said + "the test knows none") == 1
    turn = [["generate", PROMPT + before[0]["tokens"][: COUNT - 1] + SECOND, COUNT]]
    found, _ = runs(model, turn, is_whole=True)
    assert restored(found) == [len(PROMPT) + COUNT - 1]
    same(found, runs.computed(model, turn))
