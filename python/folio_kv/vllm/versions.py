# SPDX-License-Identifier: Apache-2.0
"""Which vLLM folio knows: the versions that were tested, and a probe of the hooks it leans on.

vLLM's attention classes are internal and change between releases. A version that is not in the
list, or whose classes look different, is refused as a whole, so that no engine runs half on classes
that folio guesses at.
"""

from __future__ import annotations

import dataclasses
import inspect

# Releases (major, minor) whose engine runs folio's tests.
TESTED = ((0, 32),)

# What folio reads and overrides: parameters of vLLM's own implementation, in order, and fields of
# the step's description.
_IMPL_PARAMETERS = (
    "num_heads",
    "head_size",
    "scale",
    "num_kv_heads",
    "alibi_slopes",
    "sliding_window",
    "kv_cache_dtype",
    "logits_soft_cap",
    "attn_type",
    "kv_sharing_target_layer_name",
    "sinks",
)
_FORWARD_PARAMETERS = (
    "layer",
    "query",
    "key",
    "value",
    "kv_cache",
    "attn_metadata",
    "output",
    "output_scale",
    "output_block_scale",
)
_STEP_FIELDS = frozenset(
    (
        "query_start_loc",
        "seq_lens",
        "block_table_tensor",
        "slot_mapping",
        "num_actual_tokens",
        "max_query_len",
        "max_seq_len",
        "causal",
    )
)


def why_not_this_vllm() -> str | None:
    """None if the installed vLLM is one that folio knows, else the reason in a sentence."""
    import vllm

    version = getattr(vllm, "__version_tuple__", ())
    if tuple(version[:2]) not in TESTED:
        known = ", ".join(".".join(map(str, release)) + ".x" for release in TESTED)
        return f"this is vLLM {getattr(vllm, '__version__', '?')}, folio knows {known}"
    try:
        return _why_not_these_hooks()
    except (ImportError, AttributeError) as error:
        return f"vLLM {vllm.__version__} lacks what folio hooks into ({error})"


def _parameters(function: object) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters)[1:]  # type: ignore[arg-type]


def _why_not_these_hooks() -> str | None:
    from vllm.v1.attention.backend import CommonAttentionMetadata
    from vllm.v1.attention.backends.cpu_attn import (
        CPUAttentionBackend,
        CPUAttentionBackendImpl,
        CPUAttentionMetadataBuilder,
    )
    from vllm.v1.kv_cache_interface import KVCacheLayout

    if _parameters(CPUAttentionBackendImpl.__init__) != _IMPL_PARAMETERS:
        return "the parameters of vLLM's CPUAttentionBackendImpl are not those that folio knows"
    if _parameters(CPUAttentionBackendImpl.forward) != _FORWARD_PARAMETERS:
        return "the parameters of CPUAttentionBackendImpl.forward are not those that folio knows"
    if CPUAttentionBackend.supported_kv_cache_layouts() != (KVCacheLayout.LBHNC,):
        return "the layout of vLLM's CPU cache is not the one that folio knows"
    if CPUAttentionBackend.forward_includes_kv_cache_update:
        return "vLLM's CPU attention writes the cache in another place than folio knows"
    fields = {field.name for field in dataclasses.fields(CommonAttentionMetadata)}
    if missing := _STEP_FIELDS - fields:
        return f"vLLM's description of a step lacks {', '.join(sorted(missing))}"
    if not hasattr(CPUAttentionMetadataBuilder, "build"):
        return "vLLM's CPUAttentionMetadataBuilder has no method build"
    return None
