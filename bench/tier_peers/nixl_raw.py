#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/tier_peers/nixl_raw.py: pages from one process to another by NIXL alone, in the orders of `folio transfer-bench`.

usage: bench/tier_peers/nixl_raw.py LIBRARY [--page-bytes N] [--pages N] [--rounds N] [--transports NAME]

LIBRARY is libnixl_capi.so. All requests are made before the clock runs: what is measured is post and wait of one request a round, with
no checks, no messages and nobody who asks first. A line for writes and one for reads.
"""
import argparse
import ctypes
import math
import os
import signal
import time

OPERATIONS = {"write": 1, "read": 0}


def page_at(i, turn, pages):
    step = pages // 2 + 1
    while math.gcd(step, pages) != 1:
        step += 1
    return (i * step + turn) % pages


class Agent:
    def __init__(self, options, name):
        self.nixl = ctypes.CDLL(options.library)
        self.agent = ctypes.c_void_p()
        self.call("create_configured_agent", name, bytes(64), ctypes.byref(self.agent))
        memories, parameters, self.backend = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        self.call("get_plugin_params", self.agent, b"UCX", ctypes.byref(memories), ctypes.byref(parameters))
        self.call("params_add", parameters, b"engine_config", f"TLS={options.transports}".encode())
        self.call("create_backend", self.agent, b"UCX", parameters, ctypes.byref(self.backend))
        self.bytes = options.pages * options.page_bytes
        self.memory = ctypes.create_string_buffer(self.bytes)
        ctypes.memset(self.memory, 1, self.bytes)
        self.first = ctypes.addressof(self.memory)
        regions = ctypes.c_void_p()
        self.call("create_reg_dlist", 0, ctypes.byref(regions), False)
        self.call("reg_dlist_add_desc", regions, ctypes.c_uint64(self.first), ctypes.c_size_t(self.bytes), ctypes.c_uint64(0), None,
                  ctypes.c_size_t(0))
        self.call("register_mem", self.agent, regions, None)
        self.notes = ctypes.c_void_p()
        self.call("create_notif_map", ctypes.byref(self.notes))

    def call(self, name, *arguments):
        code = getattr(self.nixl, f"nixl_capi_{name}")(*arguments)
        if code < 0:
            raise SystemExit(f"nixl_raw.py: {name}: error {code}")
        return code

    def about(self):
        data, size = ctypes.c_void_p(), ctypes.c_size_t()
        self.call("get_local_md", self.agent, ctypes.byref(data), ctypes.byref(size))
        return ctypes.string_at(data, size.value)

    def learn(self, about):
        name = ctypes.c_char_p()
        self.call("load_remote_md", self.agent, about, ctypes.c_size_t(len(about)), ctypes.byref(name))

    def runs(self, first, places, page_bytes):
        runs = ctypes.c_void_p()
        self.call("create_xfer_dlist", 0, ctypes.byref(runs), False)
        for place in places:
            self.call("xfer_dlist_add_desc", runs, ctypes.c_uint64(first + place * page_bytes), ctypes.c_size_t(page_bytes),
                      ctypes.c_uint64(0))
        return runs

    def request(self, operation, turn, there, options):
        own = self.runs(self.first, range(options.pages), options.page_bytes)
        other = self.runs(there, [page_at(i, turn, options.pages) for i in range(options.pages)], options.page_bytes)
        request = ctypes.c_void_p()
        self.call("create_xfer_req", self.agent, OPERATIONS[operation], own, other, b"served", ctypes.byref(request), None)
        return request

    def run(self, request):
        code = self.call("post_xfer_req", self.agent, request, None)
        while code == 1:
            code = self.call("get_xfer_status", self.agent, request)

    def move_on(self):
        self.call("get_notifs", self.agent, self.notes, None)


def send(out, data):
    os.write(out, len(data).to_bytes(8, "little") + data)


def receive(source):
    size = int.from_bytes(os.read(source, 8), "little")
    data = b""
    while len(data) < size:
        data += os.read(source, size - len(data))
    return data


def serve(options, out, source):
    agent = Agent(options, b"served")
    send(out, agent.about() + agent.first.to_bytes(8, "little"))
    agent.learn(receive(source))
    send(out, b"ready")
    while True:
        agent.move_on()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--page-bytes", type=int, default=65536)
    parser.add_argument("--pages", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--transports", default="tcp")
    options = parser.parse_args()
    if not os.path.isdir("/sys/class/infiniband"):
        os.environ.setdefault("UCX_MODULES", "^ib")
    (source, out), (its_source, its_out) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        serve(options, out, its_source)
    try:
        agent = Agent(options, b"asking")
        about = receive(source)
        agent.learn(about[:-8])
        send(its_out, agent.about())
        receive(source)
        there = int.from_bytes(about[-8:], "little")
        for operation in OPERATIONS:
            agent.run(agent.request(operation, 0, there, options))
            requests = [agent.request(operation, turn, there, options) for turn in range(options.rounds)]
            begun = time.perf_counter()
            for request in requests:
                agent.run(request)
            seconds = time.perf_counter() - begun
            print(f"{operation:6} {options.pages:8} pages of {options.page_bytes:9} bytes, {options.rounds} requests: "
                  f"{agent.bytes * options.rounds / seconds * 1e-9:7.3f} GB/s", flush=True)
    finally:
        os.kill(child, signal.SIGKILL)
    os._exit(0)


main()
