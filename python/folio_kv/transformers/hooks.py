# SPDX-License-Identifier: Apache-2.0
"""Where folio enters transformers: what it leans on there, registered names, and two methods that
are wrapped.
"""

from __future__ import annotations

import functools
import threading
import warnings
from typing import Any

from .._engine import Engine, members, names, parameters

__all__ = ["ENGINE", "NAMES", "TESTED", "capabilities", "refused", "register"]

NAMES = ("folio", "folio_flash")
TESTED = ((5, 19), (5, 24))  # the oldest and the newest version of transformers that are tested

ATTENTION, CACHE, CONTINUOUS = "attention", "FolioCache", "continuous batching"
_BATCHING = "transformers.generation.continuous_batching"
ENGINE = Engine(
    "transformers",
    *TESTED,
    {
        ATTENTION: (
            names("transformers", "AttentionInterface.register AttentionMaskInterface.register"),
            names("transformers", "PreTrainedModel._check_and_adjust_attn_implementation"),
            names("transformers.integrations.sdpa_attention", "sdpa_attention_forward"),
            names(
                "transformers.masking_utils",
                "and_masks causal_mask_function bidirectional_mask_function "
                "sliding_window_overlay sliding_window_bidirectional_overlay chunked_overlay "
                "eager_mask prepare_padding_mask",
            ),
        ),
        CACHE: (
            names(
                "transformers.cache_utils",
                "Cache DynamicLayer DynamicIndexedLayer LinearAttentionLayer "
                "LinearAttentionAndFullAttentionLayer DYNAMIC_LAYER_TYPE_MAPPING "
                "get_layer_types_and_kwargs",
            ),
            names("transformers", "PreTrainedConfig.per_layer_config"),
        ),
        CONTINUOUS: (
            parameters(
                f"{_BATCHING}.cache",
                "PagedAttentionCache.update",
                "key_states value_states layer_idx kwargs",
            ),
            members(f"{_BATCHING}.cache", "PagedAttentionCache", "config layer_to_allocator"),
            names(f"{_BATCHING}.continuous_api", "ContinuousBatchingManager._run_generation_loop"),
            members(
                f"{_BATCHING}.cache_allocators",
                "FullAttentionCacheAllocator",
                "layer_type index tokens_per_page get_cache_for_block_table",
            ),
            members(
                f"{_BATCHING}.cache_allocators",
                "SlidingAttentionCacheAllocator",
                "layer_type index sliding_window _kv_token_views",
            ),
        ),
    },
)
_lock = threading.Lock()


@functools.cache
def capabilities() -> dict[str, str]:
    """What of folio the installed transformers can have: "attention", "FolioCache" and "continuous
    batching", each with "" or the reason why it is refused.
    """
    return ENGINE.refusals()


def refused(capability: str) -> str:
    """Why a capability is refused, with its name in front; "" if it is served."""
    why = capabilities()[capability]
    return why and f"{capability}: {why}"


def register() -> None:
    """Makes `attn_implementation="folio"` and `"folio_flash"` known to transformers; a second call
    changes nothing.

    "folio_flash" is the name for every use: `generate_batch` takes only names with "flash" in them.
    "folio" is the name for models that do something of their own for flash names; Llama 4's chunks
    beyond one chunk are refused under those.

    A transformers newer than those tested is warned of (RuntimeWarning), once. Errors:
    folio_kv.Unsupported for one that is too old, or lacks what attention leans on. What else it
    lacks is refused where it is used: see `capabilities`.
    """
    import transformers

    import folio_kv

    if why := refused(ATTENTION):
        raise folio_kv.Unsupported(why)
    if (warning := ENGINE.warning()) is not None:
        warnings.warn(warning, RuntimeWarning, stacklevel=2)

    from .attention import attention
    from .masks import describe_mask

    with _lock:
        for name in NAMES:
            transformers.AttentionInterface.register(name, attention)
            transformers.AttentionMaskInterface.register(name, describe_mask)
        _accept_names(transformers.PreTrainedModel)
        if not refused(CONTINUOUS):
            _describe_paged_rows()


def _accept_names(kind: Any) -> None:
    """Names with "flash" would be looked up among flash-attention packages, or replaced by a
    model's own choice.
    """
    original = kind._check_and_adjust_attn_implementation
    if hasattr(original, "folio_wraps"):
        return

    @functools.wraps(original)
    def check(self: Any, attn_implementation: Any, *args: Any, **kwargs: Any) -> Any:
        if attn_implementation in NAMES:
            return attn_implementation
        return original(self, attn_implementation, *args, **kwargs)

    check.folio_wraps = original
    kind._check_and_adjust_attn_implementation = check


def _describe_paged_rows() -> None:
    from transformers.generation.continuous_batching.cache import PagedAttentionCache

    from .paged_rows import patch

    patch(PagedAttentionCache, NAMES)
