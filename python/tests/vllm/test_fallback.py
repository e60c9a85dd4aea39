# SPDX-License-Identifier: Apache-2.0
"""A layer that folio does not serve runs on vLLM's own class, or is refused by name."""

from __future__ import annotations

from typing import Any

import pytest
from vllm_layers import HEAD, KV_HEADS, Q_HEADS, rows_of, run, step_of
from vllm_scaled import NAMES

pytestmark = pytest.mark.quick


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


def test_diffusion_models_with_a_causal_flag_per_request_stay_with_the_stock_class(
    config: Any, make_layer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(vars(config.model_config), "is_diffusion", True)
    assert make_layer().impl.refusal == "a causal flag per request"


def test_a_connector_that_packs_blocks_keeps_the_stock_class(
    config: Any, make_layer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vllm.config import KVTransferConfig

    transfer = KVTransferConfig(kv_connector="NixlConnector", kv_role="kv_both")
    monkeypatch.setattr(config, "kv_transfer_config", transfer)
    assert "NixlConnector packs received blocks" in make_layer().impl.refusal


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


@pytest.mark.parametrize(
    ("cache_dtype", "reason"),
    [
        ("turboquant_4bit_nc", "indices into a codebook"),
        ("turboquant_k3v4_nc", "indices into a codebook"),
        ("turboquant_3bit_nc", "indices into a codebook"),
        ("nvfp4_4over6", "does not try two scales"),
        ("ultraquant_4bit", "no attention class for CPUs"),
        ("fp8_ds_mla", "no attention class for CPUs"),
    ],
)
def test_a_cache_type_that_no_class_for_cpus_stores_is_refused_by_name(
    make_layer: Any, cache_dtype: str, reason: str
) -> None:
    import folio_kv

    with pytest.raises(
        folio_kv.Unsupported, match=f"kv_cache_dtype: .*; got {cache_dtype}: .*{reason}"
    ):
        make_layer(cache_dtype=cache_dtype)


@pytest.mark.parametrize("cache_dtype", NAMES)
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (dict(head_size=65), "head_size: expected a multiple of"),
        (dict(attn_type="encoder_only"), "encoder_only attention"),
        (dict(attn_type="encoder_decoder"), "encoder_decoder attention"),
    ],
)
def test_a_layer_with_scales_beside_rows_that_folio_lacks_is_refused(
    make_layer: Any, cache_dtype: str, options: dict[str, Any], reason: str
) -> None:
    import folio_kv

    with pytest.raises(folio_kv.Unsupported, match=f"kv_cache_dtype: {cache_dtype}: .*{reason}"):
        make_layer(cache_dtype=cache_dtype, **options)


@pytest.mark.parametrize("head_size", [40, 1024])
def test_a_head_that_folio_cannot_turn_is_refused(make_layer: Any, head_size: int) -> None:
    import folio_kv

    with pytest.raises(
        folio_kv.Unsupported, match="hadamard: expected a power of two from 16 to 512"
    ):
        make_layer(cache_dtype="int4_per_token_head", head_size=head_size)


def test_k_and_v_of_two_head_sizes_are_refused(config: Any, make_layer: Any) -> None:
    from dataclasses import replace

    import folio_kv

    layer = make_layer(cache_dtype="int8_per_token_head")
    spec = replace(layer.get_kv_cache_spec(config), head_size_v=16)
    with pytest.raises(
        folio_kv.Unsupported, match="head_size_v: expected that of K .*, 32, got 16"
    ):
        layer.attn_backend.customize_spec(spec)


def test_a_cache_of_another_types_rows_is_refused(config: Any, make_layer: Any) -> None:
    import folio_kv

    layer, other = make_layer("int4_per_token_head"), make_layer("int8_per_token_head")
    layer.kv_cache = other.kv_cache
    with pytest.raises(folio_kv.Unsupported, match="expected rows of 40 elements .*, got 72"):
        run(layer, step_of(config, [layer]), *rows_of(8))


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
