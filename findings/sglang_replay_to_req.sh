#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# findings/sglang_replay_to_req.sh: SGLang's event publisher answers a REQ socket with many messages, of which ZeroMQ gives it the first.
# Its comments say that REQ clients may ask for what they have missed. After one batch the socket is not readable again, so a loop over the
# answer ends by its timeout, as if that were all, and what a router believes of the cache stays wrong. vLLM's is of the same make.
. "$(dirname "$0")/support.sh"
need sglang==0.5.23 msgspec==0.22.0 pyzmq==27.3.0 pydantic==2.14.3 pydantic_core==2.50.4 annotated-types==0.8.0 typing-inspection==0.4.5 \
  typing_extensions==4.16.0 psutil==7.2.2
skip_init sglang
skip_init sglang/srt/utils
expect "5 kept; a DEALER socket receives 5, a REQ socket 5"
see "5 kept; a DEALER socket receives 5, a REQ socket 1" <<'PYTHON'
import zmq
from sglang.srt.disaggregation.kv_events import AllBlocksCleared, KVEventBatch, ZmqEventPublisher

KEPT, SILENCE_MS = 5, 1000
publisher = ZmqEventPublisher(0, endpoint="tcp://127.0.0.1:*", replay_endpoint="tcp://127.0.0.1:*")
for _ in range(KEPT):
    publisher.publish(KVEventBatch(ts=0.0, events=[AllBlocksCleared()]))
publisher._event_queue.join()
endpoint = publisher.describe_local_source(16)["replay_endpoint"]


def received(kind, frames_in_front):
    with zmq.Context.instance().socket(kind) as socket:
        socket.connect(endpoint)
        socket.send_multipart([*frames_in_front, (0).to_bytes(8, "big")])
        count = 0
        while socket.poll(SILENCE_MS):
            *_, payload = socket.recv_multipart()
            if not payload:  # the end
                break
            count += 1
        return count


print(f"{KEPT} kept; a DEALER socket receives {received(zmq.DEALER, [b''])}, a REQ socket {received(zmq.REQ, [])}")
publisher.shutdown()
PYTHON
