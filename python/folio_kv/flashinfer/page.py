# SPDX-License-Identifier: Apache-2.0
"""FlashInfer's page functions: writing to a paged cache, and the index arrays for it."""

from __future__ import annotations

import torch

from .. import Pages, append
from .._compat import check_no_gradient, check_tensor, index_tensor, offsets_tensor, wrong

Cache = torch.Tensor | tuple[torch.Tensor, torch.Tensor]


def get_seq_lens(
    kv_indptr: torch.Tensor, kv_last_page_len: torch.Tensor, page_size: int
) -> torch.Tensor:
    """[batch] tokens of each sequence: full pages before the last, and kv_last_page_len."""
    return torch.clamp(kv_indptr.diff() - 1, min=0) * page_size + kv_last_page_len


def get_batch_indices_positions(
    append_indptr: torch.Tensor, seq_lens: torch.Tensor, nnz: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sequence and position of each of `nnz` new tokens, [nnz] int32 each.

    append_indptr [batch + 1] says whose they are; they are the last of each sequence's seq_lens
    [batch] tokens. Rows from append_indptr[-1] on are padding: sequence -1, position 0.
    """
    name = "get_batch_indices_positions"
    batch = append_indptr.numel() - 1
    offsets = offsets_tensor(name, "append_indptr", append_indptr)
    lengths = index_tensor(name, "seq_lens", seq_lens, batch)
    tokens = int(offsets[-1])
    if tokens > nnz:
        raise wrong(name, "nnz", f"append_indptr's {tokens} tokens or more", nnz)
    batch_indices = torch.full((nnz,), -1, dtype=torch.int32)
    positions = torch.zeros(nnz, dtype=torch.int32)
    new = offsets.diff()
    if bool((lengths < new).any()):
        raise wrong(name, "seq_lens", f"the new tokens {new.tolist()} or more", lengths.tolist())
    owners = torch.repeat_interleave(torch.arange(batch), new.to(torch.int64))
    batch_indices[:tokens] = owners.to(torch.int32)
    first = lengths - offsets[1:]
    positions[:tokens] = torch.arange(tokens, dtype=torch.int32) + first[owners]
    return batch_indices, positions


def append_paged_kv_cache(
    append_key: torch.Tensor,
    append_value: torch.Tensor,
    batch_indices: torch.Tensor,
    positions: torch.Tensor,
    paged_kv_cache: Cache,
    kv_indices: torch.Tensor,
    kv_indptr: torch.Tensor,
    kv_last_page_len: torch.Tensor,
    kv_layout: str = "NHD",
) -> None:
    """Writes append_key, append_value [nnz, kv_heads, dim] at (batch_indices, positions) [nnz].

    Tokens with a negative batch index or position are padding and are skipped. The table already
    holds the pages of the new tokens. Rows are converted to the cache's dtype.
    """
    name = "append_paged_kv_cache"
    key, value = unpack_cache(name, paged_kv_cache, kv_layout)
    check_no_gradient(name, append_key, append_value, key, value)
    pages = Pages(key, value, order=kv_layout)
    slots = _slots(
        name, batch_indices, positions, kv_indices, kv_indptr, kv_last_page_len, pages.page_size
    )
    append(None, pages, append_key, append_value, slots=slots)


def append_paged_mla_kv_cache(
    append_ckv: torch.Tensor,
    append_kpe: torch.Tensor,
    batch_indices: torch.Tensor,
    positions: torch.Tensor,
    ckv_cache: torch.Tensor,
    kpe_cache: torch.Tensor,
    kv_indices: torch.Tensor,
    kv_indptr: torch.Tensor,
    kv_last_page_len: torch.Tensor,
) -> None:
    """Writes append_ckv [nnz, rank] and append_kpe [nnz, rope] to ckv_cache and kpe_cache.

    The caches are [pages, page_size, rank] and [pages, page_size, rope]; as slices of one tensor
    [pages, page_size, rank + rope] they are what a latent folio_kv.Pages reads.
    """
    name = "append_paged_mla_kv_cache"
    for what, cache in ("ckv_cache", ckv_cache), ("kpe_cache", kpe_cache):
        check_tensor(name, what, cache, ["pages", "page_size", "dim"])
    check_no_gradient(name, append_ckv, append_kpe, ckv_cache, kpe_cache)
    slots = _slots(
        name,
        batch_indices,
        positions,
        kv_indices,
        kv_indptr,
        kv_last_page_len,
        ckv_cache.shape[1],
    )
    for cache, rows in (ckv_cache, append_ckv), (kpe_cache, append_kpe):
        append(None, Pages(cache.unsqueeze(2)), rows.unsqueeze(1), slots=slots)


def unpack_cache(
    function: str, cache: Cache, layout: str, parameter: str = "paged_kv_cache"
) -> tuple[torch.Tensor, torch.Tensor]:
    """K and V [pages, ..] of a tuple of 4-D tensors or one 5-D tensor [pages, 2, ..]."""
    check_layout(function, layout)
    page = ["page_size", "kv_heads"] if layout == "NHD" else ["kv_heads", "page_size"]
    if isinstance(cache, torch.Tensor):
        check_tensor(function, parameter, cache, ["pages", 2, *page, "dim"])
        return cache[:, 0], cache[:, 1]
    if not isinstance(cache, (tuple, list)) or len(cache) != 2:
        raise wrong(function, parameter, "(k_cache, v_cache) or one 5-D tensor", type(cache))
    check_tensor(function, f"{parameter}[0]", cache[0], ["pages", *page, "dim"])
    check_tensor(function, f"{parameter}[1]", cache[1], [*cache[0].shape[:3], "dim"])
    return cache[0], cache[1]


def check_last_page_len(
    function: str, parameter: str, last: torch.Tensor, pages: torch.Tensor, page_size: int
) -> None:
    """last, pages [batch]: of each sequence, the tokens in its last page, and its pages."""
    is_wrong = (pages > 0) & ((last < 1) | (last > page_size))
    if bool(is_wrong.any()):
        expected = f"1 to page_size={page_size} where there are pages"
        raise wrong(function, parameter, expected, last[is_wrong].tolist())


def check_layout(function: str, layout: str) -> None:
    if layout not in ("NHD", "HND"):
        raise wrong(function, "kv_layout", '"NHD" or "HND"', layout)


def _slots(
    function: str,
    batch_indices: torch.Tensor,
    positions: torch.Tensor,
    indices: torch.Tensor,
    indptr: torch.Tensor,
    last_page_len: torch.Tensor,
    page_size: int,
) -> torch.Tensor:
    """[nnz] int64 page * page_size + offset; negative for padding."""
    batch = last_page_len.numel()
    last = index_tensor(function, "kv_last_page_len", last_page_len, batch)
    first_page = offsets_tensor(function, "kv_indptr", indptr).to(torch.int64)
    if first_page.numel() != batch + 1:
        raise wrong(function, "kv_indptr", f"[{batch + 1}]", list(indptr.shape))
    table = index_tensor(function, "kv_indices", indices, indices.numel()).to(torch.int64)
    if int(first_page[-1]) > table.numel():
        raise wrong(function, "kv_indices", f"{int(first_page[-1])} pages", table.numel())
    check_last_page_len(function, "kv_last_page_len", last, first_page.diff(), page_size)
    owners = index_tensor(function, "batch_indices", batch_indices, batch_indices.numel())
    places = index_tensor(function, "positions", positions, batch_indices.numel())
    owners, places = owners.to(torch.int64), places.to(torch.int64)
    is_padding = (owners < 0) | (places < 0)
    if bool((owners >= batch).any()):
        raise wrong(function, "batch_indices", f"sequences below {batch}", int(owners.max()))
    known = owners.clamp(min=0)
    entry = first_page[known] + torch.div(places, page_size, rounding_mode="floor")
    beyond = ~is_padding & (entry >= first_page[known + 1])
    if bool(beyond.any()):
        token = int(beyond.nonzero()[0])
        expected = "positions inside the sequence's pages"
        came = f"{int(places[token])} of sequence {int(owners[token])}"
        raise wrong(function, "positions", expected, came)
    if table.numel() == 0:
        return torch.full_like(places, -1)
    slots = table[entry.clamp(0, table.numel() - 1)] * page_size + places % page_size
    return torch.where(is_padding, -1, slots)
