# SPDX-License-Identifier: Apache-2.0
"""`calibrate`: factors of channels, from what a model's layers see."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from cache_cases import logits_after, random_tokens, served
from transformers import LlamaConfig, LlamaForCausalLM

import folio_kv
from folio_kv.transformers import FolioCache, calibrate, calibration

HEADS, KV_HEADS, DIM = 4, 2, 32


def model_of(outlier: float = 1.0, seed: int = 2) -> Any:
    """With a pair of channels in each head of K that are `outlier` times the others, and for which
    q asks as much less, so that attention is what it was.
    """
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=96,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=3,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        head_dim=DIM,
        initializer_range=0.2,
    )
    model = LlamaForCausalLM(config).eval()
    for layer in model.model.layers:
        key, query = (x.weight.data for x in (layer.self_attn.k_proj, layer.self_attn.q_proj))
        for channel in (5, 5 + DIM // 2):  # RoPE's pair
            key.unflatten(0, (KV_HEADS, DIM))[:, channel] *= outlier
            query.unflatten(0, (HEADS, DIM))[:, channel] /= outlier
    return model


def test_factors_balance_what_errors_of_keys_do() -> None:
    """By hand: the mean of logarithms is 0; of K pairs (j, j + half) have one factor."""
    torch.manual_seed(1)
    sizes = torch.rand(2, DIM) * 10 + 0.1
    key = torch.randn(3, KV_HEADS, 50, DIM) * sizes[:, None]
    query = torch.randn(3, HEADS, 50, DIM)
    value = torch.randn(3, KV_HEADS, 50, DIM) * sizes.flip(0)[:, None]
    squares = calibration._Squares()
    squares.projection = torch.rand(KV_HEADS, DIM).double() + 0.1
    for part in (slice(0, 20), slice(20, 50)):
        squares.add(query[:, :, part], key[:, :, part], value[:, :, part])
    got = squares.factors()
    groups = query.unflatten(1, (KV_HEADS, 2)).double()
    parts = [slice(0, 20), slice(20, 50)]
    k2 = sum(key[:, :, p].double().square().mean((0, 2)) for p in parts)
    q2 = sum(groups[..., p, :].square().mean((0, 2, 3)) for p in parts)
    ratio = [(x[:, : DIM // 2] + x[:, DIM // 2 :]).repeat(1, 2) for x in (k2, q2)]
    expected = (ratio[0] / ratio[1]) ** 0.25
    expected = expected / expected.log().mean(-1, keepdim=True).exp()
    torch.testing.assert_close(got.key, expected.float(), rtol=1e-5, atol=0)
    v2 = sum(value[:, :, p].double().square().mean((0, 2)) for p in parts)
    expected = (v2 / squares.projection) ** 0.25
    expected = expected / expected.log().mean(-1, keepdim=True).exp()
    torch.testing.assert_close(got.value, expected.float(), rtol=1e-5, atol=0)


def test_keys_with_outliers_come_much_nearer() -> None:
    model = model_of(outlier=30.0)
    tokens = random_tokens(2, 200)
    exact = logits_after(model, "eager", None, [tokens])[0]
    scales = calibrate(model, random_tokens(1, 128, seed=9))
    assert [tuple(y.shape) for x in scales for y in x] == [(KV_HEADS, DIM)] * 6
    errors = []
    for channel_scales in (None, scales):
        cache = FolioCache(
            model.config,
            dtype="int4",
            v_dtype="f32",
            rotated=True,
            channel_scales=channel_scales and [x.key for x in channel_scales],
        )
        got = logits_after(model, "folio", cache, list(tokens.split([150, 49, 1], 1)))
        errors.append(float((torch.cat(got, 1) - exact).square().mean().sqrt()))
    assert served(model)
    assert errors[1] < 0.6 * errors[0], errors


def test_values_with_outliers_come_nearer() -> None:
    """Channels of V that are 30 times the others, and that the projection takes back."""
    model = model_of()
    for layer in model.model.layers:
        value, out = (x.weight.data for x in (layer.self_attn.v_proj, layer.self_attn.o_proj))
        value.unflatten(0, (KV_HEADS, DIM))[:, 7] *= 30.0
        out.unflatten(1, (HEADS, DIM))[..., 7] /= 30.0
    tokens = random_tokens(2, 200)
    exact = logits_after(model, "eager", None, [tokens])[0]
    scales = calibrate(model, random_tokens(1, 128, seed=9))
    errors = []
    for channel_scales in ([x.key for x in scales], scales):
        cache = FolioCache(model.config, dtype="kv4", rotated=True, channel_scales=channel_scales)
        got = logits_after(model, "folio", cache, list(tokens.split([150, 49, 1], 1)))
        errors.append(float((torch.cat(got, 1) - exact).square().mean().sqrt()))
    assert served(model)
    assert errors[1] < 0.6 * errors[0], errors


def test_layers_without_a_projection_of_a_known_name_have_factors_all_the_same() -> None:
    module = torch.nn.Module()
    assert calibration._projection(module, HEADS, KV_HEADS) is None
    module.o_proj = torch.nn.Linear(HEADS * DIM + 1, 8)
    assert calibration._projection(module, HEADS, KV_HEADS) is None
    module.o_proj = torch.nn.Linear(HEADS * DIM, 8)
    through = calibration._projection(module, HEADS, KV_HEADS)
    weights = module.o_proj.weight.double().square().sum(0)
    torch.testing.assert_close(through[1, 3], weights[2 * DIM + 3] + weights[3 * DIM + 3])


def test_a_model_is_as_it_was() -> None:
    model = model_of()
    model.set_attn_implementation("eager")
    scales = calibrate(model, random_tokens(2, 20))
    assert model.config._attn_implementation == "eager"
    again = calibrate(model, random_tokens(2, 20))
    assert all(torch.equal(a, b) for x, y in zip(scales, again) for a, b in zip(x, y))
    with pytest.raises(folio_kv.Error, match="input_ids: expected .*got .20."):
        calibrate(model, random_tokens(1, 20)[0])
    for ids, message in (
        (random_tokens(1, 1), "expected .*got .1, 1."),
        (random_tokens(1, 20)[:0], "expected .*got .0, 20."),
        ([[1, 2]], "expected a tensor, got list"),
        (random_tokens(1, 20).float(), "expected int64 or int32, got torch.float32"),
        (torch.full((1, 4), 96), "expected 0 to 95, got 96"),
        (torch.full((1, 4), -1), "expected 0 to 95, got -1"),
    ):
        with pytest.raises(folio_kv.Error, match=f"input_ids: {message}"):
            calibrate(model, ids)
    model.model.layers[1].self_attn.k_proj.weight.data[3, 3] = float("nan")
    with pytest.raises(folio_kv.Error, match="finite keys, queries and values, layer 1"):
        calibrate(model, random_tokens(1, 20))
    assert model.config._attn_implementation == "eager"


def test_layers_that_are_not_there_and_scales_that_are_said_elsewhere_are_refused() -> None:
    model = model_of()
    scales = calibrate(model, random_tokens(1, 20))
    cache = FolioCache(model.config, dtype="int4", channel_scales=scales[:2])
    with pytest.raises(folio_kv.Error, match="channel_scales: expected one for each layer, got 2"):
        logits_after(model, "folio", cache, [random_tokens(1, 4)])
    with pytest.raises(folio_kv.Error, match="channel_scales: expected a dtype beside it"):
        FolioCache(model.config, channel_scales=scales)
    with pytest.raises(folio_kv.Error, match="channel_scales: given beside a Format"):
        FolioCache(model.config, dtype=folio_kv.Format("i8"), channel_scales=scales)
    wrong = FolioCache(model.config, dtype="int4", channel_scales=[x.key[:, :-1] for x in scales])
    with pytest.raises(folio_kv.Error, match="channel_scales"):
        logits_after(model, "folio", wrong, [random_tokens(1, 4)])


def test_channels_that_are_never_seen_have_a_factor_all_the_same() -> None:
    key = torch.zeros(1, KV_HEADS, 4, DIM)
    key[..., :4] = 1e3
    squares = calibration._Squares()
    squares.add(torch.ones(1, HEADS, 4, DIM), key, key)
    for factors in squares.factors():
        assert (factors >= 1 / calibration.RANGE).all() and (factors <= calibration.RANGE).all()
