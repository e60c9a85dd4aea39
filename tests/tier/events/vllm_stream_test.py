# SPDX-License-Identifier: Apache-2.0
"""tests/tier/events/vllm_stream_test.py PROGRAM: vLLM's own structs decode what folio publishes, and encode it byte for byte; folio's
index follows vLLM's own publisher.

Needs vLLM, msgspec and pyzmq: those of this Python, or of the environment `vllm` of tools/engines.py where that has been made. Exit
status 77 where there are none: ctest counts the test as skipped.
"""

import importlib.util
import os
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
NEEDED = ("vllm", "msgspec", "zmq")


def environment():
    """The Python of tools/engines.py's environment, or None."""
    spec = importlib.util.spec_from_file_location("engines", ROOT / "tools/engines.py")
    engines = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(engines)
    made = engines.Environment("vllm")
    return made.python if (made.folder / "complete").exists() else None


if not all(importlib.util.find_spec(name) for name in NEEDED):
    python = environment() if "FOLIO_EVENTS_AGAIN" not in os.environ else None
    if python is None:
        print("skipped: no vLLM here (tools/engines.py make vllm)")
        sys.exit(77)
    os.execve(python, [str(python), *sys.argv], {**os.environ, "FOLIO_EVENTS_AGAIN": "1"})

os.environ["VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES"] = "1"
import msgspec  # noqa: E402
import zmq  # noqa: E402
from vllm.distributed import kv_events  # noqa: E402

END = (-1).to_bytes(8, "big", signed=True)


class Publisher:
    """folio's, over a pool of 7 pages of 4 tokens."""

    def __init__(self, format, names):
        self.process = subprocess.Popen([PROGRAM, "publish", format, names], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.endpoint, self.replay_endpoint = (self.process.stdout.readline().strip() for _ in range(2))

    def work(self, line="work"):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def end(self):
        """The names that are stored."""
        self.process.stdin.close()
        names = {bytes.fromhex(line) for line in self.process.stdout.read().split()}
        self.process.stdout.close()
        assert self.process.wait() == 0
        return names


class Stream(unittest.TestCase):
    def setUp(self):
        self.context = zmq.Context()
        self.addCleanup(self.context.destroy, linger=0)

    def socket(self, kind, endpoint):
        socket = self.context.socket(kind)
        socket.setsockopt(zmq.RCVTIMEO, 600_000)
        socket.connect(endpoint)
        return socket

    def replay(self, endpoint, first=0):
        """[(number, payload)] as vLLM's subscribers ask for them."""
        socket = self.socket(zmq.DEALER, endpoint)
        socket.send_multipart([b"", first.to_bytes(8, "big")])
        batches = []
        while True:
            nothing, topic, number, payload = socket.recv_multipart()
            self.assertEqual(nothing, b"")
            if number == END:
                self.assertEqual(payload, b"")
                return batches
            self.assertEqual(topic, b"kv@pod@model")
            batches.append((int.from_bytes(number, "big"), payload))

    def test_vllms_decoder_and_encoder_agree_with_the_bytes(self):
        decoder, encoder = msgspec.msgpack.Decoder(kv_events.KVEventBatch), msgspec.msgpack.Encoder()
        for names in ("integers", "bytes"):
            publisher = Publisher("maps", names)
            for line in ("work", "tier", "work", "work", "work"):
                publisher.work(line)
            there, kinds = {}, []
            for _, payload in self.replay(publisher.replay_endpoint):
                batch = decoder.decode(payload)
                self.assertEqual(encoder.encode(batch), payload)
                self.assertEqual(batch.data_parallel_rank, 2)
                for event in batch.events:
                    kinds.append(type(event).__name__)
                    if isinstance(event, kv_events.BlockStored):
                        (block,) = event.block_hashes
                        self.assertEqual(event.block_size, len(event.token_ids))
                        self.assertEqual(event.group_idx, 0)
                        if event.medium == kv_events.MEDIUM_GPU:
                            there[block] = event
                        else:
                            self.assertEqual((event.medium, event.token_ids), (kv_events.MEDIUM_CPU, [0, 1, 2, 3]))
                    elif isinstance(event, kv_events.BlockRemoved):
                        self.assertEqual(event.medium, kv_events.MEDIUM_GPU)
                        for block in event.block_hashes:
                            del there[block]
            self.assertEqual(set(kinds), {"BlockStored", "BlockRemoved"})
            for event in there.values():
                if event.parent_block_hash is not None:
                    self.assertIn(event.parent_block_hash, there)
                self.assertEqual(event.lora_id, 7 if 200 <= event.token_ids[0] < 300 else None)
            stored = publisher.end()
            self.assertEqual(set(there), stored if names == "bytes" else {int.from_bytes(n[-8:], "big") for n in stored})

    def test_a_subscriber_hears_frames_and_a_clear(self):
        publisher = Publisher("maps", "integers")
        socket = self.socket(zmq.SUB, publisher.endpoint)
        socket.setsockopt_string(zmq.SUBSCRIBE, "kv@")
        poller = zmq.Poller()
        poller.register(socket, zmq.POLLIN)
        while not poller.poll(10):  # until the subscription has arrived
            publisher.work()
        publisher.work("clear")
        last = None
        while True:
            topic, number, payload = socket.recv_multipart()
            self.assertEqual(topic, b"kv@pod@model")
            number = int.from_bytes(number, "big")
            self.assertIn(last, (None, number - 1))
            last = number
            batch = msgspec.msgpack.decode(payload, type=kv_events.KVEventBatch)
            if isinstance(batch.events[-1], kv_events.AllBlocksCleared):
                break
        self.assertEqual(publisher.end(), set())

    def test_the_arrays_of_vllm_until_0_23_decode(self):
        """Its structs had the same fields, in this order."""

        class Event(msgspec.Struct, array_like=True, omit_defaults=True, tag=True):
            pass

        class BlockStored(Event):
            block_hashes: list[bytes | int]
            parent_block_hash: bytes | int | None
            token_ids: list[int]
            block_size: int
            lora_id: int | None
            medium: str | None
            lora_name: str | None
            extra_keys: list | None = None
            group_idx: int | None = None
            kv_cache_spec_kind: str | None = None

        class BlockRemoved(Event):
            block_hashes: list[bytes | int]
            medium: str | None
            group_idx: int | None = None

        class Batch(msgspec.Struct, array_like=True, omit_defaults=True):
            ts: float
            events: list[BlockStored | BlockRemoved]
            data_parallel_rank: int | None = None

        publisher = Publisher("arrays", "bytes")
        for _ in range(3):
            publisher.work()
        for _, payload in self.replay(publisher.replay_endpoint):
            self.assertEqual(msgspec.msgpack.encode(msgspec.msgpack.decode(payload, type=Batch)), payload)
        publisher.end()

    def test_the_index_follows_vllms_publisher(self):
        publisher = kv_events.ZmqEventPublisher(0, endpoint="tcp://127.0.0.1:*", replay_endpoint="tcp://127.0.0.1:*", topic="kv")
        self.addCleanup(publisher.shutdown)
        endpoints = [s.getsockopt_string(zmq.LAST_ENDPOINT) for s in (publisher._pub, publisher._replay)]

        def publish(*events):
            publisher.publish(kv_events.KVEventBatch(ts=1.0, events=list(events)))

        def stored(blocks, parent=None, medium=kv_events.MEDIUM_GPU):
            return kv_events.BlockStored(block_hashes=blocks, parent_block_hash=parent, token_ids=[1] * 4 * len(blocks), block_size=4,
                                         lora_id=None, medium=medium, lora_name=None, extra_keys=[None] * len(blocks), group_idx=0)

        publish(stored([bytes([9]) * 32]), kv_events.AllBlocksCleared())
        publish(stored([5, 6, 2**64 - 1]), stored([bytes(range(32))], parent=6, medium=kv_events.MEDIUM_CPU))
        publish(kv_events.BlockRemoved(block_hashes=[5], medium=kv_events.MEDIUM_GPU))
        follower = subprocess.run([PROGRAM, "follow", *endpoints, "3"], capture_output=True, text=True, timeout=600, check=True)
        *names, errors = follower.stdout.splitlines()
        self.assertEqual(sorted(names), sorted([bytes(range(32)).hex(), (6).to_bytes(32, "big").hex(), "0" * 48 + "f" * 16]))
        self.assertEqual(errors, "0 refused, 0 ignored, 0 malformed")


if __name__ == "__main__":
    PROGRAM = sys.argv[1]
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
