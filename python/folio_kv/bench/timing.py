# SPDX-License-Identifier: Apache-2.0
"""Fair times: contestants take turns, so that what disturbs the machine disturbs them all."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable

_SHORTEST = 2e-3  # seconds that one reading should last at least


@dataclasses.dataclass
class Row:
    """One case: what each contestant took, or gave."""

    group: str
    name: str
    unit: str  # "us": less is better; "tokens/s": more is better
    values: dict[str, float | None]  # None: refused; the reason stands in notes
    notes: dict[str, str] = dataclasses.field(default_factory=dict)

    def ratios(self) -> dict[str, float]:
        """How many times faster folio is than each other contestant; below 1 it is slower."""
        mine = self.values.get("folio")
        if mine is None:
            return {}
        others = {n: v for n, v in self.values.items() if n != "folio" and v is not None}
        if self.unit == "us":
            return {name: value / mine for name, value in others.items()}
        return {name: mine / value for name, value in others.items()}

    def as_json(self) -> dict[str, object]:
        return {**dataclasses.asdict(self), "ratios": self.ratios()}

    def line(self) -> str:
        """For the terminal."""
        values = ", ".join(
            f"{name} {value:.4g}" if value is not None else f"{name} – ({self.notes.get(name)})"
            for name, value in self.values.items()
        )
        ratios = ", ".join(f"{ratio:.2f} x {name}" for name, ratio in self.ratios().items())
        return f"{self.group}: {self.name} [{self.unit}]: {values}" + (f"; {ratios}" * bool(ratios))


def medians(
    contestants: dict[str, Callable[[], object]], seconds: float, least_rounds: int = 3
) -> dict[str, float]:
    """Median seconds of a call of each, over about `seconds` for all of them together."""
    repeats = {name: _repeats(call) for name, call in contestants.items()}
    readings: dict[str, list[float]] = {name: [] for name in contestants}
    order = list(contestants)
    end = time.perf_counter() + seconds
    rounds = 0
    while rounds < least_rounds or time.perf_counter() < end:
        for name in order:
            call, count = contestants[name], repeats[name]
            begin = time.perf_counter()
            for _ in range(count):
                call()
            readings[name].append((time.perf_counter() - begin) / count)
        order = order[1:] + order[:1]
        rounds += 1
    return {name: statistics.median(values) for name, values in readings.items()}


def _repeats(call: Callable[[], object]) -> int:
    """Calls per reading; the two calls made here warm up."""
    call()
    begin = time.perf_counter()
    call()
    return max(1, round(_SHORTEST / max(time.perf_counter() - begin, 1e-7)))
