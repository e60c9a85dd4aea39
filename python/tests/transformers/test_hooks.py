# SPDX-License-Identifier: Apache-2.0
"""Registration, versions, and the report."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
import torch
import transformers
from architectures import build, configuration
from comparison import prompts, requests, run_batch
from transformers.generation.continuous_batching import cache as cb_cache

import folio_kv
import folio_kv.transformers as folio
from folio_kv.transformers import hooks


@pytest.fixture(autouse=True)
def probed_anew() -> Iterator[None]:
    """What a test changes is seen, and forgotten behind it."""
    hooks.capabilities.cache_clear()
    yield
    hooks.capabilities.cache_clear()


def _pretend(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["transformers"], "__version__", version)
    monkeypatch.setattr(hooks.ENGINE, "_warned", set())


@pytest.mark.parametrize("version", ["4.57.1", "5.18.9"])
def test_a_version_older_than_those_tested_is_refused_whole(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _pretend(version, monkeypatch)
    with pytest.raises(folio_kv.Unsupported, match=rf"expected 5\.19 or later, got {version}"):
        folio.register()


@pytest.mark.parametrize("version", ["5.19.0", "5.24.1", "5.23.0rc1"])
def test_tested_versions_are_taken_without_a_word(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _pretend(version, monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        folio.register()


@pytest.mark.parametrize("version", ["5.25.0", "6.0.0.dev0"])
def test_a_version_newer_than_those_tested_is_served_and_warned_of_once(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _pretend(version, monkeypatch)
    with pytest.warns(RuntimeWarning, match=f"transformers {version} is newer") as said:
        folio.register()
        folio.register()
    assert len(said) == 1
    assert set(folio.capabilities().values()) == {""}


def _refused(missing: str) -> list[str]:
    """The capabilities that are refused, each because of what is missing."""
    found = {name: why for name, why in folio.capabilities().items() if why}
    assert all(missing in why for why in found.values()), found
    return list(found)


def test_without_a_hook_of_attention_nothing_is_registered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(transformers.masking_utils, "chunked_overlay")
    assert _refused("lacks transformers.masking_utils.chunked_overlay") == ["attention"]
    with pytest.raises(folio_kv.Unsupported, match="attention: transformers .* lacks .*overlay"):
        folio.register()


def test_without_a_hook_of_the_cache_the_rest_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(transformers.cache_utils, "get_layer_types_and_kwargs")
    assert _refused("get_layer_types_and_kwargs") == ["FolioCache"]
    folio.register()
    with pytest.raises(folio_kv.Unsupported, match="FolioCache: transformers .* lacks"):
        folio.FolioCache  # noqa: B018
    monkeypatch.undo()  # transformers' own cache needs it, too
    assert _serves_a_forward()


@pytest.mark.parametrize("hook", ["update", "layer_to_allocator"])
def test_without_a_hook_of_continuous_batching_the_rest_is_served(
    hook: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Cache:
        """As a later release may have it: new rows are written elsewhere, or told otherwise."""

        config = None

        if hook != "update":

            def update(self, key_states: Any, value_states: Any, layer_idx: int, kwargs: Any): ...

        else:
            layer_to_allocator: ClassVar[dict[int, Any]] = {}

    monkeypatch.setattr(cb_cache, "PagedAttentionCache", Cache)
    assert _refused(f"PagedAttentionCache.{hook}") == ["continuous batching"]
    folio.register()
    assert _serves_a_forward()
    monkeypatch.undo()  # its manager makes the cache that it knows
    monkeypatch.setattr(
        hooks, "capabilities", lambda: {"continuous batching": f"transformers 6.0 lacks {hook}"}
    )
    model = build("llama", implementation="folio_flash")
    with pytest.raises(RuntimeError, match=f"continuous batching: transformers 6.0 lacks {hook}"):
        run_batch(model, requests())


def _serves_a_forward() -> bool:
    model = build("llama", implementation="folio")
    with torch.no_grad():
        model(input_ids=prompts()[0])
    return {layer.served_by for layer in folio.report(model).layers} == {"folio"}


def test_registering_twice_changes_nothing() -> None:
    check = transformers.PreTrainedModel._check_and_adjust_attn_implementation
    folio.register()
    assert transformers.PreTrainedModel._check_and_adjust_attn_implementation is check


@pytest.mark.parametrize("name", folio.NAMES)
def test_models_with_a_choice_of_their_own_take_our_names(name: str) -> None:
    model = build("gpt_oss", implementation=name)
    assert model.config._attn_implementation == name
    other = build("gpt_oss")
    other.set_attn_implementation(name)
    assert other.config._attn_implementation == name


def test_a_report_before_a_forward_says_so() -> None:
    layers = folio.report(build("llama")).layers
    assert [layer.reason for layer in layers] == ["not called yet"] * 3


def test_a_report_names_attention_that_cannot_be_reached() -> None:
    text = str(folio.report(build("bloom")))
    assert "stock  BloomAttention has attention of its own" in text


def test_a_report_after_a_forward_names_what_ran() -> None:
    model = build("llama", implementation="folio")
    with torch.no_grad():
        model(input_ids=prompts()[0])
    report = folio.report(model)
    assert [layer.served_by for layer in report.layers] == ["folio"] * 3
    assert str(report).splitlines()[0] == "model.layers.0.self_attn  folio"


def test_a_cache_needs_no_registration() -> None:
    assert len(folio.FolioCache(configuration("llama"))) == 3
