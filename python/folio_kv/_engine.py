# SPDX-License-Identifier: Apache-2.0
"""Other packages that folio hooks into, met by capability.

A release of theirs may change what folio leans on. So a face names its capabilities, each with its
hooks: what is complete is served whatever the version, what is not is refused by name, with what is
missing. Versions decide only that older ones than the oldest tested are refused whole, and that a
newer one than the newest tested is warned of, once.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from folio_kv.errors import Unsupported

__all__ = ["Engine", "Hook", "members", "names", "pair", "parameters", "value"]

Hook = Callable[[], list[str]]  # what is missing, in words


def names(module: str, wanted: str) -> Hook:
    """The module has these names, dotted ones too."""

    def missing() -> list[str]:
        return [f"{module}.{name}" for name in wanted.split() if _found(module, name) is _NOTHING]

    return missing


def parameters(module: str, function: str, wanted: str) -> Hook:
    """The function takes just these parameters, in this order; `self` does not count."""

    def missing() -> list[str]:
        found = _found(module, function)
        if found is _NOTHING:
            return [f"{module}.{function}"]
        came = " ".join(name for name in inspect.signature(found).parameters if name != "self")
        return [] if came == wanted else [f"{module}.{function}({wanted.replace(' ', ', ')})"]

    return missing


def members(module: str, kind: str, wanted: str) -> Hook:
    """The class has these members: of its own, fields, or set by one of its methods."""

    def missing() -> list[str]:
        found = _found(module, kind)
        if found is _NOTHING:
            return [f"{module}.{kind}"]
        return [f"{module}.{kind}.{name}" for name in wanted.split() if not _has(found, name)]

    return missing


def value(module: str, name: str, is_known: Callable[[Any], bool], words: str) -> Hook:
    """What stands under the name is what folio knows, which `words` say."""

    def missing() -> list[str]:
        found = _found(module, name)
        if found is _NOTHING:
            return [f"{module}.{name}"]
        return [] if is_known(found) else [f"{module}.{name} ({words})"]

    return missing


_NOTHING = object()


def _found(module: str, name: str) -> Any:
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, RuntimeError):  # transformers' modules raise the last
        return _NOTHING
    return found


def _has(kind: type, name: str) -> bool:
    if hasattr(kind, name) or name in getattr(kind, "__dataclass_fields__", ()):
        return True
    methods = (inspect.unwrap(f) for of in kind.__mro__ for f in vars(of).values() if callable(f))
    codes = (getattr(method, "__code__", None) for method in methods)
    return any(isinstance(code, CodeType) and name in code.co_names for code in codes)


@dataclass
class Engine:
    """One such package, whose module is its name in small letters. Versions are (major, minor);
    `oldest` and `newest`: those tested. The installed one is meant where a call is given none."""

    name: str
    oldest: tuple[int, int]
    newest: tuple[int, int]
    capabilities: Mapping[str, Sequence[Hook]]
    _warned: set[str] = field(default_factory=set)

    def version(self) -> str:
        """Of the package that is installed."""
        package = importlib.import_module(self.name.lower())
        return str(getattr(package, "__version__", "of no version"))

    def why_not(self, version: str) -> str | None:
        """Why this version is refused whole, or None."""
        if pair(version) >= self.oldest:
            return None
        return f"{self.name}: expected {_words(self.oldest)} or later, got {version}"

    def refusals(self, version: str | None = None) -> dict[str, str]:
        """Why each capability is refused, by its name; "" where it is served."""
        version = version or self.version()
        if (why := self.why_not(version)) is not None:
            return dict.fromkeys(self.capabilities, why)
        told = {}
        for name, hooks in self.capabilities.items():
            missing = dict.fromkeys(what for hook in hooks for what in hook())
            told[name] = f"{self.name} {version} lacks {', '.join(missing)}" if missing else ""
        return told

    def warning(self, version: str | None = None) -> str | None:
        """What to say of a version that was not tested: the first time, then None."""
        version = version or self.version()
        if pair(version) <= self.newest or version in self._warned:
            return None
        self._warned.add(version)
        return (
            f"{self.name} {version} is newer than the newest that folio is tested with "
            f"({_words(self.newest)}); what folio leans on was probed instead"
        )

    def expect(self, capability: str, logger: logging.Logger, version: str | None = None) -> None:
        """Raises Unsupported where it is refused; a version that was not tested is warned of."""
        if why := self.refusals(version)[capability]:
            raise Unsupported(f"{capability}: {why}")
        if (warning := self.warning(version)) is not None:
            logger.warning("folio: %s", warning)


def pair(version: str) -> tuple[int, int]:
    """(major, minor) of "5.24.0", "0.33rc1", "6.0.0.dev0"; (0, 0) of what is no version."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _words(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
