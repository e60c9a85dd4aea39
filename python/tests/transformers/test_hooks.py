# SPDX-License-Identifier: Apache-2.0
"""Registration, versions, and the report."""

from __future__ import annotations

import sys

import pytest
import torch
import transformers
from architectures import build, configuration
from comparison import prompts

import folio_kv
import folio_kv.transformers as folio
from folio_kv.transformers import hooks


@pytest.mark.parametrize("version", ["4.57.1", "5.18.9", "5.24.0", "6.0.0.dev0"])
def test_an_unknown_version_is_refused_with_the_expected_ones(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["transformers"], "__version__", version)
    with pytest.raises(
        folio_kv.Unsupported,
        match=rf"expected a version from 5\.19 up to, not including, 5\.24 .*got {version}",
    ):
        folio.register()


@pytest.mark.parametrize("version", ["5.19.0", "5.23.1", "5.23.0rc1"])
def test_tested_versions_are_taken(version: str) -> None:
    assert hooks.why_not_version(version) is None


def test_a_version_without_a_hook_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(transformers.masking_utils, "chunked_overlay")
    with pytest.raises(
        folio_kv.Unsupported, match="lacks transformers.masking_utils.chunked_overlay"
    ):
        folio.register()


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
