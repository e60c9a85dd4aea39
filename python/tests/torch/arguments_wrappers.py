# SPDX-License-Identifier: Apache-2.0
"""The methods of folio_kv.flashinfer's wrappers, each with a change for each of its parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from arguments import Walk, called, parameters_of, tensors, to_write
from arguments_flash_attn import DIM, F32, HEADS, KV_HEADS, ints, other
from torch_reference import random

import folio_kv.flashinfer as flashinfer

PAGE = 4
TOKENS = 5
NO_GRAPH = "a buffer for CUDA graphs, which are refused"
NO_MEMORY = "folio holds its own memory"
OF_ROPE = "has a meaning with ROPE_LLAMA alone, which is refused"

HINTS = {
    "float_workspace_buffer": NO_MEMORY,
    "use_tensor_cores": "folio chooses its own kernels",
    "use_fp16_qk_reduction": "permits what folio has no need of",
    "non_blocking": "nothing is copied",
    "enable_pdl": "of launches of CUDA",
    "rope_scale": OF_ROPE,
    "rope_theta": OF_ROPE,
}
BUFFERS = (
    "paged_kv_indptr_buffer paged_kv_indices_buffer paged_kv_last_page_len_buffer qo_indptr_buf "
    "paged_kv_indptr_buf paged_kv_indices_buf paged_kv_last_page_len_buf kv_indptr_buf "
    "custom_mask_buf mask_indptr_buf qo_indptr_buf_arr paged_kv_indptr_buf_arr "
    "paged_kv_indices_buf_arr paged_kv_last_page_len_buf_arr"
).split()
HINTS |= {name: NO_GRAPH for name in BUFFERS}
OF_ATTENTION = {
    "pos_encoding_mode": ["ALIBI", "ROPE_LLAMA", "NOPE"],
    "window_left": 1,
    "logits_soft_cap": 2.0,
    "sm_scale": 0.3,
}
SCALES = {"q_scale": 0.5, "k_scale": 0.5, "v_scale": torch.tensor(0.5)}
OUTPUTS = {
    "out": lambda _: to_write(TOKENS, HEADS, DIM),
    "lse": lambda _: to_write(TOKENS, HEADS),
    "return_lse": True,
}
INIT = {
    "kv_layout": ["HND", "NDH"],
    "use_cuda_graph": True,
    "backend": "cutlass",
    "jit_args": ["name"],
    "jit_kwargs": {"name": 1},
}
MASK = torch.arange(36 + 15) % 3 > 0  # [queries, keys] of each sequence, flat
AGREES = {
    "num_qo_heads": "q",
    "num_heads": "q_nope",
    "head_dim": "q",
    "head_dim_qk": "q",
    "head_dim_ckv": "q_nope",
    "head_dim_kpe": "q_pe",
    "q_len_per_req": "q",
    "page_size": "kv_len_arr",
    "kv_indptr": "kv_len_arr",
    "num_levels": "qo_indptr_arr",
    "data_type": "q_data_type",
    "v": "s",
}
BITS = ints(*range(7)).to(torch.uint8)


def cache(dtype: torch.dtype = F32) -> tuple[torch.Tensor, torch.Tensor]:
    return tuple((random((6, PAGE, KV_HEADS, DIM), F32, s) * 9).to(dtype) for s in (2, 3))


def pages() -> dict[str, torch.Tensor]:
    """12 and 5 tokens in 3 and 2 pages."""
    return {"indptr": ints(0, 3, 5), "indices": ints(5, 1, 2, 0, 3), "last_page_len": ints(4, 1)}


def paged(values: dict[str, Any]) -> dict[str, Any]:
    return {f"paged_kv_{name}": x for name, x in values.items()}


PAGES = {
    "indptr": ints(0, 2, 5),
    "indices": [ints(1, 5, 2, 0, 3), ints(5, 1, 2, 0, 9)],
    "last_page_len": [ints(3, 1), ints(4, 0)],
}
TABLES = {
    "seq_lens": [ints(11, 5), ints(13, 5)],
    "block_tables": ints(1, 5, 2, 0, 3, 0).view(2, 3),
    "page_size": 2,
}
SIZES = {"num_qo_heads": 2, "num_kv_heads": 4}
DTYPES = {name: torch.bfloat16 for name in ("q_data_type", "kv_data_type", "o_data_type")}
SPLITS = {
    name: "the same bits in small problems; test_flashinfer.py has large ones"
    for name in ("fixed_split_size", "disable_split_kv")
}


@dataclasses.dataclass
class Wrapped:
    """A wrapper from its constructor to run, of which one method's arguments are walked."""

    kind: type
    init: Callable[[], dict[str, Any]]
    plan: Callable[[], dict[str, Any]]
    run: Callable[[], dict[str, Any]]
    agrees: dict[str, str] = dataclasses.field(default_factory=lambda: {"kv_layout": "the cache"})

    def walk(
        self,
        method: str,
        changes: dict[str, Any],
        own: dict[str, str] | None = None,
        runs: str = "run",
    ) -> Walk:
        """method: init, plan, run or forward. runs: what is called behind plan."""
        function = {"init": self.kind.__init__}.get(method) or getattr(self.kind, method)
        parameters = parameters_of(function, "self")

        def call(**values: Any) -> list[torch.Tensor]:
            given = {"init": self.init(), "plan": self.plan(), "run": self.run(), method: values}
            wrapper = self.kind(**given["init"])
            called(wrapper.plan, given["plan"])
            result = called(
                getattr(wrapper, method if method == "forward" else runs),
                given[method if method == "forward" else "run"],
            )
            return tensors(result, given.get("run", {}).get("paged_kv_cache"))

        make = getattr(self, "run" if method == "forward" else method)
        hints = {name: why for name, why in (HINTS | (own or {})).items() if name in parameters}
        changes = {name: x for name, x in changes.items() if name in parameters}
        agrees = AGREES | self.agrees
        return Walk(
            f"{self.kind.__name__}.{method}", parameters, make, call, changes, hints, agrees
        )


def no_init() -> dict[str, Any]:
    return {"float_workspace_buffer": None}


def decode_plan() -> dict[str, Any]:
    sizes = {"num_qo_heads": HEADS, "num_kv_heads": KV_HEADS, "head_dim": DIM, "page_size": PAGE}
    table = {
        "indptr": ints(0, 3, 5, 6, 7, 9),
        "indices": ints(5, 1, 2, 0, 3, 4, 4, 2, 2),
        "last_page_len": ints(4, 1, 2, 3, 4),
    }
    return table | sizes | {"data_type": "float32"}


def decode_run() -> dict[str, Any]:
    return {"q": random((TOKENS, HEADS, DIM), F32, 1), "paged_kv_cache": cache()}


def prefill_plan() -> dict[str, Any]:
    sizes = {"num_qo_heads": HEADS, "num_kv_heads": KV_HEADS, "head_dim_qk": DIM, "page_size": PAGE}
    return (
        paged(pages())
        | {"qo_indptr": ints(0, 3, 5)}
        | sizes
        | {"q_data_type": "float32", "causal": True}
    )


def ragged_plan() -> dict[str, Any]:
    sizes = {"num_qo_heads": HEADS, "num_kv_heads": KV_HEADS, "head_dim_qk": DIM}
    return {
        "qo_indptr": ints(0, 3, 5),
        "kv_indptr": ints(0, 12, 17),
        "q_data_type": "float32",
        "causal": True,
    } | sizes


def ragged_run() -> dict[str, Any]:
    k, v = (random((17, KV_HEADS, DIM), F32, s) for s in (2, 3))
    return {"q": random((TOKENS, HEADS, DIM), F32, 1), "k": k, "v": v}


def lengths_plan() -> dict[str, Any]:
    return {
        "qo_indptr": ints(0, 3, 5),
        "kv_indptr": ints(0, 3, 5),
        "kv_indices": ints(5, 1, 2, 0, 3),
        "kv_len_arr": ints(12, 5),
        "page_size": PAGE,
        "causal": True,
        "q_data_type": F32,
        "kv_data_type": F32,
    }


def attention_plan() -> dict[str, Any]:
    sizes = {
        "num_qo_heads": HEADS,
        "num_kv_heads": KV_HEADS,
        "head_dim_qk": DIM,
        "head_dim_vo": DIM,
    }
    return lengths_plan() | sizes


def attention_run() -> dict[str, Any]:
    return {"q": random((TOKENS, HEADS, DIM), F32, 1), "kv_cache": cache()}


def sink_init() -> dict[str, Any]:
    return no_init() | {
        "q_data_type": F32,
        "kv_data_type": F32,
        "head_dim_qk": DIM,
        "head_dim_vo": DIM,
    }


def sink_plan() -> dict[str, Any]:
    given = prefill_plan()
    names = parameters_of(flashinfer.BatchPrefillWithPagedKVCacheWrapper.plan, "self")
    rest = {name: given[name] for name in names[1:] if name in given}
    return {"args": (given["qo_indptr"],), "kwargs": rest}


def mla_plan() -> dict[str, Any]:
    sizes = {"num_heads": HEADS, "head_dim_ckv": DIM, "head_dim_kpe": 16}
    return lengths_plan() | sizes | {"sm_scale": 0.2}


def mla_run() -> dict[str, Any]:
    return {
        "q_nope": random((TOKENS, HEADS, DIM), F32, 1),
        "q_pe": random((TOKENS, HEADS, 16), F32, 4),
        "ckv_cache": random((6, PAGE, DIM), F32, 2),
        "kpe_cache": random((6, PAGE, 16), F32, 3),
        "return_lse": True,
    }


def levels_plan() -> dict[str, Any]:
    """All 5 queries over a page, then 3 and 2 over pages of their own."""
    return {
        "qo_indptr_arr": [ints(0, 5), ints(0, 3, 5)],
        "paged_kv_indptr_arr": [ints(0, 1), ints(0, 2, 4)],
        "paged_kv_indices_arr": [ints(4), ints(5, 1, 0, 3)],
        "paged_kv_last_page_len": [ints(4), ints(4, 1)],
        "num_qo_heads": HEADS,
        "num_kv_heads": KV_HEADS,
        "head_dim": DIM,
        "page_size": PAGE,
        "causal": True,
        "q_data_type": F32,
    }


DECODE = Wrapped(flashinfer.BatchDecodeWithPagedKVCacheWrapper, no_init, decode_plan, decode_run)
PREFILL = Wrapped(flashinfer.BatchPrefillWithPagedKVCacheWrapper, no_init, prefill_plan, decode_run)
RAGGED = Wrapped(
    flashinfer.BatchPrefillWithRaggedKVCacheWrapper,
    no_init,
    ragged_plan,
    ragged_run,
    {"kv_layout": "k"},
)
ATTENTION = Wrapped(flashinfer.BatchAttention, dict, attention_plan, attention_run)
SINKS = Wrapped(flashinfer.BatchAttentionWithAttentionSinkWrapper, sink_init, sink_plan, decode_run)
MLA = Wrapped(
    flashinfer.BatchMLAPagedAttentionWrapper,
    no_init,
    mla_plan,
    mla_run,
    {"q_data_type": "q_nope", "kv_data_type": "ckv_cache"},
)
LEVELS = Wrapped(
    flashinfer.MultiLevelCascadeAttentionWrapper,
    lambda: no_init() | {"num_levels": 2},
    levels_plan,
    decode_run,
)


def both(x: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return tuple(other(part) for part in x)


def changed_level(i: int, level: torch.Tensor) -> Callable:
    return lambda levels: [*levels[:i], level, *levels[i + 1 :]]


SINK = torch.tensor([0.5, -1.0, 2.0, 0.0])
RUN = (
    {"q": other, "paged_kv_cache": both, "kv_cache": both, "args": (1,), "window_left": 2}
    | {"sinks": SINK, "q_len_per_req": 2, "o_scale": 2.0, "k": other, "v": other}
    | {"skip_softmax_threshold_scale_factor": 0.5, "kv_cache_sf": cache(), "profiler_buffer": SINK}
    | {"logits_soft_cap": 2.0}
    | SCALES
    | OUTPUTS
)
FORWARD = RUN | OF_ATTENTION | {"causal": True}
NO_ITEMS = {
    "prefix_len_ptr": ints(1),
    "token_pos_in_items_ptr": ints(1),
    "token_pos_in_items_len": 1,
    "max_item_len_ptr": ints(1),
}
PLAN = OF_ATTENTION | DTYPES | SIZES | TABLES | NO_ITEMS
PREFILL_PLAN = (
    PLAN
    | paged(PAGES)
    | {
        "qo_indptr": ints(0, 2, 5),
        "kv_indptr": ints(0, 11, 17),
        "head_dim_qk": 16,
        "head_dim_vo": 16,
        "causal": False,
        "custom_mask": MASK[: 3 * 12 + 2 * 5],
        "packed_custom_mask": BITS[: -(-(3 * 12 + 2 * 5) // 8)],
        "seq_lens_q": ints(2, 3),
        "max_token_per_sequence": 2,
        "max_sequence_kv": 11,
    }
)
LENGTHS = {
    "qo_indptr": ints(0, 2, 5),
    "kv_indptr": ints(0, 2, 5),
    "kv_indices": [ints(1, 5, 2, 0, 3), ints(5, 1, 2, 0, 9)],
    "kv_len_arr": [ints(11, 5), ints(13, 5)],
    "page_size": 2,
    "causal": False,
    "use_profiler": True,
    "head_dim_qk": 16,
    "head_dim_vo": 16,
}
MLA_BUFFERS = {name: NO_GRAPH for name in ("qo_indptr", "kv_indptr", "kv_indices", "kv_len_arr")}

WRAPPERS = [
    DECODE.walk("init", INIT),
    DECODE.walk(
        "plan",
        PLAN
        | {
            "indptr": ints(0, 2, 5, 6, 7, 9),
            "indices": PAGES["indices"][0].repeat(2)[:9],
            "last_page_len": ints(3, 1, 2, 3, 4),
        }
        | {"head_dim": 16, "data_type": "bfloat16", "q_len_per_req": 2, "window_right": 1}
        | {"seq_lens": ints(11, 5, 2, 3, 8), "block_tables": ints(*range(15)).view(5, 3) % 6},
        SPLITS,
    ),
    DECODE.walk("run", RUN),
    DECODE.walk("forward", FORWARD),
    PREFILL.walk("init", INIT),
    PREFILL.walk("plan", PREFILL_PLAN, SPLITS),
    PREFILL.walk("run", RUN),
    PREFILL.walk("forward", FORWARD),
    RAGGED.walk("init", INIT),
    RAGGED.walk("plan", PREFILL_PLAN, SPLITS),
    RAGGED.walk("run", RUN),
    RAGGED.walk("forward", FORWARD),
    ATTENTION.walk("init", INIT | {"device": "cuda"}),
    ATTENTION.walk("plan", PLAN | LENGTHS),
    ATTENTION.walk("run", RUN),
    SINKS.walk(
        "init",
        INIT
        | DTYPES
        | {"pos_encoding_mode": "ALIBI", "head_dim_qk": 16, "head_dim_vo": 16, "window_left": 3},
    ),
    SINKS.walk(
        "plan",
        {
            "kwargs": [
                lambda x, c=c: x | c
                for c in (
                    {"causal": False},
                    {"sm_scale": 0.3},
                    {"window_left": 1},
                    {"q_data_type": torch.bfloat16},
                )
            ],
            "args": (ints(0, 2, 5),),
        },
    ),
    SINKS.walk(
        "run",
        RUN | {"args": [(SINK,), (None, 0.3)], "kwargs": [{"k_scale": 0.5}, {"return_lse": True}]},
    ),
    SINKS.walk("forward", FORWARD),
    MLA.walk("init", INIT, MLA_BUFFERS),
    MLA.walk(
        "plan",
        LENGTHS
        | DTYPES
        | {"num_heads": 2, "head_dim_ckv": 16, "head_dim_kpe": 32, "sm_scale": 0.3},
    ),
    MLA.walk(
        "run",
        RUN
        | {name: other for name in ("q_nope", "q_pe", "ckv_cache", "kpe_cache")}
        | {"kv_len": ints(1), "page_table": ints(1)}
        | {"return_lse": False, "return_lse_base_on_e": True},
    ),
    LEVELS.walk("init", INIT | {"num_levels": [1, 0]}),
    LEVELS.walk(
        "plan",
        PLAN
        | {
            "qo_indptr_arr": [
                changed_level(1, ints(0, 2, 5)),
                changed_level(1, ints(0, 3, 6)),
                lambda x: x[:1],
            ],
            "paged_kv_indptr_arr": changed_level(1, ints(0, 3, 4)),
            "paged_kv_indices_arr": changed_level(0, ints(2)),
            "paged_kv_last_page_len": [changed_level(0, ints(3)), changed_level(0, ints(5))],
            "head_dim": 16,
            "causal": False,
        },
    ),
    LEVELS.walk("run", RUN),
    LEVELS.walk("forward", RUN),
]
