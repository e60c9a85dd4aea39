# SPDX-License-Identifier: Apache-2.0
"""Every argument of folio_kv.flash_attn, folio_kv.flashinfer and torch.ops.folio_kv is used, or
refused by its name, or a hint that is listed here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import arguments_flash_attn
import arguments_flashinfer
import arguments_torch_ops
import pytest
import torch
from arguments import Walk, check_complete, same, to_write, walks
from torch.utils._pytree import tree_leaves, tree_map

import folio_kv.flash_attn as flash_attn
import folio_kv.flashinfer as flashinfer
import folio_kv.torch_ops
from folio_kv import Unsupported

CASES = arguments_flash_attn.CASES + arguments_flashinfer.CASES + arguments_torch_ops.CASES


@pytest.mark.parametrize("name", sorted({walk.name for walk in CASES}))
def test_all_parameters_are_walked(name: str) -> None:
    check_complete(CASES, name)


@pytest.mark.parametrize("walk, parameter", walks(CASES))
def test_an_argument_is_used_or_refused(walk: Walk, parameter: str) -> None:
    walk.check(parameter)


@pytest.mark.parametrize("walk", CASES, ids=lambda walk: walk.name)
def test_a_call_repeats_itself(walk: Walk) -> None:
    """What differs differs by the argument."""
    assert same(walk.call(**walk.make()), walk.call(**walk.make()))


@pytest.mark.parametrize("walk", CASES, ids=lambda walk: walk.name)
def test_no_argument_has_a_gradient(walk: Walk) -> None:
    """Derivatives are of nothing here: what autograd would follow is refused."""

    def followed(x: Any) -> Any:
        floats = isinstance(x, torch.Tensor) and x.is_floating_point()
        return x.clone().requires_grad_() if floats else x

    options = {name: x for name, x in walk.changes.items() if type(x) is torch.Tensor}
    for name, value in (options | walk.make()).items():
        other = tree_map(followed, value)
        if any(isinstance(x, torch.Tensor) and x.requires_grad for x in tree_leaves(other)):
            with pytest.raises(Unsupported, match="gradient|is not supported"):
                walk.call(**walk.make() | {name: other})


def test_no_name_is_left_out() -> None:
    names = {case.name.split(".")[0] for case in CASES}
    faces = {*flash_attn.__all__, *flashinfer.__all__, *folio_kv.torch_ops._SCHEMAS}
    assert names == faces


# What hands its arguments on to a method that is walked, or has no effect.
HANDED_ON = ("run_return_lse", "forward_return_lse", "end_forward", "reset_workspace_buffer")


@pytest.mark.parametrize(
    "name", [x for x in flashinfer.__all__ if inspect.isclass(getattr(flashinfer, x))]
)
def test_no_method_is_left_out(name: str) -> None:
    kind = getattr(flashinfer, name)
    of = [case.name.split(".")[1] for case in CASES if case.name.startswith(f"{name}.")]
    walked = [getattr(kind, method) for method in of if method != "init"]
    methods = {method: x for method, x in inspect.getmembers(kind, inspect.isfunction)}
    left = [m for m, x in methods.items() if not m.startswith("_") and x not in walked]
    assert "init" in of and set(left) <= set(HANDED_ON), left


def _ignores(x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
    return x + 0.0


def _refuses_without_a_name(x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
    if scale != 1.0:
        raise Unsupported("not that one")
    return x + 0.0


def _leaves_out(x: torch.Tensor, scale: torch.Tensor | None = None) -> torch.Tensor:
    return x + 0.0


@pytest.mark.parametrize(
    "function, change",
    [(_ignores, 2.0), (_refuses_without_a_name, 2.0), (_leaves_out, lambda _: to_write(2))],
)
def test_the_walk_finds_what_is_ignored(function: Callable, change: Any) -> None:
    parameters = list(inspect.signature(function).parameters)
    walk = Walk(
        "planted",
        parameters,
        lambda: {"x": torch.ones(2)},
        lambda **values: [function(**values)],
        {"x": lambda x: x * 2, "scale": change},
        {},
    )
    walk.check("x")
    with pytest.raises(AssertionError):
        walk.check("scale")
    with pytest.raises(AssertionError):
        check_complete([Walk("planted", parameters, walk.make, walk.call, {"x": 1}, {})], "planted")
