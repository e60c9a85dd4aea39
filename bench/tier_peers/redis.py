#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A tier in Redis beside redis-benchmark: the same server, sizes, connections and depth, in turns.

usage: redis.py BENCH [--rounds N] [--total-mib N] [--connections N ...] [--depth N] [--sizes KIB ...] [--tcp]

BENCH is redis_tier_bench. The server is started here, on a Unix socket or a loopback port, without persistence. redis-benchmark sets and
gets random ones of as many keys as the tier has pages, 20 times as often as there are keys before the first get, so that each is there.
Prints a table in Markdown: the median of the rounds, GB/s of values, and the tier's share of redis-benchmark's.
"""
import argparse
import json
import pathlib
import socket
import statistics
import subprocess
import tempfile
import time


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """redis-server, gone with the block."""

    def __init__(self, folder: str, tcp: bool):
        self.port = free_port() if tcp else 0
        self.path = str(pathlib.Path(folder) / "socket")
        where = ["--port", str(self.port)] + ([] if tcp else ["--unixsocket", self.path])
        self.process = subprocess.Popen(
            ["redis-server", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder, *where],
            stdout=subprocess.DEVNULL,
        )
        self.address = ["-p", str(self.port)] if tcp else ["-s", self.path]
        self.url = f"redis://127.0.0.1:{self.port}" if tcp else f"unix://{self.path}"

    def __enter__(self) -> "Server":
        while self.cli("PING") != "PONG":
            time.sleep(0.02)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def cli(self, *words: str) -> str:
        return subprocess.run(["redis-cli", *self.address, *words], capture_output=True, text=True).stdout.strip()


def redis_benchmark(server: Server, test: str, size: int, keys: int, count: int, connections: int, depth: int) -> float:
    """GB/s of values."""
    command = ["redis-benchmark", *server.address, "-t", test, "-d", str(size), "-r", str(keys), "-n", str(count)]
    command += ["-c", str(connections), "-P", str(depth), "--threads", str(connections), "--csv"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    rate = next(float(line.split(",")[1].strip('"')) for line in lines if line.startswith(f'"{test.upper()}"'))
    return rate * size / 1e9


def tier(bench: str, server: Server, size: int, pages: int, rounds: int, connections: int, depth: int) -> list[dict[str, float]]:
    command = [bench, server.url, f"--page-bytes={size}", f"--pages={pages}", f"--threads={connections}"]
    command += [f"--depth={depth}", f"--rounds={rounds}"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return [json.loads(line) for line in lines]


def measure(options: argparse.Namespace, kib: int, connections: int) -> str:
    size = kib * 1024
    keys = max(options.total_mib * 1024 // kib, connections * options.depth)
    ours: list[dict[str, float]] = []
    theirs: dict[str, list[float]] = {"set": [], "get": []}
    with tempfile.TemporaryDirectory() as folder, Server(folder, options.tcp) as server:
        redis_benchmark(server, "set", size, keys, 20 * keys, connections, options.depth)
        tier(options.bench, server, size, keys, 1, connections, options.depth)
        for _ in range(options.rounds):
            for test in ("set", "get"):
                theirs[test].append(redis_benchmark(server, test, size, keys, 8 * keys, connections, options.depth))
            ours += tier(options.bench, server, size, keys, 4, connections, options.depth)
    cells = []
    for name, test in (("store_gb_s", "set"), ("load_gb_s", "get")):
        mine, other = statistics.median(o[name] for o in ours), statistics.median(theirs[test])
        cells += [f"{other:.2f}", f"{mine:.2f}", f"{100 * mine / other:.0f} %"]
    return f"| {kib} KiB | {connections} | " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--total-mib", type=int, default=64)
    parser.add_argument("--connections", type=int, nargs="+", default=[1])
    parser.add_argument("--depth", type=int, default=16)
    parser.add_argument("--sizes", type=int, nargs="+", default=[16, 64, 256, 1024])
    parser.add_argument("--tcp", action="store_true")
    options = parser.parse_args()
    print("| value | connections | SET | store | share | GET | load | share |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for connections in options.connections:
        for kib in options.sizes:
            print(measure(options, kib, connections), flush=True)


if __name__ == "__main__":
    main()
