# SPDX-License-Identifier: Apache-2.0
"""How long a prompt tiers can serve: vLLM's own search, over what tiers have.

Each kind of group (full, windows, chunks, states) has its rule, and vLLM's coordinator knows them
all. It is asked with a pool of blocks that says what lies in tiers, or in memory in front of that.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Hit:
    """What is to be loaded for a request."""

    tokens: int = 0
    """Of the prompt, those that memory has among them."""
    blocks: dict[int, list[tuple[int, bytes, int]]] = field(default_factory=dict)
    """group -> (number of the block in the request, name, tier)"""


class _Found:
    """A pool of blocks for one search: says which hashes can be had."""

    def __init__(self, null_block: Any, hash_block_size: int, block: Callable[[int], Any]) -> None:
        self.null_block = null_block
        self.hash_block_size = hash_block_size
        self._block = block
        self.numbers: dict[tuple[bytes, int], int] = {}

    def get_cached_block(self, block_hash: bytes, kv_cache_group_ids: list[int]) -> Any:
        """vLLM's: a block of each group, or None."""
        numbers = [self.numbers.get((block_hash, group)) for group in kv_cache_group_ids]
        if any(number is None for number in numbers):
            return None
        return [self._block(number) for number in numbers]


class Lookup:
    """Finds hits; one for each engine."""

    def __init__(self, kv_cache_manager: Any, group_ids: tuple[int, ...]) -> None:
        from vllm.v1.core.kv_cache_utils import KVCacheBlock

        self._block = KVCacheBlock
        self.coordinator = kv_cache_manager.coordinator
        self.group_ids = group_ids
        self.block_sizes = {
            g: self.coordinator.single_type_managers[g].block_size for g in group_ids
        }
        self.hash_block_size = kv_cache_manager.block_pool.hash_block_size

    def hashes_of(self, request: Any, group_id: int) -> list[bytes]:
        """Of the full blocks of a group."""
        scale = self.block_sizes[group_id] // self.hash_block_size
        return [bytes(h) for h in request.block_hashes[scale - 1 :: scale]]

    def search(
        self,
        request: Any,
        num_computed: int,
        find: Callable[[list[tuple[int, list[bytes]]]], dict[int, list[tuple[bytes, int]]]],
    ) -> Hit:
        """The longest prompt of which tiers have what memory's `num_computed` tokens have not.

        `find` says for (group, hashes) the name of each and the tier that has it, or -1.
        """
        asked = []
        for g in self.group_ids:
            begin = num_computed // self.block_sizes[g]
            end = (request.num_tokens - 1) // self.block_sizes[g]
            asked.append((g, self.hashes_of(request, g)[begin:end]))
        places = find(asked)
        pool = _Found(self._block(block_id=-1, is_null=True), self.hash_block_size, self._block)
        for g, hashes in asked:
            begin = num_computed // self.block_sizes[g]
            for number, block_hash in enumerate(self.hashes_of(request, g)[:begin]):
                pool.numbers[block_hash, g] = number
            for i, (block_hash, (_, tier)) in enumerate(zip(hashes, places[g], strict=True)):
                if tier >= 0:
                    pool.numbers[block_hash, g] = begin + i
        blocks, tokens, _ = self._over(pool).find_longest_cache_hit(
            request.block_hashes, request.num_tokens - 1
        )
        hit = Hit(tokens)
        if tokens <= num_computed:
            return hit
        for g in self.group_ids:
            begin = num_computed // self.block_sizes[g]
            hit.blocks[g] = [
                (block.block_id, *places[g][block.block_id - begin])
                for block in blocks[g]
                if not block.is_null and block.block_id >= begin
            ]
        return hit

    def _over(self, pool: _Found) -> Any:
        """vLLM's coordinator, which looks into another pool."""
        view = copy.copy(self.coordinator)
        view.block_pool = pool
        managers = []
        for manager in self.coordinator.single_type_managers:
            manager = copy.copy(manager)
            manager.block_pool = pool
            managers.append(manager)
        view.single_type_managers = tuple(managers)
        return view
