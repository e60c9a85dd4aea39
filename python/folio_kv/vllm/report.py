# SPDX-License-Identifier: Apache-2.0
"""Which layers of the engine folio serves, and the one line of the log that says so."""

from __future__ import annotations

import logging
import re
import weakref
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import folio_kv

_logger = logging.getLogger("vllm.folio_kv")

# layer -> "folio" or the reason why vLLM serves it, of the engine that ran last in this process
_layers: dict[str, str] = {}
_announced: weakref.ref[Any] | None = None  # that engine's configuration


def served_layers() -> Mapping[str, str]:
    """Who serves each layer of the engine that ran last; empty before its first step.

    Layer's name -> "folio", "folio (decoding)" where it is that part only, or the reason why it is
    vLLM's own class.
    """
    return dict(_layers)


def who_serves(layer: Any) -> str:
    """Says "folio", or why not, for one of vLLM's attention layers."""
    refusal = getattr(layer.impl, "refusal", f"the back end {type(layer.impl).__name__}")
    part = getattr(layer.impl, "part", None)
    return refusal or ("folio" if part is None else f"folio ({part})")


def announce_once(vllm_config: Any) -> None:
    """At an engine's first step: notes who serves each of its layers, and logs it in one line."""
    global _announced
    compilation = vllm_config.compilation_config
    if _announced is not None and compilation is _announced():
        return
    _announced = weakref.ref(compilation)
    layers = compilation.static_forward_context
    _layers.clear()
    _layers.update((n, who_serves(layer)) for n, layer in layers.items() if hasattr(layer, "impl"))
    _logger.info("%s", sentence(_layers))


def _numbers(names: Iterable[str]) -> str:
    """`model.layers.0.attn` .. as `0-3`, where every name has just one number; else the names."""
    names = list(names)
    found = [re.findall(r"\d+", name) for name in names]
    if any(len(numbers) != 1 for numbers in found):
        return ", ".join(names)
    ranges: list[list[int]] = []
    for number in sorted({int(numbers[0]) for numbers in found}):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(f"{a}-{b}" if a != b else str(a) for a, b in ranges)


def sentence(layers: Mapping[str, str]) -> str:
    """The log's line on these layers: who is served, who is not and why, and whose threads work."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name, who in layers.items():
        groups[who].append(name)
    served = {who: groups.pop(who) for who in list(groups) if who.startswith("folio")}
    count = sum(map(len, served.values()))
    parts = [f"folio serves {count} of {len(layers)} attention layers"]
    if served:
        told = (_numbers(names) + who.removeprefix("folio") for who, names in served.items())
        parts[0] += f": {', '.join(told)}"
    parts += [f"vLLM serves {_numbers(names)}: {reason}" for reason, names in groups.items()]
    parts.append(f"{folio_kv.get_num_threads()} threads of {folio_kv.get_executor()}")
    return "; ".join(parts)
