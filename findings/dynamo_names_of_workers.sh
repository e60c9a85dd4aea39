#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# findings/dynamo_names_of_workers.sh: Dynamo's index finds a parent only by the name that the first worker gave it.
# An event has two hashes of a block, the engine's own name and one of its tokens, so names look like each worker's own affair. A worker
# whose names differ (another seed, salt or version of the engine) is refused every block behind one that another worker has, too.
. "$(dirname "$0")/support.sh"
need ai-dynamo-runtime==1.6.1
expect "alone: 2 blocks; beside a worker of other names: 2"
see "alone: 2 blocks; beside a worker of other names: RuntimeError, 1" <<'PYTHON'
import json

from dynamo._core import RadixTree, compute_block_hash_for_seq

BLOCK = 4
contents = compute_block_hash_for_seq(list(range(2 * BLOCK)), BLOCK)


def store(tree, worker, number, parent, name, content):
    data = {"stored": {"parent_hash": parent, "blocks": [{"block_hash": name, "tokens_hash": content}]}}
    tree.apply_event(worker, json.dumps({"event_id": number, "data": data, "dp_rank": 0}).encode())


def found(tree, worker):
    return sum(score for (who, _rank), score in tree.find_matches(contents).scores.items() if who == worker)


def store_both(tree, worker, first, second):
    store(tree, worker, 0, None, first, contents[0])
    try:
        store(tree, worker, 1, first, second, contents[1])
    except RuntimeError as error:
        return f"{type(error).__name__}, {found(tree, worker)}"
    return f"{found(tree, worker)}"


alone = RadixTree()
before = store_both(alone, 2, 201, 202)
shared = RadixTree()
store_both(shared, 1, 101, 102)
print(f"alone: {before} blocks; beside a worker of other names: {store_both(shared, 2, 201, 202)}")
PYTHON
