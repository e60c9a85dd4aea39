# SPDX-License-Identifier: Apache-2.0
"""SGLang without triton, whose wheel has 1 GB: its modules import it for kernels that run on GPUs
alone, so an empty module stands in its place."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import types
from typing import Any


class _Anything:
    """What a module of triton's has: a decorator, a constant, a function; a class by its name."""

    def __init__(self, *given: object, **named: object) -> None:
        pass

    def __call__(self, *given: object, **named: object) -> object:
        is_decorator = len(given) == 1 and callable(given[0]) and not named
        return given[0] if is_decorator else self

    def __getattr__(self, name: str) -> _Anything:
        if name.startswith("__"):
            raise AttributeError(name)
        return self


class _Module(types.ModuleType):
    __version__ = "0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (_Anything,), {}) if name[0].isupper() else _Anything()


class NoTriton(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds an empty module for every name below triton."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        if name.split(".")[0] != "triton":
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def install() -> None:
    """Puts the empty module there, unless triton is installed."""
    if importlib.util.find_spec("triton") is not None:
        return
    os.environ.setdefault("TORCH_COMPILE_DISABLE", "1")  # torch's compiler would look at triton
    from torch.utils import _triton

    _triton.has_triton_package()  # remembers that there is none
    sys.meta_path.append(NoTriton())
