#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# findings/dynamo_evicted_parent.sh: Dynamo's index of blocks forgets a worker's later blocks for good once it has lost an earlier one.
# A worker that evicts the first block and keeps the second (windows do) computes the first anew and has both; the router counts one.
. "$(dirname "$0")/support.sh"
need ai-dynamo-runtime==1.6.1
expect "both stored: 2 blocks; first removed: 0; first stored again: 2"
see "both stored: 2 blocks; first removed: 0; first stored again: 1" <<'PYTHON'
import json

from dynamo._core import RadixTree, compute_block_hash_for_seq

BLOCK = 4
FIRST, SECOND = 101, 102
tokens = list(range(2 * BLOCK))
contents = compute_block_hash_for_seq(tokens, BLOCK)
tree = RadixTree()


def event(number, data):
    tree.apply_event(1, json.dumps({"event_id": number, "data": data, "dp_rank": 0}).encode())


def stored(*blocks):
    return {"stored": {"parent_hash": None, "blocks": [{"block_hash": name, "tokens_hash": content} for name, content in blocks]}}


def found():
    return sum(tree.find_matches(contents).scores.values())


event(0, stored((FIRST, contents[0]), (SECOND, contents[1])))
both = found()
event(1, {"removed": {"block_hashes": [FIRST]}})
without = found()
event(2, stored((FIRST, contents[0])))
print(f"both stored: {both} blocks; first removed: {without}; first stored again: {found()}")
PYTHON
