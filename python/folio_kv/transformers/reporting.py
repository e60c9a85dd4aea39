# SPDX-License-Identifier: Apache-2.0
"""Which layers run on what, and why."""

from __future__ import annotations

import inspect
import sys
import weakref
from dataclasses import dataclass
from typing import Any

__all__ = ["LayerReport", "Report", "not_served", "reason", "report", "served"]

_outcomes: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()


def served(module: Any) -> None:
    _outcomes[module] = ""


def not_served(module: Any, why: str) -> None:
    _outcomes[module] = why


def reason(module: Any) -> str:
    """Why the module's last call was not served; empty if it was."""
    return _outcomes.get(module, "")


@dataclass(frozen=True)
class LayerReport:
    """One attention layer. served_by: "folio", "stock", or "" before its first call."""

    name: str
    served_by: str
    reason: str


@dataclass(frozen=True)
class Report:
    """What `report` found, one entry for each attention layer; printed as a table."""

    layers: tuple[LayerReport, ...]

    def __str__(self) -> str:
        if not self.layers:
            return "no attention layers"
        width = max(len(layer.name) for layer in self.layers)
        rows = [
            f"{x.name:<{width}}  {x.served_by or '-':<6} {x.reason}".rstrip() for x in self.layers
        ]
        return "\n".join(rows)


def _calls_the_interface(module: Any) -> bool:
    source_of = sys.modules.get(type(module).__module__)
    try:
        return "ALL_ATTENTION_FUNCTIONS.get_interface(" in inspect.getsource(source_of)
    except (OSError, TypeError):
        return True


def _layer_report(name: str, module: Any) -> LayerReport:
    if module in _outcomes:
        why = _outcomes[module]
        return LayerReport(name, "stock" if why else "folio", why)
    if not _calls_the_interface(module):
        return LayerReport(
            name, "stock", f"{type(module).__name__} has attention of its own, it asks for no other"
        )
    return LayerReport(name, "", "not called yet")


def report(model: Any) -> Report:
    """Which attention layers of `model` the last forward ran on folio, and why not the others.

    Call it after a forward or `generate`: whether a layer is served depends on its calls (masks,
    sinks, dtypes). Before, it tells only which layers cannot be reached. Layers are the modules
    whose class name ends in "Attention", and whatever else has called folio.
    """
    found = []
    for name, module in model.named_modules():
        if module in _outcomes or type(module).__name__.endswith("Attention"):
            if module in _outcomes or not any(
                child is not module and type(child).__name__.endswith("Attention")
                for child in module.modules()
            ):
                found.append(_layer_report(name, module))
    return Report(tuple(found))
