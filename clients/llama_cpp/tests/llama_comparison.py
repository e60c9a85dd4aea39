# SPDX-License-Identifier: Apache-2.0
"""folio beside stock llama.cpp: logits of a scenario, and how far each is from exact attention.

What is compared, for a type of cache:

    oracle   stock, `-fa off`, the cache f32, each row rounded to the type as it enters (run/watch.h)
    plain    stock, `-fa off`, a cache of the type; llama.cpp has none for quantised values
    flash    stock, `-fa on`
    folio    folio's device, `-fa auto`

The distance of a path is that of its logits from the oracle's: the largest, and the mean. All four
round the same rows, so that distances are those of the arithmetic, and those small ones are what
the next layer's rounding makes of them: of a single scenario luck has its part in them, and less in
the mean over several.
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
from llama_scenarios import NONE, Change

# The others run with one: two that share a processor with other programs wait at each node.
WITH_TWO_THREADS = {"prompt-17", "sequences-unified"}
# A single scenario is a draw of few values. Where distances come from rounding that both do (bf16,
# q4_0), one scenario's mean was 0.7 to 1.13 of stock's over up to eight draws of its texts, with a
# standard deviation of 0.02 to 0.07, and its largest of some 10,000 differences 0.5 to 1.38.
MEAN_OF_ONE, LARGEST_OF_ONE = 1.25, 1.6
COUNTERS = re.compile(r"^ggml-folio: nodes (\d+) refused (\d+)", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Distance:
    """Of `count` logits from the oracle's."""

    largest: float
    mean: float
    count: int

    @classmethod
    def between(cls, logits: np.ndarray, oracle: np.ndarray) -> Distance:
        assert logits.shape == oracle.shape and np.isfinite(logits).all()
        difference = np.abs(logits.astype(np.float64) - oracle)
        return cls(float(difference.max()), float(difference.mean()), difference.size)

    @classmethod
    def of_all(cls, parts: list[Distance]) -> Distance:
        """That of several scenarios' logits together."""
        count = sum(part.count for part in parts)
        mean = sum(part.mean * part.count for part in parts) / count
        return cls(max(part.largest for part in parts), mean, count)

    def __str__(self) -> str:
        return f"{self.largest:.3g} ({self.mean:.3g})"


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The distances of folio and of stock's paths, two or one, from the same oracle."""

    folio: Distance
    stock: list[Distance]

    @classmethod
    def of_all(cls, parts: list[Comparison]) -> Comparison:
        paths = zip(*(part.stock for part in parts), strict=True)
        folio = Distance.of_all([part.folio for part in parts])
        return cls(folio, [Distance.of_all(list(path)) for path in paths])

    @property
    def largest(self) -> float:
        """folio's largest difference, of that of the worse of stock's paths."""
        return self.folio.largest / max(path.largest for path in self.stock)

    @property
    def mean(self) -> float:
        return self.folio.mean / max(path.mean for path in self.stock)

    def __str__(self) -> str:
        stock = ", ".join(str(path) for path in self.stock)
        return (
            f"{self.largest:.3f} ({self.mean:.3f}) of the worse: folio {self.folio}, stock {stock}"
        )


def types_of(cache: str) -> tuple[str, str]:
    """Those of keys and of values: "q8_0+q4_0", or one for both."""
    keys, _, values = cache.partition("+")
    return keys, values or keys


def is_quantised(dtype: str) -> bool:
    return dtype.startswith(("q", "iq"))


def turns(name: str, cache: str) -> dict[str, int]:
    """Sizes of the matrices by which llama.cpp turns quantised keys and values: the largest power
    of two that divides a head's keys, 64 for values, none for latent attention's one cache."""
    head = models.MODELS[name].head
    if models.MODELS[name].arch == "deepseek2" or head % 64:
        return {}
    keys, values = map(is_quantised, types_of(cache))
    return {"turn_keys": keys * (head & -head), "turn_values": values * 64}


class Pair:
    """A model in two processes: stock llama.cpp, and llama.cpp with folio's device. `is_turned`:
    llama.cpp turns what it quantises, as it does unless a variable tells it not to."""

    def __init__(
        self,
        program: pathlib.Path,
        model: pathlib.Path,
        device: pathlib.Path,
        is_turned: bool = True,
    ) -> None:
        self.name = model.stem
        self.is_turned = is_turned
        variables = {} if is_turned else {"LLAMA_ATTN_ROT_DISABLE": "1"}
        self.stock = Runner(program, model, variables=variables)
        self.folio = Runner(program, model, device, variables)
        self.flash_nodes = 0  # that folio's process computed so far

    def close(self) -> None:
        self.stock.close()
        self.folio.close()

    def compare(
        self, scenario: str, cache: str, change: Change = NONE, rows: slice = slice(None)
    ) -> Comparison:
        """folio and stock in a scenario, all logits or some `rows`. `change` is what folio's scenario
        alone has otherwise; a draw is everyone's."""
        alike = dataclasses.replace(NONE, draw=change.draw)
        oracle = self.oracle(scenario, cache, alike)[rows]
        ways = ["on"] if is_quantised(types_of(cache)[1]) else ["off", "on"]
        stock = [self.run_stock(scenario, cache, attention, alike)[rows] for attention in ways]
        folio = self.run_folio(scenario, cache, change)[rows]
        distances = [Distance.between(logits, oracle) for logits in (folio, *stock)]
        return Comparison(distances[0], distances[1:])

    def oracle(self, scenario: str, cache: str, change: Change) -> np.ndarray:
        keys, values = types_of(cache)
        options: dict[str, Any] = {"round_keys": keys, "round_values": values}
        options |= turns(self.name, cache) if self.is_turned else {}
        logits, counts = self._run(self.stock, scenario, "f32", "off", change, options)
        assert counts["rounded"] > 0 and counts["flash"] == 0
        return logits

    def run_stock(self, scenario: str, cache: str, attention: str, change: Change) -> np.ndarray:
        logits, counts = self._run(self.stock, scenario, cache, attention, change)
        assert (counts["flash"] > 0) == (attention == "on")
        assert (counts["plain"] > 0) == (attention == "off")
        return logits

    def run_folio(self, scenario: str, cache: str, change: Change) -> np.ndarray:
        """folio's logits. Flash attention has to stay on under `auto`, and folio's device has to
        serve every node of it: both are counted."""
        logits, counts = self._run(self.folio, scenario, cache, "auto", change)
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
        change: Change,
        more: dict[str, Any] | None = None,
    ) -> tuple[np.ndarray, dict[str, Any]]:
        options, commands = scenarios.make(scenario, change)
        threads = 2 if scenario in WITH_TWO_THREADS else 1
        keys, values = types_of(cache)
        options |= {"keys": keys, "values": values, "attention": attention, "threads": threads}
        runner("open", **options, **(more or {}))
        for command in commands:
            runner(command["do"], **{k: v for k, v in command.items() if k != "do"})
        return runner.logits()
