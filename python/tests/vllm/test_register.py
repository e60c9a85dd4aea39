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

    from folio_kv.vllm import versions

    def forget() -> None:
        AttentionBackendEnum.CPU_ATTN.clear_override()
        AttentionBackendEnum.CPU_MLA.clear_override()
        versions.ENGINE._warned.clear()

    forget()
    yield AttentionBackendEnum
    forget()


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


def test_cache_types_do_not_depend_on_the_kernels_of_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM 0.33 asks the class in place of CPU_ATTN; its own has fp8 with AVX-512 alone."""
    import torch

    from folio_kv.vllm.backend import FolioBackend

    monkeypatch.setattr(torch.cpu, "_is_avx512_supported", lambda: False)
    assert FolioBackend.supports_kv_cache_dtype("fp8")
    assert FolioBackend.supports_kv_cache_dtype(None)
    assert FolioBackend.supports_kv_cache_dtype("int4_per_token_head")
    assert not FolioBackend.supports_kv_cache_dtype("turboquant_4bit_nc")


def _warnings_of_register(caplog: pytest.LogCaptureFixture) -> list[str]:
    import folio_kv.vllm

    logger = logging.getLogger("vllm.folio_kv")
    logger.addHandler(caplog.handler)  # vLLM may have cut its loggers off from the root's handlers
    try:
        folio_kv.vllm.register()
    finally:
        logger.removeHandler(caplog.handler)
    said = dict.fromkeys((record.levelno, record.getMessage()) for record in caplog.records)
    caplog.clear()
    assert {level for level, _ in said} <= {logging.WARNING}
    return [message for _, message in said]


def test_an_older_version_is_refused_whole_with_one_message(
    backends: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import vllm

    monkeypatch.setattr(vllm, "__version__", "0.31.2")
    (message,) = _warnings_of_register(caplog)
    assert "CPU_ATTN, CPU_MLA: vLLM: expected 0.32 or later, got 0.31.2; vLLM runs" in message
    assert not backends.CPU_ATTN.is_overridden() and not backends.CPU_MLA.is_overridden()


def test_a_newer_version_is_served_and_warned_of_once(
    backends: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import vllm

    monkeypatch.setattr(vllm, "__version__", "0.99.1")
    (message,) = _warnings_of_register(caplog)
    assert "vLLM 0.99.1 is newer than the newest that folio is tested with (0.32)" in message
    assert _warnings_of_register(caplog) == []
    assert backends.CPU_ATTN.is_overridden() and backends.CPU_MLA.is_overridden()


def _other_forward(backends: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackendImpl

    monkeypatch.setattr(CPUAttentionBackendImpl, "forward", lambda self, layer, x: x)
    return "CPUAttentionBackendImpl.forward(layer, query, key, value,"


def _other_layout(backends: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend

    monkeypatch.setattr(CPUAttentionBackend, "supported_kv_cache_layouts", lambda: ())
    return "CPUAttentionBackend.supported_kv_cache_layouts (LBHNC alone)"


def _no_latent_class(backends: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    from vllm.v1.attention.backends.mla import cpu_mla

    monkeypatch.delattr(cpu_mla, "CPUMLAImpl")
    return "vllm.v1.attention.backends.mla.cpu_mla.CPUMLAImpl"


@pytest.mark.parametrize(
    "change, refused, served",
    [
        (_other_forward, "CPU_ATTN", "CPU_MLA"),
        (_other_layout, "CPU_ATTN", "CPU_MLA"),
        (_no_latent_class, "CPU_MLA", "CPU_ATTN"),
    ],
)
def test_a_back_end_that_lacks_a_hook_is_refused_by_name_and_the_other_served(
    change: Any,
    refused: str,
    served: str,
    backends: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    lacks = change(backends, monkeypatch)
    (message,) = _warnings_of_register(caplog)
    assert message.startswith(f"folio: {refused}: vLLM ") and " lacks " in message
    assert lacks in message
    assert not backends[refused].is_overridden()
    assert backends[served].is_overridden()


def test_a_switch_of_another_value_is_refused_with_a_message(
    backends: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("FOLIO_VLLM", "yes")
    (message,) = _warnings_of_register(caplog)
    assert "FOLIO_VLLM: expected 0 or 1, got 'yes'" in message
    assert not backends.CPU_ATTN.is_overridden()


def test_the_line_names_who_serves_which_layers_and_why() -> None:
    from folio_kv.vllm.report import sentence

    layers = {f"model.layers.{i}.attn": "folio" for i in (0, 1, 3)}
    layers |= {"model.layers.2.attn": "head size 65", "model.layers.4.attn": "head size 65"}
    line = sentence(layers)
    assert "folio serves 3 of 5 attention layers: 0-1, 3; vLLM serves 2, 4: head size 65; " in line
