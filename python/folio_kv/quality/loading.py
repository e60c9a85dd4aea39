# SPDX-License-Identifier: Apache-2.0
"""The model whose cache is looked at: a folder of transformers', or a GGUF file."""

from __future__ import annotations

import dataclasses
import importlib.util
from pathlib import Path
from typing import Any

from ..errors import Error

__all__ = ["Loaded", "is_gguf", "load"]

_MAGIC = b"GGUF"


@dataclasses.dataclass
class Loaded:
    """The model in float32, in evaluation mode; tokenizer: None where the folder has none."""

    path: Path
    model: Any
    tokenizer: Any

    @property
    def vocabulary(self) -> int:
        return self.model.get_input_embeddings().num_embeddings


def is_gguf(path: Path) -> bool:
    """Errors: no such file."""
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError as error:
        raise Error(f"MODEL: expected a file or a folder, got {path}: {error.strerror}") from error


def load(path: Path) -> Loaded:
    """Errors: no such file or folder, no model in it, packages that reading it takes."""
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise Error(f"MODEL: expected a folder with config.json, got {path}")
        return _from(path, path, {})
    if not is_gguf(path):
        raise Error(f"MODEL: expected a folder or a GGUF file, got {path}")
    missing = [name for name in ("gguf", "accelerate") if importlib.util.find_spec(name) is None]
    if missing:
        raise Error(
            f"MODEL: a GGUF file is read by {' and '.join(missing)}, which Python does not find: "
            f"pip install {' '.join(missing)}"
        )
    return _from(path, path.parent, {"gguf_file": path.name})


def _from(path: Path, folder: Path, options: dict[str, Any]) -> Loaded:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, local_files_only=True, **options
        )
    except Exception as error:  # of whatever transformers finds wrong in a file
        raise Error(f"MODEL: transformers cannot load {path}: {_first_line(error)}") from error
    if not options and not any(folder.glob("tokenizer*")):
        return Loaded(path, model.eval(), None)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, **options)
    except Exception as error:
        raise Error(f"MODEL: its tokenizer cannot be loaded: {_first_line(error)}") from error
    return Loaded(path, model.eval(), tokenizer)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"
