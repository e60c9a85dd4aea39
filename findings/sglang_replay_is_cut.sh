#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# findings/sglang_replay_is_cut.sh: SGLang's event publisher keeps 10,000 batches for who has missed some, and loses some as it sends them.
# `hwm` (100,000) is for the live socket alone; that of answers has ZeroMQ's 1,000 and drops what is more, the message that ends the answer
# included. A reader that is a moment late sees a stream with an end cut off, and nothing says so.
. "$(dirname "$0")/support.sh"
need sglang==0.5.23 msgspec==0.22.0 pyzmq==27.3.0 pydantic==2.14.3 pydantic_core==2.50.4 annotated-types==0.8.0 typing-inspection==0.4.5 \
  typing_extensions==4.16.0 psutil==7.2.2
skip_init sglang
skip_init sglang/srt/utils
expect "10000 batches kept, read a second late: all of them, then the end"
see "10000 batches kept, read a second late: a part of them, no end" <<'PYTHON'
import time

import zmq
from sglang.srt.disaggregation.kv_events import BlockStored, KVEventBatch, ZmqEventPublisher

KEPT, PAGES, PAGE, SILENCE_MS = 10_000, 64, 16, 2000
publisher = ZmqEventPublisher(0, endpoint="tcp://127.0.0.1:*", replay_endpoint="tcp://127.0.0.1:*", buffer_steps=KEPT)
# a prompt of 1,024 tokens: 4 KB
stored = BlockStored(
    block_hashes=[(1 << 62) + page for page in range(PAGES)], parent_block_hash=None, token_ids=[100_000] * PAGES * PAGE, block_size=PAGE,
    lora_id=None,
)
for _ in range(KEPT):
    publisher.publish(KVEventBatch(ts=0.0, events=[stored]))
publisher._event_queue.join()

count, ended = 0, False
with zmq.Context.instance().socket(zmq.DEALER) as socket:
    socket.connect(publisher.describe_local_source(PAGE)["replay_endpoint"])
    socket.send_multipart([b"", (0).to_bytes(8, "big")])
    time.sleep(1)
    while not ended and socket.poll(SILENCE_MS):
        *_, payload = socket.recv_multipart()
        ended = not payload
        count += not ended
share = "all of them" if count == KEPT else "a part of them"
print(f"{KEPT} batches kept, read a second late: {share}, {'then the end' if ended else 'no end'}")
publisher.shutdown()
PYTHON
