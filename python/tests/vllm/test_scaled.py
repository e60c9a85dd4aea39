# SPDX-License-Identifier: Apache-2.0
"""Layers whose caches have scales beside their rows: bytes are vLLM's, attention is over what they
say.
"""

from __future__ import annotations

from typing import Any

import pytest
from vllm_layers import BLOCKS, HEAD, KV_HEADS, QUERIES, SLOTS, rows_of, run, step_of
from vllm_scaled import NAMES, attention_over, rows_in

from folio_kv.vllm import scaled

pytestmark = pytest.mark.quick

# bytes of K and V of a token and head of 32 elements
BYTES = {
    "int4_per_token_head": 2 * (16 + 4),
    "int8_per_token_head": 2 * (32 + 4),
    "fp8_per_token_head": 2 * (32 + 4),
    "nvfp4": 2 * (16 + 2),
    "turboquant_k8v4": 32 + 16 + 4,
}
# |stored - given| / |given| over a batch, of K and V: as measured, and a fifth more
ERRORS = {
    "int4_per_token_head": (0.098, 0.098),
    "int8_per_token_head": (0.0066, 0.0066),
    "fp8_per_token_head": (0.03, 0.03),
    "nvfp4": (0.123, 0.123),
    "turboquant_k8v4": (0.0315, 0.095),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_block_has_the_bytes_of_vllms_own_back_end(
    make_layer: Any, config: Any, name: str
) -> None:
    layer = make_layer(name)
    size = layer.kv_cache.element_size()
    assert layer.kv_cache[0].numel() * size == KV_HEADS * SLOTS * BYTES[name]
    if name == "nvfp4":  # FlashInfer's, which is not installed beside vLLM for CPUs
        from vllm.utils.torch_utils import nvfp4_kv_cache_full_dim

        assert layer.kv_cache.shape[1:] == (2 * KV_HEADS, SLOTS, nvfp4_kv_cache_full_dim(HEAD))
        return
    from vllm.v1.attention.backends.triton_attn import TritonAttentionBackend
    from vllm.v1.attention.backends.turboquant_attn import TurboQuantAttentionBackend

    theirs = TurboQuantAttentionBackend if "turbo" in name else TritonAttentionBackend
    spec = layer.get_kv_cache_spec(config)
    assert layer.attn_backend.customize_spec(spec) == theirs.customize_spec(spec)


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_stored_as_vllm_would_read_them(config: Any, make_layer: Any, name: str) -> None:
    layer = make_layer(name)
    metadata = step_of(config, [layer])
    q, k, v = rows_of(1)
    run(layer, metadata, q, k, v)
    for rows, given, limit in zip(
        rows_in(name, layer.kv_cache, HEAD), (k, v), ERRORS[name], strict=True
    ):
        stored = rows[metadata.slot_mapping]
        assert float((stored - given).norm() / given.norm()) < limit
        rows[metadata.slot_mapping] = 0
        assert not rows.any()


# Of four bits q and weights may be rounded to 8, but for batches whose sums may not depend on others.
@pytest.mark.parametrize(
    ("name", "rounds"), [(x, False) for x in NAMES] + [(x, True) for x in scaled.FOUR_BITS]
)
@pytest.mark.parametrize("term", ["none", "window", "softcap", "sinks", "alibi"])
def test_attention_is_that_over_what_vllm_would_read(
    config: Any, make_layer: Any, monkeypatch: Any, name: str, rounds: bool, term: str
) -> None:
    import torch

    monkeypatch.setenv("VLLM_BATCH_INVARIANT", "0" if rounds else "1")

    per_head = torch.linspace(0.05, 0.6, 8)
    options, reference = {
        "none": ({}, {}),
        "window": (dict(per_layer_sliding_window=16), dict(window=16)),
        "softcap": (dict(logits_soft_cap=2.0), dict(softcap=2.0)),
        "sinks": (dict(sinks=per_head), dict(sinks=per_head)),
        "alibi": (dict(alibi_slopes=per_head.tolist()), dict(alibi=per_head)),
    }[term]
    layer = make_layer(name, **options)
    metadata = step_of(config, [layer])
    _fill(layer)
    q, k, v = rows_of(2)
    out = run(layer, metadata, q, k, v)
    keys, values = rows_in(name, layer.kv_cache, HEAD)
    expected = attention_over(keys, values, q, 0.25, **reference)
    if rounds:
        assert 1e-4 < float((out.double() - expected).norm() / expected.norm()) < 0.03
    else:
        torch.testing.assert_close(out.double(), expected, rtol=0, atol=2e-5)


def _fill(layer: Any) -> None:
    """Puts a row into every slot of the layer."""
    import torch

    import folio_kv

    slots, generator = BLOCKS * SLOTS, torch.Generator().manual_seed(3)
    k, v = torch.randn(2, slots, KV_HEADS, HEAD, generator=generator)
    layer.impl._bind(layer, layer.kv_cache)
    step = folio_kv.Step([0, slots], [slots], [list(range(BLOCKS))])
    folio_kv.append(step, layer.impl._pages, k, v)


def test_nvfp4_reads_and_writes_by_the_checkpoints_scales(config: Any, make_layer: Any) -> None:
    import torch

    layer = make_layer("nvfp4")
    metadata = step_of(config, [layer])
    q, k, v = rows_of(3)
    layer._k_scale_float, layer._v_scale_float = 1 / 64, 1 / 4
    run(layer, metadata, q, 0.01 * k, 100 * v)
    keys, values = rows_in("nvfp4", layer.kv_cache, HEAD, 1 / 64, 1 / 4)
    for stored, given in ((keys, 0.01 * k), (values, 100 * v)):
        error = stored[metadata.slot_mapping] - given
        assert float(error.norm() / given.norm()) < 0.123
    layer._k_scale = torch.tensor([0.5, 0.25])  # one per head
    layer.impl.process_weights_after_loading(torch.float32)
    import folio_kv

    with pytest.raises(folio_kv.Unsupported, match="k_scale: expected one number with nvfp4"):
        run(layer, metadata, q, k, v)


@pytest.mark.parametrize("name", NAMES)
def test_padded_rows_are_not_stored(config: Any, make_layer: Any, name: str) -> None:
    layer = make_layer(name)
    metadata = step_of(config, [layer])
    out = run(layer, metadata, *rows_of(4, padding=3))
    assert out[:-3].isfinite().all()
    assert out[-3:].isnan().all()
    stored = rows_in(name, layer.kv_cache, HEAD)[0]
    assert int(stored.any(-1).any(-1).sum()) == sum(QUERIES)


@pytest.mark.parametrize("name", NAMES)
def test_blocks_that_are_padded_to_those_of_other_layers_are_read_in_place(
    config: Any, make_layer: Any, name: str
) -> None:
    import torch

    dense, padded = make_layer(name), make_layer(name)
    shape, size = dense.kv_cache.shape, dense.kv_cache[0].numel()
    room = torch.zeros(shape[0], size + 64, dtype=dense.kv_cache.dtype)
    padded.kv_cache = room[:, :size].view(shape)
    metadata = step_of(config, [dense, padded])
    q, k, v = rows_of(5)
    assert run(padded, metadata, q, k, v).equal(run(dense, metadata, q, k, v))
    assert padded.kv_cache.equal(dense.kv_cache)
    assert not room[:, size:].any()
