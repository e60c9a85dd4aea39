# SPDX-License-Identifier: Apache-2.0
"""SGLang's RadixCache, LRU, from its wheel, without what SGLang needs besides.

The folder that holds the wheel's `sglang` is given by SGLANG_WHEEL. Of the package these modules are
ours and empty (each name in them is an empty class), because they ask for what runs on a GPU or in a server: STUBS below. The
package's own __init__ is not run. Nothing of the tree is replaced. The allocator is ours: a stack of
free pages in one tensor.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
import types
from array import array
from pathlib import Path

import torch

STUBS = [
    "sglang.kernels",
    "sglang.kernels.ops",
    "sglang.kernels.ops.kvcache",
    "sglang.kernels.ops.kvcache.mla_buffer",  # Triton kernels
    "sglang.srt.disaggregation",
    "sglang.srt.disaggregation.kv_events",  # events, which are off
    "sglang.srt.mem_cache.allocator",  # base class of allocators
    "sglang.srt.mem_cache.memory_pool",
    "sglang.srt.observability",
    "sglang.srt.observability.metrics_collector",  # metrics, which are off
    "sglang.srt.runtime_context",
    "sglang.srt.utils",
    "sglang.srt.utils.common",
]
# module -> names of it that are ours and not empty
OWN: dict[str, dict[str, object]] = {}


class Stub(types.ModuleType):
    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class Stubs:
    """Finds the modules of STUBS before anything else does."""

    def find_spec(self, name: str, path=None, target=None):
        if name in STUBS:
            return importlib.util.spec_from_loader(name, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Stub:
        module = Stub(spec.name)
        vars(module).update(OWN.get(spec.name, {}))
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        pass


sys.meta_path.insert(0, Stubs())
WHEEL = Path(os.environ["SGLANG_WHEEL"])
sys.modules["sglang"] = types.ModuleType("sglang")
sys.modules["sglang"].__path__ = [str(WHEEL / "sglang")]

from sglang.srt.mem_cache.base_prefix_cache import (  # noqa: E402
    EvictParams,
    InsertParams,
    MatchPrefixParams,
)
from sglang.srt.mem_cache.radix_cache import RadixCache, RadixKey  # noqa: E402


class Allocator:
    """Token slots of pages, `page_size` behind one another."""

    device = "cpu"

    def __init__(self, pages: int, page_size: int) -> None:
        self.page_size, self.free = page_size, pages
        self.stack = torch.arange(pages - 1, -1, -1)
        self.offsets = torch.arange(page_size)

    def alloc(self, pages: int) -> torch.Tensor:
        self.free -= pages
        taken = self.stack[self.free : self.free + pages].flip(0)
        return (taken[:, None] * self.page_size + self.offsets).reshape(-1)

    def free_segment(self, slots: torch.Tensor, start_pos: int = 0) -> None:
        pages = slots[:: self.page_size] // self.page_size
        self.stack[self.free : self.free + len(pages)] = pages
        self.free += len(pages)


class Radix:
    versions = {
        "sglang": next(WHEEL.glob("sglang-*.dist-info")).name.split("-")[1].removesuffix(".dist")
    }

    def __init__(self, pages: int, page_size: int) -> None:
        self.allocator = Allocator(pages, page_size)
        self.cache = RadixCache.create_simulated(mock_allocator=self.allocator, page_size=page_size)
        self.page_size = page_size

    def prompt(self, tokens: list[int]) -> array:
        return array("q", tokens)

    def serve(self, prompt: array) -> int:
        """What the scheduler does for a request: match, lock, make room, keep what is full, unlock."""
        cache, size = self.cache, self.page_size
        match = cache.match_prefix(MatchPrefixParams(key=RadixKey(prompt, limit=len(prompt) - 1)))
        node, cached = match.last_device_node, match.device_prefix_len
        slots = cache.path_device_indices(node)
        cache.inc_lock_ref(node)
        room = len(prompt) - (1 if size == 1 else 0)  # the last token of a trace gets none
        pages = -(-(room - cached) // size)
        if pages > self.allocator.free:
            cache.evict(EvictParams(num_tokens=(pages - self.allocator.free) * size))
        new = self.allocator.alloc(pages)
        full = room // size * size
        if full > cached:
            key = RadixKey(prompt, limit=full)
            cache.insert(InsertParams(key=key, value=torch.cat([slots, new[: full - cached]])))
        if len(new) > full - cached:
            self.allocator.free_segment(new[full - cached :])
        cache.dec_lock_ref(node)
        return cached
