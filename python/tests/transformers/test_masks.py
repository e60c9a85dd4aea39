# SPDX-License-Identifier: Apache-2.0
"""Masks that are read show the keys that eager's dense masks show."""

from __future__ import annotations

import pytest
import torch
from transformers import masking_utils as mu

import folio_kv
from folio_kv.transformers.masks import MaskTensor, Sight, describe_mask, read_pattern, sight_of

NO_PADDING = torch.zeros(2, dtype=torch.long)
FUNCTIONS = {
    "causal": mu.causal_mask_function,
    "bidirectional": mu.bidirectional_mask_function,
    "window": mu.sliding_window_causal_mask_function(3),
    "window to both sides": mu.sliding_window_bidirectional_mask_function(2),
    "chunks": mu.chunked_causal_mask_function(4, NO_PADDING),
    "chunks behind padding": mu.chunked_causal_mask_function(4, torch.tensor([0, 3])),
    "either of two": mu.or_masks(
        mu.causal_mask_function, mu.blockwise_overlay(torch.tensor([[-1, 0, 0, 0] + [-1] * 6] * 2))
    ),
}
SIZES = {
    "prefill": (10, 10, 0, 0),
    "decode": (1, 10, 9, 0),
    "chunk": (4, 10, 6, 0),
    "dropped keys": (3, 6, 7, 4),
}
PADDINGS = {
    "none": None,
    "left": [[1] * 10, [0, 0, 0] + [1] * 7],
    "right": [[1] * 10, [1] * 7 + [0, 0, 0]],
    "holes": [[1] * 10, [1, 1, 0, 1, 0, 1, 1, 1, 1, 1]],
}


def shown(sight: Sight, batch: int, queries: int, keys: int) -> torch.Tensor:
    """bool [batch, queries, keys]: what folio would show of `sight`."""
    query = torch.arange(queries)[:, None] + (sight.context - queries)
    key = torch.arange(keys)[None]
    if sight.visible is not None:
        begin, end = (x.view(batch, queries, 1) for x in sight.visible)
        seen = (key >= begin) & (key < end)
    else:
        left, right, chunk = sight.pattern
        seen = (left < 0) | (key >= query - left)
        seen = seen & ((right < 0) | (key <= query + right))
        seen = (seen & ((chunk == 0) | (key // max(chunk, 1) == query // max(chunk, 1)))).expand(
            batch, -1, -1
        )
    if sight.bias is not None:
        seen = seen & (sight.bias == 0).view(batch, queries, keys)
    return seen & (key < sight.context)


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_described_mask_shows_what_eagers_mask_shows(
    function: str, size: str, padding: str
) -> None:
    queries, keys, q_offset, kv_offset = SIZES[size]
    given = PADDINGS[padding]
    mask_2d = None if given is None else torch.tensor(given)[:, : kv_offset + keys].bool()
    arguments = dict(
        batch_size=2,
        q_length=queries,
        kv_length=keys,
        q_offset=q_offset,
        kv_offset=kv_offset,
        mask_function=FUNCTIONS[function],
        attention_mask=mask_2d,
    )
    expected = mu.sdpa_mask(**arguments, allow_is_causal_skip=False)[:, 0]
    sight = sight_of(describe_mask(**arguments), 2, queries, keys, True, None)
    assert torch.equal(shown(sight, 2, queries, keys), expected)


@pytest.mark.parametrize(
    "function", ["causal", "bidirectional", "window", "window to both sides", "chunks"]
)
def test_a_mask_of_patterns_without_padding_is_never_built(function: str) -> None:
    mask = describe_mask(
        2, 10, 10, mask_function=FUNCTIONS[function], attention_mask=torch.ones(2, 10)
    )
    sight = sight_of(mask, 2, 10, 10, True, None)
    assert sight.visible is None and sight.bias is None and mask._dense is None


def test_left_padding_becomes_intervals_without_a_mask() -> None:
    mask = describe_mask(2, 10, 10, attention_mask=torch.tensor(PADDINGS["left"]))
    sight = sight_of(mask, 2, 10, 10, True, None)
    assert sight.visible is not None and sight.bias is None and mask._dense is None
    assert sight.visible[0].view(2, 10)[1].tolist() == [3] * 10


def test_whoever_computes_with_a_described_mask_gets_eagers() -> None:
    arguments = dict(batch_size=2, q_length=4, kv_length=6, q_offset=2, dtype=torch.bfloat16)
    mask, expected = describe_mask(**arguments), mu.eager_mask(**arguments)
    assert mask.shape == expected.shape and mask.dtype == expected.dtype
    assert torch.equal(mask[:, :, :, :5] + 0, expected[:, :, :, :5])


def test_a_described_mask_that_was_written_to_counts_as_written() -> None:
    mask = describe_mask(1, 3, 3)
    mask[..., 0] = torch.finfo(torch.float32).min
    sight = sight_of(mask, 1, 3, 3, True, None)
    assert not mask.is_description
    assert shown(sight, 1, 3, 3).tolist() == [
        [[False] * 3, [False, True, False], [False, True, True]]
    ]


def test_a_function_that_is_no_pattern_is_not_taken_for_one() -> None:
    assert read_pattern(lambda b, h, q, k: k <= q) is None
    assert read_pattern(mu.and_masks(mu.causal_mask_function, lambda b, h, q, k: k > 0)) is None


def test_a_mask_with_values_of_its_own_becomes_a_bias() -> None:
    mask = torch.randn(2, 1, 3, 5, generator=torch.Generator().manual_seed(0))
    mask[:, :, :, 1] = torch.finfo(torch.float32).min
    sight = sight_of(mask, 2, 3, 5, True, None)
    assert sight.visible is None and sight.bias.shape == (1, 6, 5)
    assert torch.isinf(sight.bias[..., 1]).all()
    assert torch.equal(sight.bias[0, :, 2:], mask[:, 0, :, 2:].reshape(6, 3))


def test_a_mask_of_another_shape_is_refused_with_both_shapes() -> None:
    with pytest.raises(
        ValueError, match=r"attention_mask: expected \[2, 1 or heads, 3, 5\], got \(2, 1, 4, 5\)"
    ):
        sight_of(torch.zeros(2, 1, 4, 5), 2, 3, 5, True, None)


def test_a_mask_for_fewer_keys_is_broadcast_as_eagers_is_or_refused() -> None:
    sight = sight_of(describe_mask(2, 1, 1), 2, 1, 5, True, None)
    assert shown(sight, 2, 1, 5).all()
    with pytest.raises(
        folio_kv.Error, match=r"expected \[2, 1 or heads, 1, 5\], got \(2, 1, 1, 3\)"
    ):
        sight_of(describe_mask(2, 1, 3), 2, 1, 5, True, None)


def test_masks_are_looked_at_once() -> None:
    mask = torch.ones(2, 1, 3, 5, dtype=torch.bool)
    assert sight_of(mask, 2, 3, 5, True, None) is sight_of(mask, 2, 3, 5, True, None)
    mask[..., 0] = False
    assert sight_of(mask, 2, 3, 5, True, None).visible[0].tolist() == [1] * 6


def test_mask_tensors_are_tensors_of_four_dimensions() -> None:
    mask = describe_mask(2, 3, 5)
    assert isinstance(mask, torch.Tensor) and isinstance(mask, MaskTensor) and mask.dim() == 4
