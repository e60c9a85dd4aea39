# SPDX-License-Identifier: Apache-2.0
"""What of a model's files its keys and values depend on, as a digest.

Names and paths do not tell a model from its next revision or from a fine-tune that was put in its
place, and a store outlives both. So the files are looked at: small ones whole, large ones by size
and by 4 KiB of each MiB; of models beyond 16 GiB, by 16,384 pieces at equal distances. Of
safetensors each tensor counts by itself: whole up to 64 KiB, as norms, biases and scales are, else
by its first and last bytes too. The same files give the same digest on every machine.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

__all__ = ["model_digest"]

_WEIGHTS = {".safetensors", ".bin", ".pt", ".pth", ".gguf"}
_CONFIGS = {"config.json", "adapter_config.json"}
_ONE_OF = ("config.json", "model.safetensors", "model.safetensors.index.json")  # of each model
_PIECE, _LEAST_STRIDE, _MOST_PIECES = 4096, 1 << 20, 1 << 14
_WHOLE = 1 << 22  # files up to here are read whole
_SHORT = 1 << 16  # so are tensors


def model_digest(model: str, revision: str | None = None, cache: str | None = None) -> str:
    """Hex SHA-256 of the files of `model`: a folder or a file, or a name of the Hugging Face Hub
    that lies in its local cache (`cache`, or where the environment says); "" where its weights are
    not there: a configuration alone is that of many models."""
    path = _folder_of(model, revision, cache)
    if path is None:
        return ""
    files = [path] if path.is_file() else sorted(_files(path))
    if not path.is_file() and not any(file.suffix in _WEIGHTS for file in files):
        return ""
    stride = max(_LEAST_STRIDE, sum(file.stat().st_size for file in files) // _MOST_PIECES)
    whole = hashlib.sha256(b"folio model 1")
    for file in files:
        name = file.name if file == path else file.relative_to(path).as_posix()
        whole.update(f"{name}\0{file.stat().st_size}\0".encode() + _digest_of(file, stride))
    return whole.hexdigest()


def _folder_of(model: str, revision: str | None, cache: str | None) -> Path | None:
    if os.path.exists(model):
        return Path(model)
    try:
        from huggingface_hub import try_to_load_from_cache

        files = [try_to_load_from_cache(model, name, cache, revision) for name in _ONE_OF]
    except (ImportError, ValueError):  # no hub; no name of one
        return None
    return next((Path(file).parent for file in files if isinstance(file, str)), None)


def _files(folder: Path) -> list[Path]:
    """Configurations and weights: not what a tokenizer needs alone, nor what others left there."""
    found = [file for file in folder.iterdir() if file.is_file()]
    return [f for f in found if f.suffix in _WEIGHTS or f.name in _CONFIGS or "quant" in f.name]


def _digest_of(file: Path, stride: int) -> bytes:
    size = file.stat().st_size
    with open(file, "rb") as stream:
        if size <= _WHOLE:
            return hashlib.sha256(stream.read()).digest()
        pieces = hashlib.sha256()
        for begin, end in _parts(file, stream, size):
            for offset, length in _samples(begin, end, stride):
                stream.seek(offset)
                pieces.update(stream.read(length))
        return pieces.digest()


def _parts(file: Path, stream: BinaryIO, size: int) -> list[tuple[int, int]]:
    """Where each tensor begins and ends, with all that stands before the first; or all of it."""
    header = 8 + int.from_bytes(stream.read(8), "little")
    if file.suffix != ".safetensors" or header > size:
        return [(0, size)]
    try:
        tensors = json.loads(stream.read(header - 8))
        places = [told["data_offsets"] for of, told in tensors.items() if of != "__metadata__"]
        parts = sorted((header + int(begin), header + int(end)) for begin, end in places)
    except (ValueError, TypeError, KeyError, AttributeError):  # none that is known
        return [(0, size)]
    return [(0, header), *parts]


def _samples(begin: int, end: int, stride: int) -> Iterator[tuple[int, int]]:
    """Offsets and lengths of what is read of a part."""
    if end - begin <= _SHORT:
        yield begin, end - begin
        return
    for offset in (*range(begin, end - _PIECE, stride), end - _PIECE):
        yield offset, _PIECE
