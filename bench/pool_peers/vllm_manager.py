# SPDX-License-Identifier: Apache-2.0
"""vLLM's KVCacheManager over its BlockPool, one group of full attention, prefix caching on, hashes as by default (SHA-256)."""

from __future__ import annotations

import os

os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")

import torch
import vllm
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.request import Request


class Manager:
    versions = {"vllm": vllm.__version__}

    def __init__(self, pages: int, page_size: int, hashes_given: bool) -> None:
        """`hashes_given`: requests, and with them their hashes, are made before the time begins."""
        spec = FullAttentionSpec(
            block_size=page_size, num_kv_heads=1, head_size=8, dtype=torch.float32
        )
        config = KVCacheConfig(
            num_blocks=pages + 1,  # one of them is the null block
            kv_cache_tensors=[],
            kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)],
        )
        self.manager = KVCacheManager(
            config,
            max_model_len=1 << 20,
            scheduler_block_size=page_size,
            hash_block_size=page_size,
            enable_caching=True,
        )
        init_none_hash(sha256)
        self.hasher = get_request_block_hasher(page_size, sha256)
        self.hashes_given = hashes_given
        self.page_size = page_size
        self.sampling = SamplingParams(max_tokens=1)
        self.requests = 0

    def prompt(self, tokens: list[int]) -> list[int] | Request:
        return self.request(tokens) if self.hashes_given else tokens

    def request(self, tokens: list[int]) -> Request:
        self.requests += 1
        return Request(
            str(self.requests),
            prompt_token_ids=tokens,
            sampling_params=self.sampling,
            pooling_params=None,
            block_hasher=self.hasher,
        )

    def serve(self, prompt: list[int] | Request) -> int:
        request = prompt if self.hashes_given else self.request(prompt)
        blocks, cached, _ = self.manager.get_computed_blocks(request)
        # of one token's page, the last token gets no room: a trace's, which is no part of it
        new = request.num_tokens - cached - (1 if self.page_size == 1 else 0)
        if self.manager.allocate_slots(request, new, cached, blocks) is None:
            raise RuntimeError("no room")
        self.manager.free(request)
        return cached
