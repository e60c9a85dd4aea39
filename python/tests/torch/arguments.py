# SPDX-License-Identifier: Apache-2.0
"""A walk over signatures: each argument of a face is used, or refused by its name, or listed as a
hint that changes no bit.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch

from folio_kv import Error, Unsupported


class Written(torch.Tensor):
    """A tensor to write to, as `out` is."""


def to_write(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.full(shape, torch.nan, dtype=dtype).as_subclass(Written)


@dataclasses.dataclass
class Walk:
    """`make` gives the arguments of a call anew, `call` its results: tensors, with those that it
    has written to. changes: for parameters another value, or a function of the old one, or a list
    of them. hints: those of which no value changes a bit, and why. agrees: of a parameter, the
    other that has to agree with it, by whose name a refusal may go.
    """

    name: str
    parameters: Iterable[str]
    make: Callable[[], dict[str, Any]]
    call: Callable[..., list[torch.Tensor]]
    changes: dict[str, Any]
    hints: dict[str, str]
    agrees: dict[str, str] = dataclasses.field(default_factory=dict)

    def check(self, parameter: str) -> None:
        """The change changes the results or is refused by name; of a hint any value does neither."""
        if parameter in self.hints:
            after = self.call(**self.make() | {parameter: object()})
            assert same(self.call(**self.make()), after), f"{self.name}: {parameter}: no hint"
            return
        change = self.changes[parameter]
        for one in change if isinstance(change, list) else [change]:
            self._check_one(parameter, one)

    def _check_one(self, parameter: str, change: Any) -> None:
        before = self.call(**self.make())
        changed = self.make()
        changed[parameter] = change(changed.get(parameter)) if callable(change) else change
        given = changed[parameter]
        try:
            after = self.call(**changed)
        except (Error, Unsupported) as refusal:
            names = [*given] if parameter == "kwargs" else [parameter]
            names += [self.agrees[parameter]] if parameter in self.agrees else []
            is_named = re.search(rf"\b({'|'.join(names)})\b", str(refusal))
            assert is_named, f"{self.name}: {parameter}: {refusal}"
            return
        if isinstance(given, Written):
            assert not torch.isnan(torch.Tensor(given)).any(), f"{self.name}: {parameter}: ignored"
        else:
            assert not same(before, after), f"{self.name}: {parameter}: ignored"


def check_complete(cases: list[Walk], name: str) -> None:
    """The walks of this name change each of its parameters, unless it is a hint."""
    of = [walk for walk in cases if walk.name == name]
    changed, hints = ({x for walk in of for x in getattr(walk, y)} for y in ("changes", "hints"))
    left = {x for walk in of for x in walk.parameters} - changed - hints
    assert not left, f"{name}: neither changed nor listed as hints: {left}"
    assert not changed & hints, f"{name}: changed and listed as hints: {changed & hints}"


def same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    """The same tensors to the bit."""
    return len(a) == len(b) and all(
        x.dtype == y.dtype
        and x.shape == y.shape
        and torch.equal(x.contiguous().view(torch.uint8), y.contiguous().view(torch.uint8))
        for x, y in zip(a, b)
    )


def tensors(*results: Any) -> list[torch.Tensor]:
    """All tensors of nested results, as they are now."""
    found: list[torch.Tensor] = []
    for result in results:
        if isinstance(result, torch.Tensor):
            found.append(torch.atleast_1d(result.detach().clone()))
        elif isinstance(result, (list, tuple)):
            found += tensors(*result)
    return found


def parameters_of(function: Callable, *without: str) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name not in without]


def called(function: Callable, values: dict[str, Any]) -> Any:
    """`function` with these values for its parameters, `args` and `kwargs` among them."""
    values = dict(values)
    named = inspect.signature(function).parameters
    if "args" not in named:
        return function(**values)
    before = list(named)[: list(named).index("args")]
    first = [values.pop(name) for name in before if name in values]
    rest, last = values.pop("args", ()), values.pop("kwargs", {})
    return function(*first, *rest, **values, **last)


def walks(cases: list[Walk]) -> list[Any]:
    """pytest's parameters (walk, parameter)."""
    return [
        pytest.param(walk, parameter, id=f"{walk.name}-{parameter}")
        for walk in cases
        for parameter in (*walk.changes, *walk.hints)
    ]
