# SPDX-License-Identifier: Apache-2.0
"""On what the bytes of SGLang's pages depend beside their tokens and the geometry of pools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sglang
from sglang.srt.mem_cache.hicache_storage import HiCacheStorageConfig
from sglang.srt.runtime_context import get_server_args

from folio_kv._identity import model_digest

__all__ = ["identity_of"]

_FORMAT = "folio sglang 1"  # changes with the order of a page's bytes
_ARGUMENTS = (
    "dtype kv_cache_dtype quantization quantization_param_path load_format "
    "json_model_override_args speculative_algorithm speculative_num_draft_tokens "
    "enable_multimodal hicache_mem_layout"
).split()


def identity_of(config: HiCacheStorageConfig, model: str) -> dict[str, Any] | None:
    """What goes into the fingerprint. `model`: the user's word for weights that are not to be seen
    here; None if there is neither."""
    try:
        args: Any = get_server_args()
    except ValueError:  # none has been published
        args = None
    if args is None and not model:
        return None
    identity: dict[str, Any] = {"format": _FORMAT, "name": config.model_name, "model": model}
    identity["sglang"] = getattr(sglang, "__version__", "")
    if args is None:
        return identity
    identity |= {name: repr(getattr(args, name, None)) for name in _ARGUMENTS}
    files = _files(args)
    if not (model or all(files.values())):
        return None
    identity["files"] = files
    if getattr(args, "load_format", None) == "dummy":
        identity["seed"] = getattr(args, "random_seed", None)
    return identity


def _files(args: Any) -> dict[str, str]:
    """By what they are for, digests of all files of weights that a server names; "" for those that
    are not there."""
    cache = getattr(args, "download_dir", None)
    files = {}
    for prefix in ("", "speculative_draft_"):
        if path := getattr(args, f"{prefix}model_path", None):
            files[prefix] = model_digest(path, getattr(args, f"{prefix}revision", None), cache)
            if not files[prefix] and getattr(args, "load_format", None) == "dummy":
                files[prefix] = _configuration(path)
    for path in _adapters(getattr(args, "lora_paths", None) or ()):
        # SGLang's hashes have the name and path of an adapter, whose files may be others later.
        files[f"adapter {path}"] = model_digest(path)
    if scales := getattr(args, "quantization_param_path", None):
        files["scales"] = model_digest(scales)
    return files


def _configuration(path: str) -> str:
    try:
        return (Path(path) / "config.json").read_text()
    except OSError:
        return path


def _adapters(given: Any) -> list[str]:
    """The paths of adapters in all the forms that SGLang takes."""
    if isinstance(given, dict):
        return [str(path) for path in given.values()]
    paths = []
    for one in given:
        told = one.get("lora_path") if isinstance(one, dict) else getattr(one, "lora_path", one)
        paths.append(told.partition("=")[2] or told if isinstance(one, str) else str(told))
    return paths
