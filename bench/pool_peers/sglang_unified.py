# SPDX-License-Identifier: Apache-2.0
"""SGLang's UnifiedRadixCache, its default, with full attention alone and the tree in Rust that its wheel brings.

As sglang_radix.py: what runs on a GPU or in a server is ours and empty, and few names of it have a
body, those below: one rank, no sessions, no sharded pages. Cache, component, tree and adapter are the wheel's.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable

import torch

from sglang_radix import OWN, STUBS, Allocator, Radix


class NoSessions:
    def __init__(self, cache: object) -> None:
        self.slots: dict = {}

    def try_match_prefix(self, params: object) -> None:
        return None


def of_one_rank(function: Callable | None = None, **checks: object) -> Callable:
    """A decorator that compares what ranks do, where there is one."""
    return function or (lambda decorated: decorated)


STUBS += [
    "sglang.srt.distributed",
    "sglang.srt.distributed.communication_tags",
    "sglang.srt.managers",
    "sglang.srt.managers.cache_controller",  # copies to and from the host
    "sglang.srt.mem_cache.allocator.page_interleave",
    "sglang.srt.mem_cache.buffer_mode.pipeline",
    "sglang.srt.mem_cache.common",
    "sglang.srt.mem_cache.hybrid_cache",
    "sglang.srt.mem_cache.hybrid_cache.hybrid_cache_controller",
    "sglang.srt.mem_cache.swa_memory_pool",
    "sglang.srt.mem_cache.unified_cache.storage_attachment",
    "sglang.srt.session",
    "sglang.srt.session.streaming_session",
    "sglang.srt.utils.poll_timer",
    "sglang.srt.utils.rank_consensus_checker",
]
OWN |= {
    "sglang.srt.mem_cache.allocator.page_interleave": {
        "page_interleave_shard_size": lambda allocator: 1
    },
    "sglang.srt.session.streaming_session": {
        "StreamingSession": NoSessions,
        "is_virtual_node": lambda node: False,
    },
    "sglang.srt.utils.rank_consensus_checker": {"rank_consensus": of_one_rank},
}
sys.modules["sglang.srt.utils"].assert_int64_array = lambda tokens, name: None

from sglang.srt.mem_cache.base_prefix_cache import (  # noqa: E402
    EvictParams,
    InsertParams,
    MatchPrefixParams,
)
from sglang.srt.mem_cache.cache_init_params import CacheInitParams  # noqa: E402
from sglang.srt.mem_cache.radix_cache import RadixKey  # noqa: E402
from sglang.srt.mem_cache.unified_cache.component_type import ComponentType  # noqa: E402
from sglang.srt.mem_cache.unified_radix_cache import UnifiedRadixCache  # noqa: E402


class Unified:
    versions = Radix.versions

    def __init__(self, pages: int, page_size: int) -> None:
        self.allocator, self.page_size = Allocator(pages, page_size), page_size
        self.cache = UnifiedRadixCache(
            CacheInitParams(
                disable=False,
                req_to_token_pool=None,
                token_to_kv_pool_allocator=self.allocator,
                page_size=page_size,
                tree_components=(ComponentType.FULL,),
                tree_core_backend="rust",
            )
        )
        core = type(self.cache.tree_core).__name__
        if core != "RustUnifiedTreeCore":
            raise RuntimeError(f"the tree is {core}, expected RustUnifiedTreeCore")

    def prompt(self, tokens: list[int]) -> array:
        return array("q", tokens)

    def serve(self, prompt: array) -> int:
        """What the scheduler does for a request: match, lock, make room, keep what is full, unlock."""
        cache, size = self.cache, self.page_size
        match = cache.match_prefix(MatchPrefixParams(key=RadixKey(prompt, limit=len(prompt) - 1)))
        cached = match.device_prefix_len
        slots = cache.path_device_indices(match.last_device_node)
        lock = cache.lock(match.last_device_node)
        room = len(prompt) - (1 if size == 1 else 0)  # the last token of a trace gets none
        pages = -(-(room - cached) // size)
        if pages > self.allocator.free:
            cache.evict(EvictParams(num_tokens=(pages - self.allocator.free) * size))
        new = self.allocator.alloc(pages)
        full = room // size * size
        if full > cached:
            value = torch.cat([slots, new[: full - cached]])
            key = RadixKey(prompt, limit=full)
            cache.insert(InsertParams(key=key, value=value, prev_prefix_len=cached))
        if len(new) > full - cached:
            self.allocator.free_segment(new[full - cached :])
        cache.unlock(lock)
        return cached
