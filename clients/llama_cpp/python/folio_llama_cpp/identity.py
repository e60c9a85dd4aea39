# SPDX-License-Identifier: Apache-2.0
"""What keys and values depend on beside tokens, as one digest: it is the root of every name.

The model's files count by the SHA-256 of all their bytes, not by name or date: a copy finds what
the original left, and a file that has been replaced finds nothing. A digest is made once and
remembered for the file's size, inode and time of change.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import logging
import os
import pathlib
import re
import tempfile
from collections.abc import Iterator
from typing import Any

from folio_llama_cpp.states import Layout

log = logging.getLogger("folio_llama_cpp")

FORMAT = 1  # of pages and their names
_BLOCK, _LARGE = 1 << 22, 1 << 30
_SHARD = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")
_WITHOUT_MEANING = {
    # How a batch is cut, who computes it and how weights come into memory; pointers are left out.
    *("n_batch", "n_ubatch", "n_threads", "n_threads_batch", "n_seq_max", "no_perf"),
    *("n_outputs_max", "n_outputs_max_per_seq", "n_samplers", "defrag_thold", "op_offload"),
    *("use_mmap", "use_mlock", "use_direct_io", "load_mode", "check_tensors", "main_gpu"),
    *("no_host", "no_alloc", "use_extra_bufts"),
}
_SCALARS = (int, float, bool)


def fingerprint(model: Any, versions: list[str], layout: Layout, page_tokens: int) -> bytes:
    """32 bytes for a loaded `llama_cpp.Llama`. Raises OSError where a file cannot be read."""
    parts = {
        "format": FORMAT,
        "page": page_tokens,
        "versions": versions,
        "model": [file_digest(path) for path in _shards(model.model_path)],
        "overrides": sorted((k, repr(v)) for k, v in (model.kv_overrides or {}).items()),
        "adapter": _adapter(model),
        "model_params": _scalars(model.model_params),
        "context_params": _scalars(model.context_params),
        "context": model.n_ctx(),
        "rotation_off": os.environ.get("LLAMA_ATTN_ROT_DISABLE", ""),
        "layout": repr(layout),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).digest()


def file_digest(path: pathlib.Path) -> str:
    """The SHA-256 of a file, as hexadecimal digits."""
    stat = path.stat()
    stamp = [stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        known_stamp, digest = json.loads(_remembered().read_text())[str(path.resolve())]
        if known_stamp == stamp and re.fullmatch("[0-9a-f]{64}", digest):
            return str(digest)
    if stat.st_size > _LARGE:
        log.info("reading %s once, for its digest", path)
    sha = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            sha.update(block)
    _remember(str(path.resolve()), [stamp, sha.hexdigest()])
    return sha.hexdigest()


def _remembered() -> pathlib.Path:
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "folio/llama_cpp/digests.json"


def _remember(path: str, entry: list[Any]) -> None:
    """Notes a digest for the next start; without a folder to write to, it is made again then."""
    file = _remembered()
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            known = json.loads(file.read_text())
        except (OSError, ValueError):
            known = {}
        known = known if isinstance(known, dict) else {}
        made, name = tempfile.mkstemp(dir=file.parent)
        with os.fdopen(made, "w") as new:
            json.dump({**known, path: entry}, new)
        os.replace(name, file)


def _shards(path: str) -> Iterator[pathlib.Path]:
    """A model's file, or all of those that it is split into."""
    found = _SHARD.search(path)
    if found is None:
        yield pathlib.Path(path)
        return
    for number in range(1, int(found[2]) + 1):
        yield pathlib.Path(f"{path[: found.start()]}-{number:05d}-of-{found[2]}.gguf")


def _adapter(model: Any) -> list[Any]:
    if not model.lora_path:
        return []
    return [file_digest(pathlib.Path(model.lora_path)), float(model.lora_scale)]


def _scalars(parameters: ctypes.Structure) -> dict[str, Any]:
    """The numbers among the fields of llama.cpp's parameters: those of later releases, too."""
    names = (field[0] for field in parameters._fields_)
    values = {name: getattr(parameters, name) for name in names if name not in _WITHOUT_MEANING}
    return {name: value for name, value in values.items() if isinstance(value, _SCALARS)}


def versions(llama_cpp_version: str, library: ctypes.CDLL) -> list[str]:
    """Of llama-cpp-python and of the ggml that its library has."""
    found = [llama_cpp_version]
    for name in ("ggml_version", "ggml_commit"):
        with contextlib.suppress(AttributeError):
            text = ctypes.CFUNCTYPE(ctypes.c_char_p)((name, library))()
            found.append(f"{name} {text.decode(errors='replace')}")
    return found
