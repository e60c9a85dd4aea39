# SPDX-License-Identifier: Apache-2.0
"""Runs the stock engine without and with folio: two processes for all cases that are asked for.

Starting an engine takes seconds and importing vLLM ten more: tests share two processes and read
what they wrote. Without vLLM in the environment the whole folder is skipped.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import vllm_cases
from vllm_engine import Engine
from vllm_layers import BLOCKS, HEAD, KV_HEADS, Q_HEADS, SLOTS
from vllm_scaled import NAMES, zeros_of

HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    """Declares the mark of the cases of which a third runs each day; `full` is declared above."""
    config.addinivalue_line("markers", "quick: one case of each kind of an engine's")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips this folder where vLLM is missing."""
    if importlib.util.find_spec("vllm") is not None:
        return
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.skip(reason="vllm is not installed"))


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """The engines of this session."""
    return Engine(tmp_path_factory.mktemp("vllm"))


@pytest.fixture(scope="session")
def runs(request: pytest.FixtureRequest, engine: Engine) -> dict[str, dict[str, Any]]:
    """Every case that a collected test names: {"stock": without folio, "folio": with it}."""
    names = []
    for item in request.session.items:
        case = getattr(item, "callspec", None) and item.callspec.params.get("case")
        if case in vllm_cases.CASES and not item.get_closest_marker("skip"):
            names.append(case)
    stock, folio = vllm_cases.plan_of(names)
    return {
        "stock": engine.run(stock, False, "stock"),
        "folio": engine.run(folio, True, "folio"),
    }


@pytest.fixture(scope="module")
def config(engine: Engine) -> Iterator[Any]:
    """vLLM's configuration of the tiny Llama, current while these tests run, with folio put in."""
    pytest.importorskip("vllm")
    from vllm.config import set_current_vllm_config
    from vllm.engine.arg_utils import EngineArgs
    from vllm.v1.attention.backends.registry import AttentionBackendEnum

    import folio_kv.vllm

    folio_kv.vllm.register()
    arguments = EngineArgs(
        model=str(engine.model("llama")), dtype="float32", max_model_len=512, block_size=SLOTS
    )
    config = arguments.create_engine_config()
    with set_current_vllm_config(config):
        yield config
    AttentionBackendEnum.CPU_ATTN.clear_override()
    AttentionBackendEnum.CPU_MLA.clear_override()


@pytest.fixture
def make_layer(config: Any) -> Iterator[Callable[..., Any]]:
    """Makes attention layers of vLLM with names of their own; they are forgotten after the test."""
    import torch
    from vllm.model_executor.layers.attention import Attention

    layers = config.compilation_config.static_forward_context

    def make(cache_dtype: str = "auto", layer_class: Any = Attention, **options: Any) -> Any:
        usual = dict(num_heads=Q_HEADS, head_size=HEAD, scale=0.25, num_kv_heads=KV_HEADS)
        config.cache_config.cache_dtype = cache_dtype
        prefix = f"layers.{len(layers)}.attn"
        layer = layer_class(cache_config=config.cache_config, prefix=prefix, **(usual | options))
        if cache_dtype in NAMES:
            layer.kv_cache = zeros_of(layer, config)
            return layer
        element = torch.float32 if cache_dtype == "auto" else torch.uint8
        shape = (BLOCKS, layer.num_kv_heads, SLOTS, 2 * layer.head_size)
        layer.kv_cache = torch.zeros(shape, dtype=element)
        return layer

    yield make
    layers.clear()
    config.cache_config.cache_dtype = "auto"
