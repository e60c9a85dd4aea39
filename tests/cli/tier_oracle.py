# SPDX-License-Identifier: Apache-2.0
"""tests/cli/tier_oracle.py: counts of an LRU cache of trace blocks over a bounded tier, independent of folio.

Memory is the cache of oracle.py. The tier below is written through: a block that is computed is handed to it, and stored unless it has it;
of those that none there continues, the one that was stored or loaded longest ago gives way. Behind what memory has, the longest leading run of blocks that the tier has is
loaded.
"""

import heapq
from collections import Counter, OrderedDict

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
        self.capacity, self.stored, self.dropped, self.clock = capacity, 0, 0, 0
        self.used, self.parents, self.children = {}, {}, Counter()  # of blocks that are there
        self.leaves = []  # a heap of (used, block); what is out of date is passed over

    def use(self, block):
        self.clock += 1
        self.used[block] = self.clock
        heapq.heappush(self.leaves, (self.clock, block))

    def load(self, ids):
        run = 0
        while run < len(ids) and ids[run] in self.used:
            run += 1
        for block in ids[:run]:
            self.use(block)
        return run

    def drop_leaf(self):
        while self.leaves:
            used, block = heapq.heappop(self.leaves)
            if self.used.get(block) != used or self.children[block] != 0:
                continue
            del self.used[block]
            self.dropped += 1
            self.unlink(block)
            return True
        return False

    def unlink(self, block):
        parent = self.parents.pop(block)
        self.children[parent] -= 1
        if parent in self.used and self.children[parent] == 0:
            heapq.heappush(self.leaves, (self.used[parent], parent))

    def store(self, ids, first):
        for block, parent in zip(ids[first:], [None, *ids][first:]):
            if block in self.used:
                self.stored += 1
                self.use(block)
                continue
            self.parents[block] = parent
            self.children[parent] += 1
            if self.capacity is not None and len(self.used) == self.capacity and not self.drop_leaf():
                self.unlink(block)  # all that is there is what it continues
                continue
            self.stored += 1
            self.use(block)


def replay(requests, memory_blocks, tier_blocks=None):
    """Counts for `requests` ({"input_length", "hash_ids"}); tier_blocks None: endless."""
    memory, tier = Memory(memory_blocks), Tier(tier_blocks)
    counts = {"memory_tokens": 0, "tier_tokens": 0, "loaded_pages": 0}
    for request in requests:
        ids, length = request["hash_ids"], request["input_length"]
        found = memory.run(ids)
        loaded = tier.load(ids[found:])
        memory.hold(ids, found)
        tier.store(ids, found + loaded)
        in_memory = min(found * TOKENS_PER_BLOCK, length)
        counts["memory_tokens"] += in_memory
        counts["tier_tokens"] += min((found + loaded) * TOKENS_PER_BLOCK, length) - in_memory
        counts["loaded_pages"] += loaded
    return counts | {"evicted_pages": memory.evictions, "stored_pages": tier.stored, "dropped_pages": tier.dropped,
                     "pages": len(tier.used)}
