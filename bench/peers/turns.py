# SPDX-License-Identifier: Apache-2.0
"""Contenders in processes that stay alive and take turns, so that what disturbs one disturbs all."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import json
import os
import select
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

SETUP_SECONDS, TURN_SECONDS = 240.0, 60.0  # how long an answer may take
SLOW_SECONDS, SLOW_CALLS = 0.5, 3  # a call of so long needs no more calls than that
PAUSE_SECONDS = 0.01  # the last one's threads fall asleep


class Gone(Exception):
    """A worker has ended, or does not answer."""


class Worker:
    """A process that answers a line of JSON with another; started again once it has ended."""

    def __init__(self, name: str, command: Sequence[str], environment: dict[str, str]) -> None:
        self.name = name
        self._command, self._environment = list(command), environment
        self._process: subprocess.Popen | None = None
        self._cpu_seconds_before = 0.0

    def ask(self, message: dict, seconds: float) -> dict:
        if self._process is None:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self._environment
            )
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
            return json.loads(self._line(seconds))
        except (BrokenPipeError, json.JSONDecodeError):
            return self._fail()

    def stop(self) -> None:
        if self._process is None:
            return
        self._cpu_seconds_before = self.cpu_seconds()
        self._process.kill()
        self._process.wait()
        for pipe in self._process.stdin, self._process.stdout:
            with contextlib.suppress(BrokenPipeError):  # what it was asked last, and will not read
                pipe.close()
        self._process = None

    def cpu_seconds(self) -> float:
        """Of its processes so far."""
        now = 0.0 if self._process is None else process_seconds(self._process.pid)
        return self._cpu_seconds_before + now

    def _line(self, seconds: float) -> bytes:
        """One answer. Nothing else is on its way, so that a buffer of ours cannot hide part of it."""
        end, line = time.monotonic() + seconds, b""
        while not line.endswith(b"\n"):
            ready, _, _ = select.select(
                [self._process.stdout], [], [], max(0.0, end - time.monotonic())
            )
            if not ready:
                self._fail(f"no answer within {seconds:.0f} s")
            part = os.read(self._process.stdout.fileno(), 1 << 20)
            if not part:
                self._fail()
            line += part
        return line

    def _fail(self, reason: str = "") -> dict:
        if not reason:
            status = self._process.wait()
            reason = (
                f"ended by {signal.Signals(-status).name}"
                if status < 0
                else f"ended, status {status}"
            )
        self.stop()
        raise Gone(reason)


class Neighbours:
    """Processes that compute without pause while they are wanted, as strangers on a shared machine."""

    def __init__(self, most: int) -> None:
        command = [sys.executable, "-c", "while True: pass"]
        self._processes = [
            subprocess.Popen(command, preexec_fn=die_with_parent) for _ in range(most)
        ]
        self.wake(0)

    def wake(self, count: int) -> None:
        """The first `count` run on, the others stand still."""
        for i, process in enumerate(self._processes):
            process.send_signal(signal.SIGCONT if i < count else signal.SIGSTOP)

    def stop(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
        self._processes = []

    def cpu_seconds(self) -> float:
        """Of those that there are now."""
        return sum(process_seconds(process.pid) for process in self._processes)


def die_with_parent() -> None:
    """For a child that may stand still when its parent is killed."""
    set_death_signal = 1  # PR_SET_PDEATHSIG
    ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)


@dataclasses.dataclass
class Result:
    """What one contender did in one shape."""

    answer: dict = dataclasses.field(default_factory=dict)  # to the setup
    refused: str = ""
    rounds: list[list[float]] = dataclasses.field(
        default_factory=list
    )  # seconds, or rates of a roof
    beside: dict[int, list[float]] = dataclasses.field(
        default_factory=dict
    )  # seconds of calls beside so many neighbours

    @property
    def calls(self) -> list[float]:
        return [call for calls in self.rounds for call in calls]

    def best(self) -> float:
        """The best round's median."""
        return min(statistics.median(calls) for calls in self.rounds if calls)


def set_up(worker: Worker, message: dict) -> Result:
    try:
        answer = worker.ask(message, SETUP_SECONDS)
    except Gone as reason:
        return Result(refused=str(reason))
    return Result(answer, answer.get("refused", ""))


def take_turns(
    workers: Sequence[Worker],
    results: dict[str, Result],
    rounds: int,
    seconds: float,
    beside: tuple[Neighbours, Sequence[int]] | None = None,
) -> None:
    """`rounds` rounds over those that are set up, every other one in reverse.

    `beside`: neighbours, and how many of them each round is done again beside: by all but roofs."""
    for number in range(rounds):
        order = list(workers) if number % 2 == 0 else list(reversed(workers))
        for worker in order:
            answer = _turn(worker, results[worker.name], results[worker.name].calls, seconds)
            if answer:
                rates = answer.get("per_second")
                results[worker.name].rounds.append(answer["seconds"] if rates is None else rates)
        for count in beside[1] if beside else ():
            beside[0].wake(count)
            for worker in order:
                result = results[worker.name]
                if result.rounds and "how" not in result.answer:
                    calls = result.beside.setdefault(count, [])
                    calls += _turn(worker, result, calls, seconds).get("seconds", [])
            beside[0].wake(0)


def _turn(worker: Worker, result: Result, calls: Sequence[float], seconds: float) -> dict:
    """The answer; none of a worker that is gone, or so slow that its `calls` are enough."""
    if result.refused or (len(calls) >= SLOW_CALLS and SLOW_SECONDS < min(calls) < 1e6):
        return {}
    time.sleep(PAUSE_SECONDS)
    try:
        return worker.ask({"turn": seconds}, TURN_SECONDS)
    except Gone as reason:
        result.refused = str(reason)
        return {}


def process_seconds(pid: int) -> float:
    """Processor seconds that a process has used; 0 once it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def machine_seconds() -> float:
    """Processor seconds that all programs of the machine have used."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    user, nice, system, _, _, irq, soft_irq = fields[:7]
    return (user + nice + system + irq + soft_irq) / os.sysconf("SC_CLK_TCK")
