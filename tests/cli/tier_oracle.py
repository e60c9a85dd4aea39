# SPDX-License-Identifier: Apache-2.0
"""tests/cli/tier_oracle.py: counts of an LRU cache of trace blocks over a bounded tier, independent of folio.

Memory is the cache of oracle.py. The tier below is written through: a block that is computed is handed to it, and stored unless it has it;
the one that was stored or loaded longest ago gives way. Behind what memory has, the longest leading run of blocks that the tier has is loaded.
"""

from collections import OrderedDict

from oracle import TOKENS_PER_BLOCK


class Memory:
    def __init__(self, capacity):
        self.capacity, self.cached, self.evictions = capacity, OrderedDict(), 0

    def run(self, ids):
        found = 0
        while found < len(ids) and ids[found] in self.cached:
            found += 1
        return found

    def hold(self, ids, found):
        for block in ids[:found]:
            del self.cached[block]
        for held, block in enumerate(ids[found:], start=found):
            if block in self.cached:
                del self.cached[block]
            elif self.capacity is not None and len(self.cached) + held == self.capacity:
                self.cached.popitem(last=False)
                self.evictions += 1
        for block in reversed(ids):
            self.cached[block] = True


class Tier:
    def __init__(self, capacity):
        self.capacity, self.blocks, self.stored, self.dropped = capacity, OrderedDict(), 0, 0

    def load(self, ids):
        run = 0
        while run < len(ids) and ids[run] in self.blocks:
            run += 1
        for block in ids[:run]:
            self.blocks.move_to_end(block)
        return run

    def store(self, ids):
        for block in ids:
            self.stored += 1
            if block in self.blocks:
                continue
            if self.capacity is not None and len(self.blocks) == self.capacity:
                self.blocks.popitem(last=False)
                self.dropped += 1
            self.blocks[block] = True


def replay(requests, memory_blocks, tier_blocks=None):
    """Counts for `requests` ({"input_length", "hash_ids"}); tier_blocks None: endless."""
    memory, tier = Memory(memory_blocks), Tier(tier_blocks)
    counts = {"memory_tokens": 0, "tier_tokens": 0, "loaded_pages": 0}
    for request in requests:
        ids, length = request["hash_ids"], request["input_length"]
        found = memory.run(ids)
        loaded = tier.load(ids[found:])
        memory.hold(ids, found)
        tier.store(ids[found + loaded:])
        in_memory = min(found * TOKENS_PER_BLOCK, length)
        counts["memory_tokens"] += in_memory
        counts["tier_tokens"] += min((found + loaded) * TOKENS_PER_BLOCK, length) - in_memory
        counts["loaded_pages"] += loaded
    return counts | {"evicted_pages": memory.evictions, "stored_pages": tier.stored, "dropped_pages": tier.dropped,
                     "pages": len(tier.blocks)}
