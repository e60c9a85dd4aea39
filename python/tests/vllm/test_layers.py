# SPDX-License-Identifier: Apache-2.0
"""A layer that folio serves: where K and V lie, which scales count, what layers share."""

from __future__ import annotations

from typing import Any

import pytest
from vllm_layers import QUERIES, rows_of, run, slots_of, step_of

pytestmark = pytest.mark.quick


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
