# SPDX-License-Identifier: Apache-2.0
"""Modular MAX's managers, without a device or buffers: JengaBlockManager over its native pool, the
default since 26.6, and the classic BlockManager. One leaf of full attention, prefix caching on, hashes as by default (ahash64)."""

from __future__ import annotations

import importlib.metadata

import numpy as np
from max.dtype import DType
from max.graph import DeviceRef
from max.nn.kv_cache import MHAKVCacheParams
from max.pipelines.context import TextContext, TokenBuffer
from max.pipelines.kv_cache.paged_kv_cache.block_manager import BlockManager
from max.pipelines.kv_cache.paged_kv_cache.jenga_block_manager import (
    JengaBlockManager,
    KVLeafInfo,
    create_groups,
    create_pools,
)

LONGEST = 1 << 20  # tokens of a request


class Manager:
    """A page of one token is two tokens here, for MAX gives the token behind a prompt room: that takes
    a page more, never committed, and so drawn first again."""

    versions = {"max": importlib.metadata.version("max")}

    def __init__(self, pages: int, page_size: int, is_jenga: bool) -> None:
        self.repeat = 2 if page_size == 1 else 1
        self.page_size = page_size * self.repeat
        pages += 1 if page_size == 1 else 0
        self.manager = (jenga if is_jenga else classic)(pages, self.page_size)
        self.alloc = self.manager.alloc if is_jenga else self.alloc_classic

    def prompt(self, tokens: list[int]) -> np.ndarray:
        if self.repeat == 1:
            return np.array(tokens, dtype=np.int64)
        return np.repeat(np.array(tokens, dtype=np.int64), 2)[:-1]  # the last has no page

    def serve(self, prompt: np.ndarray) -> int:
        request = TextContext(max_length=LONGEST, tokens=TokenBuffer(prompt))
        self.manager.claim(request)
        self.alloc(request)
        cached = request.tokens.processed_length
        request.update(0)
        self.manager.step(request)
        self.manager.release(request)
        return cached // self.repeat

    def alloc_classic(self, request: TextContext) -> None:
        self.manager.reuse_blocks_from_prefix_cache(request)
        self.manager.allocate_new_blocks(request)


def jenga(pages: int, page_size: int) -> JengaBlockManager:
    params = MHAKVCacheParams(
        dtype=DType.float32, head_dim=8, num_layers=1, devices=[DeviceRef.CPU()], n_kv_heads=1,
        page_size=page_size, enable_prefix_caching=True,
    )  # fmt: skip
    leaves = params.leaves()
    infos = {name: KVLeafInfo(ratio=1, group_id=leaf.group_id) for name, leaf in leaves.items()}
    pools = create_pools(infos, pages + 1)  # one of them is the null page
    groups = create_groups(infos, pools, page_size, enable_prefix_caching=True)
    return JengaBlockManager(pools, page_size, groups=groups, leaves=leaves)


def classic(pages: int, page_size: int) -> BlockManager:
    return BlockManager(pages, page_size, enable_prefix_caching=True)
