#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A tier in Redis beside redis-benchmark: the same server, sizes, connections and depth, in turns.

usage: redis.py BENCH [--rounds N] [--total-mib N] [--connections N] [--depth N] [--sizes KIB ...] [--extents N ...] [--tcp]

BENCH is redis_tier_bench. The server is started here, on a Unix socket or a loopback port, without persistence. redis-benchmark sets and
gets random ones of as many keys as the tier has pages, all of which are there before the first get. It runs with --threads and without,
in each round; the better median is the peer. Prints a table in Markdown: the median of the rounds, GB/s of values, and the tier's share
of the peer's.
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


def redis_benchmark(
    server: Server, test: str, size: int, keys: int, count: int, connections: int, depth: int, threads: int = 0
) -> float:
    """GB/s of values."""
    command = ["redis-benchmark", *server.address, "-t", test, "-d", str(size), "-r", str(keys), "-n", str(count)]
    command += ["-c", str(connections), "-P", str(depth), "--csv"]
    if threads:
        command += ["--threads", str(threads)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    rate = next(float(line.split(",")[1].strip('"')) for line in lines if line.startswith(f'"{test.upper()}"'))
    return rate * size / 1e9


def tier(
    options: argparse.Namespace, server: Server, size: int, pages: int, rounds: int, extents: int
) -> list[dict[str, float]]:
    command = [options.bench, server.url, f"--page-bytes={size}", f"--pages={pages}", f"--threads={options.connections}"]
    command += [f"--depth={options.depth}", f"--rounds={rounds}", f"--extents={extents}"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return [json.loads(line) for line in lines]


def measure(options: argparse.Namespace, kib: int) -> None:
    size = kib * 1024
    keys = max(options.total_mib * 1024 // kib, options.connections * options.depth)
    ours: dict[int, list[dict[str, float]]] = {extents: [] for extents in options.extents}
    theirs: dict[tuple[str, int], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder, Server(folder, options.tcp) as server:
        redis_benchmark(server, "set", size, keys, 10 * keys, options.connections, options.depth)
        for _ in range(options.rounds):
            for test in ("set", "get"):
                for threads in (0, options.connections):
                    rate = redis_benchmark(server, test, size, keys, 4 * keys, options.connections, options.depth, threads)
                    theirs.setdefault((test, threads), []).append(rate)
            for extents in options.extents:
                ours[extents] += tier(options, server, size, keys, 3, extents)
    for extents in options.extents:
        cells = []
        for name, test in (("store_gb_s", "set"), ("load_gb_s", "get")):
            mine = statistics.median(o[name] for o in ours[extents])
            other = max(statistics.median(theirs[test, threads]) for threads in (0, options.connections))
            cells += [f"{other:.2f}", f"{mine:.2f}", f"{100 * mine / other:.0f} %"]
        print(f"| {kib} KiB | {extents} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--total-mib", type=int, default=64)
    parser.add_argument("--connections", type=int, default=1)
    parser.add_argument("--depth", type=int, default=16)
    parser.add_argument("--sizes", type=int, nargs="+", default=[16, 64, 256, 1024])
    parser.add_argument("--extents", type=int, nargs="+", default=[64, 1])
    parser.add_argument("--tcp", action="store_true")
    options = parser.parse_args()
    print("| value | extents | SET | store | share | GET | load | share |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for kib in options.sizes:
        measure(options, kib)


if __name__ == "__main__":
    main()
