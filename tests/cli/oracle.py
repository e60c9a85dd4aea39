# SPDX-License-Identifier: Apache-2.0
"""tests/cli/oracle.py: counts of an LRU cache of trace blocks, independent of folio.

The rule: requests come one after the other. A hit is the longest leading run of cached ids. Then all ids of the request are resident,
the partial last block too; blocks that were not cached take free places, and when there are none, evict the least recently used block
that the request itself does not hold. A request's blocks are released last block first. Outputs are left out.
"""

import argparse
import json
from collections import OrderedDict

TOKENS_PER_BLOCK = 512  # where lines have no block_size


def replay(requests, capacity=None):
    """Counts for `requests` ({"input_length", "hash_ids"}); capacity in blocks, None: infinite."""
    cached = OrderedDict()  # not held by anyone, least recently used first
    lookups = hits = evictions = hit_tokens = prompt_tokens = 0
    for request in requests:
        ids = request["hash_ids"]
        run = 0
        while run < len(ids) and ids[run] in cached:
            run += 1
        for block in ids[:run]:
            del cached[block]  # held now
        for held, block in enumerate(ids[run:], start=run):
            if block in cached:  # behind a gap: its content is computed again, in its old place
                del cached[block]
            elif capacity is not None and len(cached) + held == capacity:
                cached.popitem(last=False)
                evictions += 1
        for block in reversed(ids):
            cached[block] = True
        lookups += len(ids)
        hits += run
        prompt_tokens += request["input_length"]
        hit_tokens += min(run * request.get("block_size", TOKENS_PER_BLOCK), request["input_length"])
    return {
        "requests": len(requests),
        "lookup_pages": lookups,
        "hit_pages": hits,
        "evicted_pages": evictions,
        "hit_tokens": hit_tokens,
        "prompt_tokens": prompt_tokens,
    }


def read(path, limit=None):
    with open(path, encoding="utf-8") as lines:
        requests = [json.loads(line) for line in lines if line.strip()]
    return requests[:limit]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Counts of an LRU cache of trace blocks")
    parser.add_argument("trace")
    parser.add_argument("--capacity", type=int, help="blocks; default: infinite")
    parser.add_argument("--limit", type=int)
    arguments = parser.parse_args()
    print(json.dumps(replay(read(arguments.trace, arguments.limit), arguments.capacity), indent=2))
