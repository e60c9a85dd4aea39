# SPDX-License-Identifier: Apache-2.0
"""When folio puts itself in, and what it says about it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

pytestmark = pytest.mark.quick


@pytest.fixture(autouse=True)
def backends() -> Iterator[Any]:
    """vLLM's table of back ends, as it was before and after the test."""
    pytest.importorskip("vllm")
    from vllm.v1.attention.backends.registry import AttentionBackendEnum

    ours = (AttentionBackendEnum.CPU_ATTN, AttentionBackendEnum.CPU_MLA)
    for member in ours:
        member.clear_override()
    yield AttentionBackendEnum
    for member in ours:
        member.clear_override()


def test_registering_puts_folio_in_place_of_both_cpu_back_ends(backends: Any) -> None:
    import folio_kv.vllm

    folio_kv.vllm.register()
    folio_kv.vllm.register()  # vLLM may call it again
    assert backends.CPU_ATTN.get_path() == "folio_kv.vllm.backend.FolioBackend"
    assert backends.CPU_MLA.get_path() == "folio_kv.vllm.mla.FolioMLABackend"


def test_the_switch_leaves_both_back_ends(backends: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import folio_kv.vllm

    monkeypatch.setenv("FOLIO_VLLM", "0")
    folio_kv.vllm.register()
    assert not backends.CPU_ATTN.is_overridden()
    assert not backends.CPU_MLA.is_overridden()


def _warning_of_register(caplog: pytest.LogCaptureFixture) -> str:
    import folio_kv.vllm

    logger = logging.getLogger("vllm.folio_kv")
    logger.addHandler(caplog.handler)  # vLLM may have cut its loggers off from the root's handlers
    try:
        folio_kv.vllm.register()
    finally:
        logger.removeHandler(caplog.handler)
    said = {(record.levelno, record.getMessage()) for record in caplog.records}
    assert [level for level, _ in said] == [logging.WARNING]
    return said.pop()[1]


def test_an_unknown_version_is_refused_with_a_message(
    backends: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import vllm

    monkeypatch.setattr(vllm, "__version_tuple__", (0, 99, 1))
    monkeypatch.setattr(vllm, "__version__", "0.99.1")
    message = _warning_of_register(caplog)
    assert "this is vLLM 0.99.1, folio knows 0.32.x" in message
    assert not backends.CPU_ATTN.is_overridden()


def test_a_known_version_with_other_hooks_is_refused_with_a_message(
    backends: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackendImpl

    monkeypatch.setattr(CPUAttentionBackendImpl, "forward", lambda self, layer, x: x)
    assert "CPUAttentionBackendImpl.forward" in _warning_of_register(caplog)
    assert not backends.CPU_ATTN.is_overridden()


def test_a_switch_of_another_value_is_refused_with_a_message(
    backends: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("FOLIO_VLLM", "yes")
    assert "FOLIO_VLLM: expected 0 or 1, got 'yes'" in _warning_of_register(caplog)
    assert not backends.CPU_ATTN.is_overridden()


def test_the_line_names_who_serves_which_layers_and_why() -> None:
    from folio_kv.vllm.report import sentence

    layers = {f"model.layers.{i}.attn": "folio" for i in (0, 1, 3)}
    layers |= {"model.layers.2.attn": "head size 65", "model.layers.4.attn": "head size 65"}
    line = sentence(layers)
    assert "folio serves 3 of 5 attention layers: 0-1, 3; vLLM serves 2, 4: head size 65; " in line
