# SPDX-License-Identifier: Apache-2.0
"""FlashInfer's attention and page functions on folio: same names, plan and run, CPU tensors.

    import folio_kv.flashinfer as flashinfer

Tables are FlashInfer's (indptr, indices, last_page_len; int32 is borrowed until the next plan),
caches NHD or HND, a tuple or one fused tensor, read and written in place. Every lse is in base 2.

Served: causal and not, `window_left`, `logits_soft_cap`, `sm_scale`, `q_scale`, `k_scale`,
`v_scale` (fp8 and int8 caches too), `sinks`, ALIBI where it is causal, `custom_mask` and
`packed_custom_mask` (as a bias of -inf: f32 [tokens, longest context] is built by plan),
`q_len_per_req`, `block_tables`, head_dim_vo of its own. `fixed_split_size` and `disable_split_kv`
ask for results that do not depend on the other sequences, and get them.

Hints about how a GPU should work change no result and have no effect here: `float_workspace_buffer`
(folio holds its own memory, sized by the plan; an empty tensor or None will do),
`use_tensor_cores`, `enable_pdl`, `non_blocking`, `use_fp16_qk_reduction` (a permission to round),
`backend` "auto", "fa2" or "fa3".

Refused by name (`folio_kv.Unsupported`): `use_cuda_graph`, `pos_encoding_mode="ROPE_LLAMA"` (turn
keys before they are stored), ALIBI without a causal mask or with a soft cap, `jit_args`, multi-item
scoring, `kv_cache_sf`, `skip_softmax_threshold_scale_factor`, other backends, fp8 queries,
gradients. Also checked, where FlashInfer trusts: 1 <= last_page_len <= page_size, tables that are
long enough, positions inside a sequence's pages.
"""

from .cascade import merge_state, merge_state_in_place, merge_states
from .decode import BatchDecodeWithPagedKVCacheWrapper
from .mixed import BatchAttention, BatchAttentionWithAttentionSinkWrapper
from .mla import BatchMLAPagedAttentionWrapper
from .multi_level import MultiLevelCascadeAttentionWrapper
from .page import (
    append_paged_kv_cache,
    append_paged_mla_kv_cache,
    get_batch_indices_positions,
    get_seq_lens,
)
from .prefill import BatchPrefillWithPagedKVCacheWrapper, BatchPrefillWithRaggedKVCacheWrapper
from .quantization import packbits, segment_packbits
from .single import single_decode_with_kv_cache, single_prefill_with_kv_cache

__all__ = [
    "BatchAttention",
    "BatchAttentionWithAttentionSinkWrapper",
    "BatchDecodeWithPagedKVCacheWrapper",
    "BatchMLAPagedAttentionWrapper",
    "BatchPrefillWithPagedKVCacheWrapper",
    "BatchPrefillWithRaggedKVCacheWrapper",
    "MultiLevelCascadeAttentionWrapper",
    "append_paged_kv_cache",
    "append_paged_mla_kv_cache",
    "get_batch_indices_positions",
    "get_seq_lens",
    "merge_state",
    "merge_state_in_place",
    "merge_states",
    "packbits",
    "segment_packbits",
    "single_decode_with_kv_cache",
    "single_prefill_with_kv_cache",
]
