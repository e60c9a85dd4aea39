# SPDX-License-Identifier: Apache-2.0
"""Which weights an adapter of a request has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from folio_kv._identity import model_digest


class Adapters:
    """Digests of adapters, made when they are first asked for.

    vLLM reads an adapter's files when a request first needs it, and again, without a word, when it
    had to make room for others or was told to (`load_inplace`). So files that have changed since the
    digest was made leave open which weights a request works with.
    """

    def __init__(self) -> None:
        self._known: dict[Any, tuple[list[Any], bytes | None]] = {}

    def digest_of(self, lora: Any) -> bytes | None:
        """b"" without an adapter; None where nothing stands for its weights, from then on."""
        if lora is None:
            return b""
        key = (lora.lora_name, lora.lora_path, lora.lora_int_id)
        stamp = _stamp_of(lora.lora_path)
        if key not in self._known:
            self._known[key] = stamp, bytes.fromhex(model_digest(lora.lora_path)) or None
        elif self._known[key][0] != stamp:
            self._known[key] = [], None
        return self._known[key][1]


def _stamp_of(path: str) -> list[Any]:
    """Of the files: what a change of theirs changes."""
    try:
        stats = [(file.name, file.stat()) for file in sorted(Path(path).iterdir())]
    except OSError:  # a name of the Hub, or there no more
        return [path]
    return [(name, s.st_size, s.st_ino, s.st_mtime_ns, s.st_ctime_ns) for name, s in stats]
