# SPDX-License-Identifier: Apache-2.0
"""The tokens on which types are compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..errors import Error

__all__ = ["read"]


def documentation() -> str:
    """Python's own, which every Python brings."""
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise Error(
            "--text: expected a file, as this Python comes without its documentation"
        ) from error
    return "\n\n".join(topics[name] for name in sorted(topics))


def read(path: Path | None, tokenizer: Any, count: int, vocabulary: int) -> list[int]:
    """`count` tokens and the one behind them: of a text file, of a JSON list of tokens (*.json), or
    of Python's documentation. Errors: no such file, no list of tokens, no tokenizer, too short.
    """
    if path is not None and path.suffix == ".json":
        found, source = _listed(path, vocabulary), str(path)
    else:
        text, source = (_text(path), str(path)) if path else (documentation(), "the documentation")
        if tokenizer is None:
            raise Error(
                "MODEL: expected a tokenizer beside the weights; without one --text takes a JSON list "
                "of tokens (*.json)"
            )
        found = list(tokenizer(text)["input_ids"])
    if len(found) < count + 1:
        raise Error(
            f"--text: expected {count + 1} tokens, got {len(found)} of {source}; a longer text or a "
            "smaller --tokens helps"
        )
    return found[: count + 1]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Error(f"--text: expected a file of UTF-8, got {path}: {error}") from error


def _listed(path: Path, vocabulary: int) -> list[int]:
    try:
        found = json.loads(_text(path))
    except json.JSONDecodeError as error:
        raise Error(f"--text: expected JSON in {path}: {error}") from error
    if not isinstance(found, list) or not all(
        type(x) is int and 0 <= x < vocabulary for x in found
    ):
        raise Error(f"--text: expected a list of tokens from 0 to {vocabulary - 1} in {path}")
    return found
