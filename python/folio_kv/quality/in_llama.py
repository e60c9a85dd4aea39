# SPDX-License-Identifier: Apache-2.0
"""llama.cpp's own types, in a process of an interpreter that has llama-cpp-python."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..errors import Error
from .cache_types import CacheType
from .loading import is_gguf
from .outcome import Outcome

__all__ = ["compare", "weights"]


def weights(model: Path, given: Path | None) -> Path | None:
    """The GGUF file of llama.cpp's rows. Errors: --llama-model is none."""
    if given is not None:
        if not given.is_file() or not is_gguf(given):
            raise Error(f"--llama-model: expected a GGUF file, got {given}")
        return given
    return None if model.is_dir() else model


def compare(
    path: Path | None,
    rows: Sequence[CacheType],
    tokens: Sequence[int],
    python: str | None,
    *,
    scored_each: int,
    decoded: int,
    threads: int,
    say: Callable[[str], None] = lambda text: None,
) -> list[Outcome]:
    """As contenders.compare; the first outcome is llama.cpp's own reference."""
    why = _missing(path, python)
    if why:
        return [Outcome(row.name, row.engine, refused=why) for row in rows]
    types = [["f32", "f32"], *([row.options["keys"], row.options["values"]] for row in rows)]
    run = {"path": str(path), "tokens": list(tokens), "types": types, "threads": threads}
    run |= {"scored_each": scored_each, "decoded": decoded}
    lines = _lines(python or sys.executable, run, say)
    refused = {line["type"]: line["refused"] for line in lines if "type" in line}
    failed = next(
        (line["refused"] for line in lines if "type" not in line and "refused" in line), ""
    )
    figures = next((line["outcomes"] for line in lines if "outcomes" in line), [None] * len(types))
    names = ["llama-reference", *(row.name for row in rows)]
    return [
        Outcome(name, "llama.cpp", found or {}, "" if found else refused.get(i, failed))
        for i, (name, found) in enumerate(zip(names, figures))
    ]


def _missing(path: Path | None, python: str | None) -> str:
    """What llama.cpp's rows lack; empty if nothing."""
    if path is None:
        return "llama.cpp reads GGUF files: --llama-model names one"
    if python is None and importlib.util.find_spec("llama_cpp") is None:
        return "this Python has no llama-cpp-python: --llama-python names an interpreter with it"
    return ""


def _lines(python: str, run: dict[str, Any], say: Callable[[str], None]) -> list[dict[str, Any]]:
    """What the process writes, its progress said as it comes."""
    command = [python, str(Path(__file__).with_name("llama_process.py"))]
    lines = []
    with tempfile.TemporaryFile("w+") as errors:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        except OSError as error:
            raise Error(
                f"--llama-python: expected an interpreter, got {python}: {error}"
            ) from error
        with process:
            process.stdin.write(json.dumps(run))
            process.stdin.close()
            for written in process.stdout:
                line = json.loads(written)
                if "progress" in line:
                    say(line["progress"])
                else:
                    lines.append(line)
        errors.seek(0)
        said = errors.read().strip().splitlines()
    if process.returncode:
        last = said[-1] if said else "it said nothing"
        lines.append({"refused": f"llama.cpp's process ended with {process.returncode}: {last}"})
    return lines
