# SPDX-License-Identifier: Apache-2.0
"""tests/cli/policies_oracle.py: counts of caches of trace blocks under each eviction policy, independent of folio.

The rule of oracle.py. What stands behind an evicted block is another content when it is computed again: the old one stays where it waits
and is never found.
"""

from collections import OrderedDict, deque

TOKENS_PER_BLOCK = 512


class Lru:
    def __init__(self, capacity):
        self.waiting = OrderedDict()

    def put(self, node):
        self.waiting[node] = True

    def remove(self, node):
        del self.waiting[node]

    def victim(self):
        return self.waiting.popitem(last=False)[0]


class S3Fifo:
    def __init__(self, capacity):
        self.small, self.main = OrderedDict(), OrderedDict()
        self.ghosts = deque(maxlen=capacity)

    def put(self, node):
        if node.queue is None:
            node.queue = self.main if node.chain in self.ghosts else self.small
        node.found = min(node.found, 3)
        node.queue[node] = True

    def remove(self, node):
        del node.queue[node]

    def victim(self):
        while True:
            queue = self.small if len(self.small) > len(self.main) else self.main
            node = queue.popitem(last=False)[0]
            if node.found == 0:
                if queue is self.small:
                    self.ghosts.append(node.chain)
                return node
            node.found = 0 if queue is self.small else node.found - 1
            node.queue = self.main
            self.main[node] = True


class Lfu:
    def __init__(self, capacity):
        self.age, self.keys = 0, {}

    def put(self, node):
        self.keys[node] = self.age + 1 + min(node.found, 62)

    def remove(self, node):
        del self.keys[node]

    def victim(self):
        node = min(self.keys, key=self.keys.get)  # of equals the one that has waited longest
        self.age = self.keys.pop(node)
        return node


class Cost(Lfu):
    def put(self, node):
        self.keys[node] = self.age + 1 + min(node.found, 31) + 2 * node.eighths


class Node:
    """One content: a block behind its parent."""

    def __init__(self, parent, block):
        self.parent, self.block, self.chain = parent, block, (parent.chain if parent else ()) + (block,)
        self.found, self.queue = 0, None
        self.eighths = 0  # of the longest request: of the longest one that had it


def replay(requests, capacity, policy):
    """Counts for `requests` ({"input_length", "hash_ids"}); capacity in blocks."""
    waiting, cached = policy(capacity), {}  # (parent, block) -> node
    longest = max(len(request["hash_ids"]) for request in requests)
    in_use = hits = evictions = hit_tokens = saved_work = 0
    for request in requests:
        chain, parent = [], None
        for block in request["hash_ids"]:
            node = cached.get((parent, block))
            if node is None:
                break
            chain.append(node)
            parent = node
        hits += len(chain)
        found_tokens = min(len(chain) * request.get("block_size", TOKENS_PER_BLOCK), request["input_length"])
        hit_tokens += found_tokens
        saved_work += found_tokens + found_tokens**2 // 65_536
        for node in chain:
            node.found += 1
            waiting.remove(node)
        for block in request["hash_ids"][len(chain) :]:
            if in_use == capacity:
                victim = waiting.victim()
                del cached[victim.parent, victim.block]
                evictions += 1
            else:
                in_use += 1
            node = cached[parent, block] = Node(parent, block)
            chain.append(node)
            parent = node
        for node in reversed(chain):
            node.eighths = max(node.eighths, min(len(chain) * 8 // longest, 7))
            waiting.put(node)
    return {"hit_pages": hits, "hit_tokens": hit_tokens, "saved_work": saved_work, "evicted_pages": evictions}


POLICIES = {"lru": Lru, "s3-fifo": S3Fifo, "lfu": Lfu, "cost": Cost}
