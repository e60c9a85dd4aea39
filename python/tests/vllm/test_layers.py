# SPDX-License-Identifier: Apache-2.0
"""One layer of vLLM without an engine: who serves it, where K and V lie, which scales count."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from vllm_engine import Engine

BLOCKS, SLOTS, KV_HEADS, Q_HEADS, HEAD = 7, 32, 2, 8, 32
QUERIES, CONTEXTS = [1, 40, 5], [33, 40, 70]
TABLE = [[5, 2, -1], [1, 4, -1], [3, 0, 6]]

pytestmark = pytest.mark.quick


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
        element = torch.float32 if cache_dtype == "auto" else torch.uint8
        shape = (BLOCKS, layer.num_kv_heads, SLOTS, 2 * layer.head_size)
        layer.kv_cache = torch.zeros(shape, dtype=element)
        return layer

    yield make
    layers.clear()
    config.cache_config.cache_dtype = "auto"


def step_of(
    config: Any, layers: list[Any], causal: Any = True, requests: tuple[int, ...] = (0, 1, 2)
) -> Any:
    """What the builder makes of a batch: a decoding request, a prompt, the last chunk of one."""
    import torch
    from vllm.v1.attention.backend import CommonAttentionMetadata

    from folio_kv.vllm.builder import FolioBuilder

    spec = layers[0].get_kv_cache_spec(config)
    names = [layer.layer_name for layer in layers]
    builder = FolioBuilder(spec, names, config, torch.device("cpu"))
    queries, contexts, table = ([of[r] for r in requests] for of in (QUERIES, CONTEXTS, TABLE))
    offsets = torch.tensor([0, *queries]).cumsum(0, dtype=torch.int32)
    slots = [
        blocks[position // SLOTS] * SLOTS + position % SLOTS
        for count, context, blocks in zip(queries, contexts, table, strict=True)
        for position in range(context - count, context)
    ]
    common = CommonAttentionMetadata(
        query_start_loc=offsets,
        query_start_loc_cpu=offsets,
        seq_lens=torch.tensor(contexts, dtype=torch.int32),
        num_reqs=len(queries),
        num_actual_tokens=sum(queries),
        max_query_len=max(queries),
        max_seq_len=max(contexts),
        block_table_tensor=torch.tensor(table, dtype=torch.int32),
        slot_mapping=torch.tensor(slots),
        causal=causal,
    )
    return builder.build(0, common)


def rows_of(seed: int, padding: int = 0) -> tuple[Any, Any, Any]:
    """Random q, k, v of the batch as slices of fused rows, as a model hands them over."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    heads = Q_HEADS + 2 * KV_HEADS
    fused = torch.randn(sum(QUERIES) + padding, heads, HEAD, generator=generator)
    return fused.split([Q_HEADS, KV_HEADS, KV_HEADS], dim=1)


def run(layer: Any, metadata: Any, q: Any, k: Any, v: Any) -> Any:
    """The layer's output for these rows."""
    import torch

    out = torch.full_like(q, torch.nan, memory_format=torch.contiguous_format)
    return layer.impl.forward(layer, q, k, v, layer.kv_cache, metadata, out)


def slots_of(layer: Any) -> tuple[Any, Any]:
    """K and V of the layer's cache as [blocks * slots, heads, dim]: dense runs, K's before V's."""
    runs = layer.kv_cache.view(BLOCKS, KV_HEADS, 2, SLOTS, HEAD)
    return tuple(
        runs[:, :, i].transpose(1, 2).reshape(BLOCKS * SLOTS, KV_HEADS, HEAD) for i in (0, 1)
    )


def test_k_and_v_lie_as_dense_runs_in_a_head_of_a_block(config: Any, make_layer: Any) -> None:
    layer = make_layer()
    metadata = step_of(config, [layer])
    q, k, v = rows_of(1)
    run(layer, metadata, q, k, v)
    keys, values = slots_of(layer)
    assert keys[metadata.slot_mapping].equal(k)
    assert values[metadata.slot_mapping].equal(v)


def test_padded_rows_are_neither_stored_nor_computed(config: Any, make_layer: Any) -> None:
    layer = make_layer()
    metadata = step_of(config, [layer])
    q, k, v = rows_of(2, padding=3)
    out = run(layer, metadata, q, k, v)
    assert out[:-3].isfinite().all()
    assert out[-3:].isnan().all()
    keys, _ = slots_of(layer)
    assert int((keys != 0).any(-1).any(-1).sum()) == sum(QUERIES)


@pytest.mark.parametrize("dtype", ["fp8", "fp8_e5m2"])
def test_scales_per_head_are_read_after_loading(config: Any, make_layer: Any, dtype: str) -> None:
    import torch

    layer = make_layer(dtype)
    metadata = step_of(config, [layer])
    q, k, v = rows_of(3)
    layer._k_scale = torch.tensor([0.03, 0.5])  # what loading leaves, after the layer was made
    layer._v_scale = torch.tensor([0.25, 0.01])
    run(layer, metadata, q, k, v)
    f8 = torch.float8_e5m2 if dtype == "fp8_e5m2" else torch.float8_e4m3fn
    for stored, rows, scales in zip(
        slots_of(layer), (k, v), (layer._k_scale, layer._v_scale), strict=True
    ):
        read = stored[metadata.slot_mapping].view(f8).float() * scales[:, None]
        torch.testing.assert_close(read, rows, rtol=0.13, atol=0.05)


def test_scales_of_a_tensor_are_read_again_after_a_reload(config: Any, make_layer: Any) -> None:
    import torch

    layer = make_layer("fp8")
    metadata = step_of(config, [layer])
    q, k, v = rows_of(4)
    run(layer, metadata, q, k, v)
    first = slots_of(layer)[0][metadata.slot_mapping].view(torch.float8_e4m3fn).float()
    layer._k_scale_float = layer._v_scale_float = 0.5
    layer._k_scale.fill_(0.5)
    layer._v_scale.fill_(0.5)
    layer.impl.process_weights_after_loading(torch.float32)
    run(layer, metadata, q, k, v)
    second = slots_of(layer)[0][metadata.slot_mapping].view(torch.float8_e4m3fn).float()
    torch.testing.assert_close(second, 2 * first, rtol=0, atol=0.01)


def test_a_layer_that_shares_a_cache_reads_and_does_not_write(config: Any, make_layer: Any) -> None:
    owner = make_layer()
    reader = make_layer(kv_sharing_target_layer_name=owner.layer_name)
    reader.kv_cache = owner.kv_cache
    metadata = step_of(config, [owner, reader])
    q, k, v = rows_of(5)
    expected = run(owner, metadata, q, k, v)
    before = owner.kv_cache.clone()
    assert run(reader, metadata, q, k + 1, v + 1).equal(expected)
    assert owner.kv_cache.equal(before)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (dict(head_size=65), "head_size"),
        (dict(attn_type="encoder_only"), "encoder_only attention"),
        (dict(attn_type="encoder"), "encoder attention"),
        (dict(attn_type="encoder_decoder"), "encoder_decoder attention"),
    ],
)
def test_what_folio_lacks_stays_with_the_stock_class(
    make_layer: Any, options: dict[str, Any], reason: str
) -> None:
    from folio_kv.vllm.report import who_serves

    assert reason in who_serves(make_layer(**options))


def test_layers_that_share_a_cache_are_served_by_the_same_class(make_layer: Any) -> None:
    owner = make_layer(head_size=65)
    reader = make_layer(head_size=65, kv_sharing_target_layer_name=owner.layer_name)
    assert "which vLLM serves" in reader.impl.refusal


def test_a_layer_that_cannot_read_folio_rows_is_refused_by_name(make_layer: Any) -> None:
    import folio_kv

    owner = make_layer()
    with pytest.raises(folio_kv.Unsupported, match=owner.layer_name):
        make_layer(head_size=65, kv_sharing_target_layer_name=owner.layer_name)


def test_cross_attention_writes_and_reads_its_cache_on_the_stock_class(
    config: Any, make_layer: Any
) -> None:
    import numpy as np
    import torch
    from vllm.model_executor.layers.attention import CrossAttention
    from vllm.v1.attention.backend import CommonAttentionMetadata

    layer = make_layer(layer_class=CrossAttention)
    builder = layer.attn_backend.get_builder_cls()(
        layer.get_kv_cache_spec(config), [layer.layer_name], config, torch.device("cpu")
    )
    queries, encoded = [2, 3], [20, 33]  # a decoder's first step after an encoder
    offsets = torch.tensor([0, 2, 5], dtype=torch.int32)
    metadata = builder.build(
        0,
        CommonAttentionMetadata(
            query_start_loc=offsets,
            query_start_loc_cpu=offsets,
            seq_lens=torch.tensor(queries, dtype=torch.int32),
            num_reqs=2,
            num_actual_tokens=5,
            max_query_len=3,
            max_seq_len=3,
            block_table_tensor=torch.tensor([[5, 0], [1, 4]], dtype=torch.int32),
            slot_mapping=torch.arange(5),
            encoder_seq_lens=torch.tensor(encoded, dtype=torch.int32),
            encoder_seq_lens_cpu=np.array(encoded, dtype=np.int32),
            seq_lens_cpu_upper_bound=torch.tensor(queries, dtype=torch.int32),
        ),
    )
    generator = torch.Generator().manual_seed(9)
    q = torch.randn(sum(queries), Q_HEADS, HEAD, generator=generator)
    k, v = torch.randn(2, sum(encoded), KV_HEADS, HEAD, generator=generator)
    expected = []
    for rows in zip(q.split(queries), k.split(encoded), v.split(encoded), strict=True):
        heads = (x.transpose(0, 1) for x in rows)
        out = torch.nn.functional.scaled_dot_product_attention(*heads, scale=0.25, enable_gqa=True)
        expected.append(out.transpose(0, 1))
    torch.testing.assert_close(run(layer, metadata, q, k, v), torch.cat(expected))


def test_a_causal_flag_per_request_is_refused_by_name(config: Any, make_layer: Any) -> None:
    import torch

    with pytest.raises(NotImplementedError, match="causal: expected one flag"):
        step_of(config, [make_layer()], causal=torch.tensor([True, False, True]))


def test_a_quantised_output_is_refused_by_the_stock_class(config: Any, make_layer: Any) -> None:
    import torch

    layer = make_layer()
    metadata = step_of(config, [layer])
    q, k, v = rows_of(6)
    with pytest.raises(NotImplementedError, match="output quantization"):
        layer.impl.forward(
            layer, q, k, v, layer.kv_cache, metadata, q.clone(), output_scale=torch.ones(1)
        )


def test_a_group_of_both_classes_runs_each_layer_on_its_own(config: Any, make_layer: Any) -> None:
    served, unserved = make_layer(), make_layer()
    unserved.impl.refusal = "the test says so"
    metadata = step_of(config, [served, unserved])
    q, k, v = rows_of(7)
    import torch

    torch.testing.assert_close(
        run(served, metadata, q, k, v)[1:41], run(unserved, metadata, q, k, v)[1:41]
    )


def test_layers_of_equal_options_share_a_kind(make_layer: Any) -> None:
    first, second = make_layer(), make_layer()
    windowed = make_layer(per_layer_sliding_window=16)
    assert first.impl._kinds[True] is second.impl._kinds[True]
    assert first.impl._kinds[True] is not windowed.impl._kinds[True]


def test_batch_invariance_makes_a_request_independent_of_the_others(
    config: Any, make_layer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_BATCH_INVARIANT", "1")
    layer = make_layer()
    q, k, v = rows_of(8)
    together = run(layer, step_of(config, [layer]), q, k, v)
    alone = slice(sum(QUERIES[:2]), None)
    metadata = step_of(config, [layer], requests=(2,))
    assert run(layer, metadata, q[alone], k[alone], v[alone]).equal(together[alone])


def test_batch_invariance_asks_for_sums_that_depend_on_the_query_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("vllm")
    from folio_kv.vllm.kinds import reproducible

    assert reproducible() == "plan"
    monkeypatch.setenv("VLLM_BATCH_INVARIANT", "1")
    assert reproducible() == "query"
