# SPDX-License-Identifier: Apache-2.0
"""What a pool tells of its index, as the KV cache events of vLLM and SGLang that routers read.

python pool_events.py

An engine packs the batches (msgspec, msgpack) and publishes them (ZeroMQ); here a router that is in
the same process counts which blocks it may send prompts to.
"""

import time
from collections import Counter

import folio_kv


class KVEvents:
    """Gathers the events of a pool: give it to PagePool as on_event.

    A pool may store one name under two contents (docs/pool_events.md), of which their events know
    nothing: a name is told of when its first content is stored and when its last one is removed.
    """

    def __init__(self, lora_names=None, medium="CPU", data_parallel_rank=0):
        self.lora_names = lora_names or {}  # adapter -> name
        self.medium, self.data_parallel_rank = medium, data_parallel_rank
        self.contents = Counter()  # of each name
        self.events, self.number = [], 0

    def __call__(self, event, tokens):
        self.number = event.number
        if event.kind == "cleared":
            self.contents.clear()
            self.events.append({"type": "AllBlocksCleared"})
        elif event.name is None:
            pass  # the name function failed: nobody can ask for it
        elif event.kind == "stored":
            self.contents[event.name] += 1
            if self.contents[event.name] == 1:
                self.events.append(self.stored(event, tokens))
        else:
            self.contents[event.name] -= 1
            if self.contents[event.name] == 0:
                del self.contents[event.name]
                self.events.append(self.removed(event))

    def stored(self, event, tokens):
        return {
            "type": "BlockStored",
            "block_hashes": [event.name],
            "parent_block_hash": event.parent_name,
            "token_ids": tokens,
            "block_size": event.num_tokens,
            "lora_id": event.adapter or None,
            "medium": self.medium,
            "lora_name": self.lora_names.get(event.adapter),
            "extra_keys": None,  # names stand for salts and items; an engine that has them adds them
            "group_idx": event.group,
            "kv_cache_spec_kind": "full_attention",
        }

    def removed(self, event):
        return {
            "type": "BlockRemoved",
            "block_hashes": [event.name],
            "medium": self.medium,
            "group_idx": event.group,
        }

    def take_batch(self):
        """Once a step, behind the pool's calls: (sequence number, KVEventBatch)."""
        batch = {
            "ts": time.time(),
            "events": self.events,
            "data_parallel_rank": self.data_parallel_rank,
        }
        self.events = []
        return self.number, batch


class Router:
    """Knows, by names alone, how much of a prompt an engine has."""

    def __init__(self, names, page_size):
        self.names, self.page_size, self.blocks = names, page_size, set()

    def hear(self, batch):
        for event in batch["events"]:
            if event["type"] == "BlockStored":
                self.blocks.update(event["block_hashes"])
            elif event["type"] == "BlockRemoved":
                self.blocks.difference_update(event["block_hashes"])
            else:
                self.blocks.clear()

    def cached_tokens(self, prompt):
        chain = self.names.chain(prompt, self.page_size)
        known = next((i for i, name in enumerate(chain) if name not in self.blocks), len(chain))
        return known * self.page_size


def main():
    names = folio_kv.Sha256Names(fingerprint=bytes(32))  # of model, geometry, element type, rank
    told = KVEvents(lora_names={7: "a lora"})
    pool = folio_kv.PagePool(num_pages=5, page_size=4, name=names, on_event=told)
    router = Router(names, page_size=4)

    def serve(prompt, adapter=0):
        admitted = pool.admit(prompt, adapter=adapter)
        new = prompt[admitted.cached_tokens :]
        pool.reserve(admitted.id, len(new))
        pool.commit(admitted.id, new)
        pool.release(admitted.id)
        number, batch = told.take_batch()
        router.hear(batch)
        for event in batch["events"]:
            block = event["block_hashes"][0].hex()[:8]
            print(f"{event['type']:12} {block} {event.get('token_ids', '')}")
        return number

    first, second = list(range(12)), list(range(20, 29))
    serve(first)
    assert router.cached_tokens(first) == 12 and router.cached_tokens([*first[:8], 99]) == 8
    last = serve(second, adapter=7)  # evicts the end of the first prompt
    assert router.cached_tokens(first) == 8 == pool.peek([*first, 0])
    assert router.cached_tokens(second) == 0, "names of an adapter are no others'"
    assert last == 6, "five contents were stored, and of the first three one was removed"
    pool.clear()
    router.hear(told.take_batch()[1])
    assert not router.blocks and not told.contents
    print(f"{last} events, and one that says that the pool is empty")


if __name__ == "__main__":
    main()
