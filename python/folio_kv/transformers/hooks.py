# SPDX-License-Identifier: Apache-2.0
"""Where folio enters transformers: registered names, and the one private method that would turn one
of them away.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

__all__ = ["NAMES", "TESTED", "register", "why_not_version"]

NAMES = ("folio", "folio_flash")
TESTED = ((5, 19), (5, 24))  # versions of transformers from, up to but not including
_lock = threading.Lock()


def _version(text: str) -> tuple[int, int]:
    major, minor = text.split(".")[:2]
    return int(major), int("".join(c for c in minor if c.isdigit()) or 0)


def why_not_version(text: str) -> str | None:
    """Why this version of transformers is not served, or None."""
    first, behind = TESTED
    if first <= _version(text) < behind:
        return None
    expected = f"{first[0]}.{first[1]} up to, not including, {behind[0]}.{behind[1]}"
    return (
        f"transformers: expected a version from {expected} (folio is tested with these), got {text}"
    )


def _missing_hooks() -> list[str]:
    """Names in transformers that folio relies on and that are not there."""
    from transformers import cache_utils, masking_utils, modeling_utils
    from transformers.generation.continuous_batching import cache as continuous

    wanted = {
        cache_utils: "Cache DynamicLayer DynamicIndexedLayer LinearAttentionLayer "
        "LinearAttentionAndFullAttentionLayer "
        "DYNAMIC_LAYER_TYPE_MAPPING get_layer_types_and_kwargs",
        masking_utils: "AttentionMaskInterface and_masks causal_mask_function eager_mask "
        "bidirectional_mask_function sliding_window_overlay sliding_window_bidirectional_overlay "
        "chunked_overlay prepare_padding_mask",
        modeling_utils: "AttentionInterface PreTrainedModel",
        modeling_utils.PreTrainedModel: "_check_and_adjust_attn_implementation",
        continuous: "PagedAttentionCache",
    }
    return [
        f"{of.__name__}.{name}"
        for of, names in wanted.items()
        for name in names.split()
        if not hasattr(of, name)
    ]


def register() -> None:
    """Makes `attn_implementation="folio"` and `"folio_flash"` known to transformers; a second call
    changes nothing.

    "folio_flash" is the name for every use: `generate_batch` takes only names with "flash" in them.
    "folio" is the name for models that do something of their own for flash names; Llama 4's chunks
    beyond one chunk are refused under those.

    Errors: folio_kv.Unsupported for a version of transformers that folio was not tested with, or
    that lacks a hook.
    """
    import transformers

    import folio_kv

    why = why_not_version(transformers.__version__)
    if why is None and (missing := _missing_hooks()):
        why = f"transformers {transformers.__version__} lacks {', '.join(missing)}"
    if why is not None:
        raise folio_kv.Unsupported(why)

    from .attention import attention
    from .masks import describe_mask

    with _lock:
        for name in NAMES:
            transformers.AttentionInterface.register(name, attention)
            transformers.AttentionMaskInterface.register(name, describe_mask)
        _accept_names(transformers.PreTrainedModel)


def _accept_names(kind: Any) -> None:
    """Names with "flash" would be looked up among flash-attention packages, or replaced by a
    model's own choice.
    """
    original = kind._check_and_adjust_attn_implementation
    if hasattr(original, "__wrapped__"):
        return

    @functools.wraps(original)
    def check(self: Any, attn_implementation: Any, *args: Any, **kwargs: Any) -> Any:
        if attn_implementation in NAMES:
            return attn_implementation
        return original(self, attn_implementation, *args, **kwargs)

    kind._check_and_adjust_attn_implementation = check
