# SPDX-License-Identifier: Apache-2.0
"""Configurations that an engine hands to folio's plug-ins: keys and values of JSON.

Each key is read once, with what may stand there; what is left over is unknown. An error is one line
that names the key, what was expected and what came.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from folio_kv.errors import Error

__all__ = ["Options"]

_SIZE = re.compile(r"(\d{1,15})\s?(B|[kMGT]B|[KMGT]iB)?")
_UNITS = {"": 1, "B": 1}
_UNITS |= {f"{letter}B": 1000 ** (i + 1) for i, letter in enumerate("kMGT")}
_UNITS |= {f"{letter}iB": 1024 ** (i + 1) for i, letter in enumerate("KMGT")}


class Options:
    """The keys that `face`, a class of folio's, was given; `ignored` ones are the engine's."""

    def __init__(self, face: str, given: object, ignored: Sequence[str] = ()) -> None:
        self.face = face
        if not isinstance(given, Mapping) or any(not isinstance(key, str) for key in given):
            raise Error(f"{face}: expected an object of JSON, got {_short(given)}")
        self._given = {key: value for key, value in given.items() if key not in ignored}
        self._known: list[str] = []

    def wrong(self, key: str, expected: str, came: object) -> Error:
        """The exception for a value that has no meaning under `key`."""
        return Error(f"{self.face}: {key}: expected {expected}, got {_short(came)}")

    def has(self, key: str) -> bool:
        return self._given.get(key) is not None

    def text(self, key: str, default: str = "") -> str:
        """A text that is not empty."""
        came = self._take(key, default)
        if self.has(key) and (not isinstance(came, str) or not came):
            raise self.wrong(key, "a text", came)
        return came

    def whole(self, key: str, default: int, low: int, high: int) -> int:
        """An integer from `low` to `high`, or the default."""
        came = self._take(key, low)
        if isinstance(came, bool) or not isinstance(came, int) or not low <= came <= high:
            raise self.wrong(key, f"a whole number from {low} to {high}", came)
        return came if self.has(key) else default

    def size(self, key: str, default: int, low: int = 1) -> int:
        """Bytes, `low` or more: a number, or a text such as "100GiB"; or the default."""
        came = self._take(key, low)
        count = came
        if isinstance(came, str) and (found := _SIZE.fullmatch(came)):
            count = int(found[1]) * _UNITS[found[2] or ""]
        if isinstance(count, bool) or not isinstance(count, int) or not low <= count < 2**62:
            least = f" of {low} or more" if low > 1 else ""
            raise self.wrong(key, f'bytes{least}: a number, or a text such as "100GiB"', came)
        return count if self.has(key) else default

    def end(self) -> None:
        """Raises Error for a key that nobody has read."""
        for key in self._given:
            if key not in self._known:
                near = difflib.get_close_matches(key, self._known, 1)
                meant = f' (is "{near[0]}" meant?)' if near else ""
                raise self.wrong(
                    key, f"one of the keys {', '.join(sorted(self._known))}", key + meant
                )

    def _take(self, key: str, default: Any) -> Any:
        self._known.append(key)
        came = self._given.get(key)
        return default if came is None else came


def _short(came: object) -> str:
    text = repr(came)
    return text if len(text) <= 80 else text[:77] + "..."
