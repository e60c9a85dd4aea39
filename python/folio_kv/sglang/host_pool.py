# SPDX-License-Identifier: Apache-2.0
"""A host pool of SGLang's as pages of bytes: in place where the pool says where its pages are
(`get_page_buffer_meta`), else by a copy of each page as SGLang makes it (`get_data_page`).

Nothing is believed that can be counted: the runs of a page have as many bytes as a copy of it, lie
in the pool's own tensors, and those of page p at p times the same distance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from sglang.srt.mem_cache.memory_pool_host import LogicalHostPool
from sglang.srt.mem_cache.pool_host.mha import MHATokenToKVPoolHost
from sglang.srt.mem_cache.pool_host.page_interleave import PageInterleaveHostPool

from folio_kv import tiers
from folio_kv.errors import Unsupported

__all__ = ["HostPool"]

_NO_ADDRESSES = (NotImplementedError, ValueError, AssertionError, AttributeError, TypeError)


@dataclass(frozen=True)
class _Run:
    """Bytes of a page: where those of page 0 begin, in a storage, and how far page 1's are."""

    storage: torch.UntypedStorage
    offset: int
    stride: int
    bytes: int

    def array(self, pages: int) -> torch.Tensor:
        """uint8 [pages, bytes], in place."""
        empty = torch.empty(0, dtype=torch.uint8)
        return empty.set_(self.storage, self.offset, (pages, self.bytes), (self.stride, 1))


class HostPool:
    """The pages of `pool`, which SGLang registered under `name`. Raises Unsupported, in one line,
    for a pool whose pages folio cannot know.

    is_logical: it has no bytes; its pages are there when their sidecars are. is_replicated: every
    rank of a tensor-parallel MLA model has the same bytes.
    """

    def __init__(self, name: str, pool: Any, is_mla_model: bool) -> None:
        self.name = str(name)
        self._pool = pool
        self._refuse_strangers()
        self.tokens = pool.page_size
        self.is_logical = isinstance(pool, LogicalHostPool)
        is_split = self.name == "mamba" or isinstance(pool, MHATokenToKVPoolHost)
        is_split = is_split or bool(getattr(pool, "_layer_shard_enabled", False))
        self.is_replicated = is_mla_model and not is_split
        self.arrays: tiers.PageArrays | None = None
        self.page_bytes = 0
        self._views: list[torch.Tensor] = []
        runs: list[_Run] = []
        if not self.is_logical:
            self.page_bytes = self._count_bytes()
            runs = self._runs()
        if runs:
            self._views = [run.array(self._num_pages()) for run in runs]
            self.arrays = tiers.PageArrays(self._views)
        elif not self.is_logical:
            self._check_copies()
        self.geometry = self._geometry(runs)

    def _refuse_strangers(self) -> None:
        pool = self._pool
        if isinstance(pool, PageInterleaveHostPool):
            raise self._unsupported("its pages are dealt out to ranks")
        if getattr(pool, "shared_allocation_domain", None) is not None:
            raise self._unsupported("its pages move (unified memory)")
        if getattr(pool, "dcp_size", 1) != 1:
            raise self._unsupported("decode-context parallelism splits its pages")
        if getattr(pool, "_is_dummy", False):
            raise self._unsupported("it has no memory of its own (MLA host deduplication)")

    def _unsupported(self, why: str) -> Unsupported:
        of = f"{type(self._pool).__name__}, layout {getattr(self._pool, 'layout', 'unknown')}"
        return Unsupported(f"HiCache: pool {self.name} ({of}): {why}")

    def _count_bytes(self) -> int:
        """Of a page, as SGLang makes copies of it, or as it counts tokens where it makes none."""
        try:
            return int(self._pool.get_dummy_flat_data_page().nbytes)
        except _NO_ADDRESSES:
            return int(self._pool.size_per_token * self.tokens)

    def _num_pages(self) -> int:
        pool = self._pool
        return int(pool.page_num if hasattr(pool, "page_num") else pool.num_host_pages)

    def _addresses(self, page: int) -> tuple[list[int], list[int]] | None:
        """Where the runs of a page begin, and their bytes; None where the pool does not say."""
        tokens = torch.arange(page * self.tokens, (page + 1) * self.tokens)
        try:
            found = self._pool.get_page_buffer_meta(tokens)
        except _NO_ADDRESSES:
            return None
        return found

    def _runs(self) -> list[_Run]:
        """Of page 0; none where pages are to be copied."""
        pages = self._num_pages()
        first = self._addresses(0)
        if first is None:
            return []
        second, last = self._addresses(min(1, pages - 1)), self._addresses(pages - 1)
        if second is None or last is None or sum(first[1]) != self.page_bytes:
            return []
        storages = {storage.data_ptr(): storage for storage in _storages(vars(self._pool))}
        runs = []
        for at, size, next_at, last_at in zip(first[0], first[1], second[0], last[0]):
            stride = next_at - at if pages > 1 else size
            storage = next((s for s in storages.values() if _holds(s, at, last_at + size)), None)
            if storage is None or stride < size or last_at != at + stride * (pages - 1):
                return []
            runs.append(_Run(storage, at - storage.data_ptr(), stride, size))
        return runs

    def _check_copies(self) -> None:
        try:
            came = self._pool.get_data_page(0).nbytes
        except _NO_ADDRESSES as error:
            raise self._unsupported(f"it gives no pages: {error}") from None
        if came != self.page_bytes:
            raise self._unsupported(f"expected {self.page_bytes} bytes of a page, got {came}")

    def _geometry(self, runs: Sequence[_Run]) -> dict[str, Any]:
        """What the bytes of its pages mean, as far as the pool says it."""
        pool = self._pool
        said = {
            name: str(getattr(pool, name))
            for name in (
                "layout dtype layer_num target_layer_num start_layer end_layer head_num head_dim "
                "v_head_dim kv_cache_dim kv_lora_rank qk_rope_head_dim storage_format_tag "
                "conv_dtype temporal_dtype conv_state_shapes temporal_state_shape indexer_dtype "
                "item_bytes"
            ).split()
            if hasattr(pool, name)
        }
        return {
            "pool": self.name,
            "kind": type(pool).__name__,
            "tokens": self.tokens,
            "bytes": self.page_bytes,
            "runs": [run.bytes for run in runs],
            **said,
        }

    def pages_of(self, host_indices: torch.Tensor | None, count: int) -> list[int]:
        """The numbers of `count` pages whose tokens' slots are `host_indices`. Raises ValueError
        where they are others than whole pages of the pool."""
        came = 0 if host_indices is None else host_indices.numel()
        if host_indices is None or came != count * self.tokens:
            raise ValueError(
                f"pool {self.name}: host_indices: expected {count} pages of {self.tokens}, got {came}"
            )
        firsts = host_indices.reshape(-1)[:: self.tokens].cpu()
        if bool((firsts % self.tokens).any()):
            raise ValueError(f"pool {self.name}: host_indices: expected the slots of whole pages")
        return (firsts // self.tokens).tolist()

    def load(self, pages: Sequence[int], load: Callable[..., list[bool]]) -> list[bool]:
        """`load(where, pages)` into these pages, which have its bytes where it is true then."""
        if self.is_logical:
            return [True] * len(pages)
        if self.arrays is not None:
            return load(self.arrays, pages)
        copies = [self._pool.get_dummy_flat_data_page() for _ in pages]
        loaded = load([copy.view(torch.uint8) for copy in copies], None)
        for page, copy, is_there in zip(pages, copies, loaded):
            if is_there:
                self._pool.set_from_flat_data_page(page * self.tokens, copy)
        return loaded

    def store(self, pages: Sequence[int], store: Callable[..., list[bool]]) -> list[bool]:
        """`store(where, pages)` of these pages."""
        if self.is_logical:
            return [True] * len(pages)
        if self.arrays is not None:
            return store(self.arrays, pages)
        copies = [self._pool.get_data_page(page * self.tokens).contiguous() for page in pages]
        return store([copy.view(torch.uint8) for copy in copies], None)


def _holds(storage: torch.UntypedStorage, first: int, end: int) -> bool:
    return storage.data_ptr() <= first and end <= storage.data_ptr() + storage.nbytes()


def _storages(found: object) -> Iterator[torch.UntypedStorage]:
    """Of all tensors in the host's memory that are there, in lists and the like too."""
    if isinstance(found, torch.Tensor):
        if found.device.type == "cpu" and found.numel() > 0:
            yield found.untyped_storage()
    elif isinstance(found, dict):
        for of in found.values():
            yield from _storages(of)
    elif isinstance(found, (list, tuple)):
        for of in found:
            yield from _storages(of)
