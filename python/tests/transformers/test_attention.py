# SPDX-License-Identifier: Apache-2.0
"""The attention function beside eager: dtypes, masks, options, and what goes to the model's own
attention.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from architectures import build
from attention_cases import Layer, operands
from comparison import prompts
from transformers import AutoModel, BertConfig, T5Config, T5ForConditionalGeneration

import folio_kv.transformers as folio
from folio_kv.transformers.attention import attention
from folio_kv.transformers.problem import Ask, NotServed, stock_attention


def by_hand(
    q: Any, k: Any, v: Any, seen: torch.Tensor, scale: float = 0.25, cap: float | None = None
) -> torch.Tensor:
    """[batch, queries, heads, dim] in double; seen: bool, or added to the logits."""
    k, v = (x.double().repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    logits = q.double() @ k.transpose(2, 3) * scale
    logits = logits if cap is None else cap * torch.tanh(logits / cap)
    logits = logits.masked_fill(~seen, -torch.inf) if seen.dtype == torch.bool else logits + seen
    return (logits.softmax(-1) @ v).transpose(1, 2)


def lower_right(queries: int, keys: int) -> torch.Tensor:
    return torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)


def logits(model: Any, implementation: str, **inputs: Any) -> torch.Tensor:
    model.set_attn_implementation(implementation)
    with torch.no_grad():
        return model(**inputs, use_cache=False)[0]


@pytest.mark.parametrize(
    ("dtype", "bound"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2), (torch.float16, 3e-3)]
)
@pytest.mark.parametrize("batch", [1, 3])
def test_dense_keys_are_attended_to_in_every_float(
    batch: int, dtype: torch.dtype, bound: float
) -> None:
    q, k, v = operands(batch, 5, 11, dtype)
    out, weights = attention(Layer(2), q, k, v, scaling=0.25)
    assert out.shape == (batch, 5, 4, 16) and out.dtype == dtype and weights is None
    torch.testing.assert_close(
        out.double(), by_hand(q, k, v, lower_right(5, 11)), atol=bound, rtol=bound
    )


def test_keys_of_any_strides_are_read_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = operands(2, 5, 11)
    expected, _ = attention(Layer(2), q, k, v, scaling=0.25)
    token_major = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (k, v)]
    wide = [torch.randn(2, 2, 20, 16) for _ in range(2)]
    for to, of in zip(wide, (k, v)):
        to[:, :, 3:14] = of
    monkeypatch.setattr(torch.Tensor, "contiguous", None)
    for keys, values in (token_major, [x[:, :, 3:14] for x in wide]):
        assert torch.equal(attention(Layer(2), q, keys, values, scaling=0.25)[0], expected)


@pytest.mark.parametrize("model_dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", ["llama", "gemma2", "granite_swa", "deepseek_v3"])
def test_half_precision_errs_no_more_than_eager_does(kind: str, model_dtype: torch.dtype) -> None:
    tokens, mask = prompts()
    exact = logits(build(kind), "eager", input_ids=tokens, attention_mask=mask)
    model = build(kind).to(model_dtype)
    error = {}
    for implementation in ("eager", "folio_flash"):
        got = logits(model, implementation, input_ids=tokens, attention_mask=mask)
        error[implementation] = float((got.float() - exact)[mask.bool()].norm())
    assert error["folio_flash"] < 1.25 * error["eager"]


def test_a_window_without_a_mask_is_the_callers() -> None:
    q, k, v = operands(2, 5, 11)
    seen = lower_right(5, 11) & ~lower_right(5, 11).tril(11 - 5 - 3)
    out, _ = attention(Layer(2), q, k, v, scaling=0.25, sliding_window=3)
    torch.testing.assert_close(out.double(), by_hand(q, k, v, seen), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize("fallback", [False, True])
def test_packed_sequences_see_their_own_keys(fallback: bool, window: int | None) -> None:
    """By folio, and by the model's own attention, which knows nothing of them."""
    q, k, v = operands(1, 5, 11)
    ends = {
        "cu_seq_lens_q": torch.tensor([0, 2, 5], dtype=torch.int32),
        "cu_seq_lens_k": torch.tensor([0, 4, 11], dtype=torch.int32),
    }
    more = {"block_indices": torch.zeros(1)} if fallback else {}
    layer = Layer(2)
    out, _ = attention(layer, q, k, v, scaling=0.25, sliding_window=window, **ends, **more)
    assert bool(folio.reporting.reason(layer)) == fallback
    for (a, b), (c, d) in (((0, 2), (0, 4)), ((2, 5), (4, 11))):
        seen = lower_right(b - a, d - c)
        if window is not None:
            seen &= ~seen.tril(d - c - (b - a) - window)
        expected = by_hand(q[:, :, a:b], k[:, :, c:d], v[:, :, c:d], seen)
        torch.testing.assert_close(out[:, a:b].double(), expected, atol=1e-5, rtol=1e-5)


def test_softcap_and_scale() -> None:
    q, k, v = operands(2, 5, 11)
    out, _ = attention(Layer(2), q, k, v, scaling=0.7, softcap=2.0)
    torch.testing.assert_close(
        out.double(), by_hand(q, k, v, lower_right(5, 11), 0.7, 2.0), atol=1e-5, rtol=1e-5
    )


def test_a_position_bias_joins_the_mask() -> None:
    q, k, v = operands(2, 5, 11)
    bias = torch.randn(1, 4, 5, 11, generator=torch.Generator().manual_seed(1))
    out, _ = attention(Layer(2), q, k, v, scaling=0.25, position_bias=bias)
    seen = bias.double().masked_fill(~lower_right(5, 11), -torch.inf)
    torch.testing.assert_close(out.double(), by_hand(q, k, v, seen), atol=1e-5, rtol=1e-5)


def test_indices_are_the_only_keys_seen() -> None:
    q, k, v = operands(2, 5, 11)
    indices = torch.stack([torch.randperm(11)[:6] for _ in range(10)]).view(2, 5, 6).int()
    seen = torch.zeros(2, 1, 5, 11, dtype=torch.bool).scatter_(3, indices[:, None].long(), True)
    out, _ = attention(Layer(2, is_causal=False), q, k, v, scaling=0.25, indices=indices)
    torch.testing.assert_close(out.double(), by_hand(q, k, v, seen), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["s_aux", "sinks"])
@pytest.mark.parametrize("of_each_query", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_sinks_join_the_denominator(name: str, of_each_query: bool, dtype: torch.dtype) -> None:
    q, k, v = operands(2, 5, 11)
    shape = (2, 4, 5, 1) if of_each_query else (4,)
    sinks = torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    out, _ = attention(Layer(2), q, k, v, scaling=0.25, **{name: sinks})
    column = sinks if of_each_query else sinks.view(1, 4, 1, 1).expand(2, 4, 5, 1)
    k4, v4 = (x.double().repeat_interleave(2, 1) for x in (k, v))
    scores = (q.double() @ k4.transpose(2, 3) * 0.25).masked_fill(~lower_right(5, 11), -torch.inf)
    weights = torch.cat([scores, column.double()], -1).softmax(-1)[..., :-1]
    torch.testing.assert_close(out.double(), (weights @ v4).transpose(1, 2), atol=1e-5, rtol=1e-5)


def test_sinks_that_change_are_read_again() -> None:
    q, k, v = operands(1, 5, 11)
    layer, sinks = Layer(2), torch.zeros(4, dtype=torch.bfloat16)
    first, _ = attention(layer, q, k, v, s_aux=sinks)
    sinks += 3
    second, _ = attention(layer, q, k, v, s_aux=sinks)
    assert float((first - second).abs().max()) > 0.1


def test_packed_sequences_do_not_see_each_other() -> None:
    q, k, v = operands(1, 9, 9)
    cu = torch.tensor([0, 4, 9], dtype=torch.int32)
    options = dict(cu_seq_lens_q=cu, cu_seq_lens_k=cu, max_length_q=5, max_length_k=5, scaling=0.25)
    for is_causal in (False, True):
        out, _ = attention(Layer(2), q, k, v, None, is_causal=is_causal, **options)
        seen = torch.block_diag(torch.ones(4, 4), torch.ones(5, 5)).bool()
        seen = seen.tril() if is_causal else seen
        torch.testing.assert_close(out.double(), by_hand(q, k, v, seen), atol=1e-5, rtol=1e-5)


def test_a_mask_that_adds_to_packed_sequences_is_used_whole() -> None:
    q, k, v = operands(1, 9, 9)
    cu = torch.tensor([0, 4, 9], dtype=torch.int32)
    mask = torch.linspace(-2, 2, 81).reshape(1, 1, 9, 9)
    hidden = ~torch.block_diag(torch.ones(4, 4), torch.ones(5, 5)).bool()
    expected, _ = attention(Layer(2), q, k, v, mask.masked_fill(hidden, -torch.inf), scaling=0.25)
    out, _ = attention(Layer(2), q, k, v, mask, cu_seq_lens_q=cu, cu_seq_lens_k=cu, scaling=0.25)
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("is_causal", [False, True])
def test_packed_sequences_in_training_do_not_see_each_other(is_causal: bool) -> None:
    layer = build("llama").model.layers[0].self_attn
    q, k, v = operands(1, 9, 9)
    cu = torch.tensor([0, 4, 9], dtype=torch.int32)
    options = dict(cu_seq_lens_q=cu, cu_seq_lens_k=cu, max_length_q=5, max_length_k=5)
    options |= dict(scaling=0.25, is_causal=is_causal)
    expected, _ = attention(layer, q, k, v, None, **options)
    got, _ = attention(layer, q.requires_grad_(), k, v, None, **options)
    assert got.requires_grad
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)


def test_position_ids_that_start_again_separate_sequences() -> None:
    model = build("llama")
    tokens, _ = prompts(1)
    positions = torch.cat([torch.arange(8), torch.arange(13)])[None]
    expected = logits(model, "eager", input_ids=tokens, position_ids=positions)
    got = logits(model, "folio_flash", input_ids=tokens, position_ids=positions)
    torch.testing.assert_close(got, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("kind", ["right", "holes", "4-D bool", "4-D float"])
def test_masks_of_the_user_are_kept(kind: str) -> None:
    model = build("gemma2")
    tokens, mask = prompts()
    real = torch.ones_like(mask)
    if kind == "right":
        real[1, -6:] = 0
    else:
        real[1, [3, 4, 9]] = 0
    seen = (real[:, None, None, :] * torch.ones(21, 21).tril()).bool()
    added = torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)
    given = {"4-D bool": seen, "4-D float": added}.get(kind, real)
    expected = logits(
        model, "eager", input_ids=tokens, attention_mask=added if given is seen else given
    )
    got = logits(model, "folio_flash", input_ids=tokens, attention_mask=given)
    torch.testing.assert_close(got[real.bool()], expected[real.bool()], atol=1e-4, rtol=0)


def test_encoders_see_both_sides() -> None:
    sizes = dict(
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=96,
        vocab_size=96,
    )
    torch.manual_seed(0)
    model = AutoModel.from_config(BertConfig(**sizes, initializer_range=0.1)).eval()
    tokens, mask = prompts()
    expected = logits(model, "eager", input_ids=tokens, attention_mask=mask)[mask.bool()]
    got = logits(model, "folio_flash", input_ids=tokens, attention_mask=mask)[mask.bool()]
    torch.testing.assert_close(got, expected, atol=1e-4, rtol=0)
    assert {layer.served_by for layer in folio.report(model).layers} == {"folio"}


def test_encoders_with_decoders_cross_and_carry_a_bias() -> None:
    config = T5Config(
        vocab_size=96,
        d_model=64,
        d_kv=16,
        d_ff=96,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
        eos_token_id=None,
    )
    torch.manual_seed(0)
    model = T5ForConditionalGeneration(config).eval()
    tokens, mask = prompts()
    found = []
    for implementation in ("eager", "folio_flash"):
        model.set_attn_implementation(implementation)
        found.append(model.generate(tokens, attention_mask=mask, max_new_tokens=8, do_sample=False))
    assert torch.equal(*found)


def test_inference_mode_is_served() -> None:
    model = build("gemma2")
    tokens, mask = prompts()
    expected = logits(model, "eager", input_ids=tokens, attention_mask=mask)
    model.set_attn_implementation("folio")
    with torch.inference_mode():
        got = model(
            input_ids=tokens, attention_mask=mask, past_key_values=folio.FolioCache(model.config)
        ).logits
    torch.testing.assert_close(got[mask.bool()], expected[mask.bool()], atol=1e-4, rtol=0)


def test_a_compiled_model_breaks_its_graph_around_folio() -> None:
    model = build("gemma2")
    tokens, mask = prompts()
    expected = logits(model, "eager", input_ids=tokens, attention_mask=mask)
    model.set_attn_implementation("folio")
    compiled = torch.compile(model, backend="eager")
    with torch.no_grad():
        got = compiled(
            input_ids=tokens,
            attention_mask=mask,
            past_key_values=folio.FolioCache(model.config),
        ).logits
    torch.testing.assert_close(got[mask.bool()], expected[mask.bool()], atol=1e-4, rtol=0)


def test_training_goes_to_the_models_own_attention_with_the_reason() -> None:
    model = build("llama")
    tokens, _ = prompts()
    model.set_attn_implementation("folio")
    loss = model(input_ids=tokens, labels=tokens).loss
    loss.backward()
    assert model.model.layers[0].self_attn.q_proj.weight.grad is not None
    assert {(x.served_by, x.reason[:9]) for x in folio.report(model).layers} == {
        ("stock", "gradients")
    }


def test_sinks_of_another_shape_are_not_served() -> None:
    q, k, v = operands(1, 5, 11)
    with pytest.raises(
        NotServed, match=r"sinks of shape \(3,\): expected one for each of 4 query heads"
    ):
        Ask.read(Layer(2), q, 11, None, {"s_aux": torch.zeros(3)})


def test_dropout_is_not_served() -> None:
    q, _, _ = operands(1, 5, 11)
    with pytest.raises(NotServed, match="dropout is on"):
        Ask.read(Layer(2), q, 11, None, {"dropout": 0.1})


def test_the_models_own_attention_is_its_modules_eager() -> None:
    layer = build("gpt_oss").model.layers[0].self_attn
    assert stock_attention(layer).__module__ == "transformers.models.gpt_oss.modeling_gpt_oss"


@pytest.mark.parametrize("name", ["key", "value", "s_aux"])
def test_whatever_a_gradient_is_asked_of_goes_to_the_models_own_attention(name: str) -> None:
    """As of the keys and values of a learned prefix."""
    q, k, v = operands(1, 3, 5)
    values = {"query": q, "key": k, "value": v, "s_aux": torch.zeros(4)}
    values[name].requires_grad_()
    layer = Layer(2)
    attention(layer, attention_mask=None, scaling=0.25, **values)
    assert "gradients are recorded" in folio.reporting.reason(layer)
    with torch.no_grad():
        attention(layer, attention_mask=None, scaling=0.25, **values)
    assert not folio.reporting.reason(layer)
