#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The transport by UCX beside ucx_perftest: TCP over loopback, the same block sizes, in turns.

usage: ucx.py FOLIO [--rounds N] [--sizes KIB ...] [--total-mib N] [--device NAME]

FOLIO is the tool (build/release/cli/folio). ucx_perftest is in Debian's ucx-utils. It moves one buffer over and over (active messages, test
ucp_am_bw), with endpoints that tell of a peer's death, as folio's are (-e), and without; folio moves --total-mib of blocks in scattered
order in each transfer. Prints a table in Markdown: medians of the rounds in GB/s, and folio's share of either, with the least and the
greatest of a round.
"""
import argparse
import os
import re
import socket
import statistics
import subprocess
import time


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def perftest(size: int, count: int, handles_errors: bool) -> float:
    """GB/s."""
    port = free_port()
    common = ["-p", str(port), "-t", "ucp_am_bw", "-s", str(size), "-n", str(count), "-w", "200", "-f", *(["-e"] if handles_errors else [])]
    server = subprocess.Popen(["ucx_perftest", *common], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(0.4)  # it does not say when it listens
        text = subprocess.run(["ucx_perftest", "127.0.0.1", *common], capture_output=True, text=True, check=True, timeout=60).stdout
    finally:
        server.kill()
        server.wait()
    # iterations; overhead: 50 %, average, overall; MiB/s: average, overall; messages a second: the same
    return float(text.split()[-3]) * (1 << 20) / 1e9


def folio(tool: str, size: int, pages: int, rounds: int) -> dict[str, float]:
    command = [tool, "transfer-bench", "--transport", "ucx", f"--page-bytes={size}", f"--pages={pages}", f"--rounds={rounds}"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {name: float(rate) for name, rate in re.findall(r"^(write|read) .*: +([0-9.]+) GB/s", text, re.MULTILINE)}


def shares(ours: list[float], theirs: list[float]) -> str:
    ratios = [100 * o / t for o, t in zip(ours, theirs)]
    return f"{statistics.median(ratios):.0f} % ({min(ratios):.0f} – {max(ratios):.0f})"


def measure(options: argparse.Namespace, kib: int) -> str:
    size = kib * 1024
    total = options.total_mib << 20
    moved = 1 << 30
    rates: dict[str, list[float]] = {"plain": [], "told": [], "write": [], "read": []}
    for _ in range(options.rounds):
        rates["plain"].append(perftest(size, moved // size, handles_errors=False))
        rates["told"].append(perftest(size, moved // size, handles_errors=True))
        for name, rate in folio(options.folio, size, total // size, moved // total).items():
            rates[name].append(rate)
    median = {name: f"{statistics.median(values):.2f}" for name, values in rates.items()}
    cells = [f"{kib} KiB", median["plain"], median["told"]]
    for name in ("write", "read"):
        cells += [median[name], shares(rates[name], rates["plain"]), shares(rates[name], rates["told"])]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folio")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 256, 1024])
    parser.add_argument("--total-mib", type=int, default=16)
    parser.add_argument("--device", default="lo")
    options = parser.parse_args()
    os.environ |= {"UCX_TLS": "tcp", "UCX_NET_DEVICES": options.device}
    print("| block | ucx_perftest | with -e | write | of it | of -e | read | of it | of -e |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for kib in options.sizes:
        print(measure(options, kib), flush=True)


if __name__ == "__main__":
    main()
