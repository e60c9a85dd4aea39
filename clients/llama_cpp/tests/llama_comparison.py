# SPDX-License-Identifier: Apache-2.0
"""folio beside stock llama.cpp: logits of a scenario, and how far each is from exact attention.

What is compared, for a type of cache:

    oracle   stock, `-fa off`, the cache f32, each row rounded to the type as it enters (run/watch.h)
    plain    stock, `-fa off`, a cache of the type; llama.cpp has none for quantised values
    flash    stock, `-fa on`
    folio    folio's device, `-fa auto`

The distance of a path is that of its logits from the oracle's: the largest, and the mean. All four
round the same rows, so that distances are those of the arithmetic, and those small ones are what
the next layer's rounding makes of them.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
from typing import Any

import numpy as np

import llama_models as models
import llama_scenarios as scenarios
from llama_runner import Runner

# The others run with one: two that share a processor with other programs wait at each node.
WITH_TWO_THREADS = {"prompt-17", "sequences-unified"}
COUNTERS = re.compile(r"^ggml-folio: nodes (\d+) refused (\d+)", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Distance:
    largest: float
    mean: float

    @classmethod
    def between(cls, logits: np.ndarray, oracle: np.ndarray) -> Distance:
        assert logits.shape == oracle.shape and np.isfinite(logits).all()
        difference = np.abs(logits.astype(np.float64) - oracle)
        return cls(float(difference.max()), float(difference.mean()))

    def worse(self, other: Distance) -> Distance:
        return Distance(max(self.largest, other.largest), max(self.mean, other.mean))

    def is_within(self, bound: Distance, slack: Distance) -> bool:
        return (
            self.largest <= bound.largest * slack.largest and self.mean <= bound.mean * slack.mean
        )


def is_quantised(cache: str) -> bool:
    return cache.startswith(("q", "iq"))


def turns(name: str) -> dict[str, int]:
    """Sizes of the matrices by which llama.cpp turns quantised keys and values: the largest power
    of two that divides a head's keys, 64 for values, none for latent attention's one cache."""
    head = models.MODELS[name].head
    if models.MODELS[name].arch == "deepseek2" or head % 64:
        return {}
    return {"turn_keys": head & -head, "turn_values": 64}


class Pair:
    """A model in two processes: stock llama.cpp, and llama.cpp with folio's device."""

    def __init__(self, program: pathlib.Path, model: pathlib.Path, device: pathlib.Path) -> None:
        self.name = model.stem
        self.stock = Runner(program, model)
        self.folio = Runner(program, model, device)
        self.flash_nodes = 0  # that folio's process computed so far

    def close(self) -> None:
        self.stock.close()
        self.folio.close()

    def paths(self, scenario: str, cache: str) -> tuple[np.ndarray, Distance, np.ndarray]:
        """The oracle's logits, the distance of the worse of stock's paths, folio's logits."""
        oracle = self.oracle(scenario, cache)
        worst = Distance.between(self.run_stock(scenario, cache, "on"), oracle)
        if not is_quantised(cache):
            plain = self.run_stock(scenario, cache, "off")
            worst = worst.worse(Distance.between(plain, oracle))
        return oracle, worst, self.run_folio(scenario, cache)

    def oracle(self, scenario: str, cache: str) -> np.ndarray:
        options: dict[str, Any] = {"rounding": cache}
        options |= turns(self.name) if is_quantised(cache) else {}
        logits, counts = self._run(self.stock, scenario, "f32", "off", options)
        assert counts["rounded"] > 0 and counts["flash"] == 0
        return logits

    def run_stock(self, scenario: str, cache: str, attention: str) -> np.ndarray:
        logits, counts = self._run(self.stock, scenario, cache, attention)
        assert (counts["flash"] > 0) == (attention == "on")
        assert (counts["plain"] > 0) == (attention == "off")
        return logits

    def run_folio(self, scenario: str, cache: str, hidden: int = 0) -> np.ndarray:
        """folio's logits. Flash attention has to stay on under `auto`, and folio's device has to
        serve every node of it: both are counted."""
        logits, counts = self._run(self.folio, scenario, cache, "auto", hidden=hidden)
        assert counts["flash"] > 0 and counts["plain"] == 0, f"attention is off: {counts}"
        self.folio("close")  # the device reports its counters
        self.flash_nodes += counts["flash"]
        reports = COUNTERS.findall(self.folio.errors())
        assert reports, f"the device reports no node: {self.folio.errors()[-1000:]}"
        assert reports[-1] == (str(self.flash_nodes), "0"), f"not all nodes served: {reports[-1]}"
        return logits

    def _run(
        self,
        runner: Runner,
        scenario: str,
        cache: str,
        attention: str,
        more: dict[str, Any] | None = None,
        hidden: int = 0,
    ) -> tuple[np.ndarray, dict[str, Any]]:
        options, commands = scenarios.make(scenario, hidden)
        threads = 2 if scenario in WITH_TWO_THREADS else 1
        options |= {"keys": cache, "values": cache, "attention": attention, "threads": threads}
        runner("open", **options, **(more or {}))
        for command in commands:
            runner(command["do"], **{k: v for k, v in command.items() if k != "do"})
        return runner.logits()
