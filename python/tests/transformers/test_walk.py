# SPDX-License-Identifier: Apache-2.0
"""Every argument of folio_kv.transformers is used, or refused by its name, or a hint that is listed
here; options of attention that nobody knows go to the model's own attention.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from architectures import build
from arguments import Walk, check_complete, parameters_of, tensors, walks
from attention_cases import Layer, operands
from cache_cases import logits_after, random_tokens

import folio_kv
import folio_kv.transformers as folio
from folio_kv.transformers import FolioCache
from folio_kv.transformers.attention import attention
from folio_kv.transformers.problem import NOT_FOR_ATTENTION, READ

BATCH, QUERIES, KEYS = 1, 5, 11


def call() -> dict[str, Any]:
    q, k, v = operands(BATCH, QUERIES, KEYS)
    return {"module": Layer(2), "query": q, "key": k, "value": v, "scaling": 0.25}


def packed() -> dict[str, Any]:
    ends = {
        "cu_seq_lens_q": torch.tensor([0, 2, QUERIES], dtype=torch.int32),
        "cu_seq_lens_k": torch.tensor([0, 4, KEYS], dtype=torch.int32),
        "max_length_q": 3,
        "max_length_k": 7,
    }
    return call() | ends


def served(**values: Any) -> list[torch.Tensor]:
    """The results; what folio leaves to the model's own attention says so as a refusal."""
    out, _ = attention(**values)
    if why := folio.reporting.reason(values["module"]):
        raise folio_kv.Unsupported(why)
    return tensors(out)


def other(x: torch.Tensor) -> torch.Tensor:
    return x * 1.5 + 0.125


def of_cache(**options: Any) -> list[torch.Tensor]:
    """Two steps on a FolioCache, and what they have taken."""
    model = build("gemma2")
    cache = FolioCache(**options)
    steps = [random_tokens(2, 9), random_tokens(2, 1)]
    sizes = torch.tensor([cache.nbytes, cache.pool.num_pages if cache.pool else 0])
    logits = logits_after(model, "folio", cache, steps)
    sizes = torch.tensor([cache.nbytes, cache.pool.num_pages, cache.pool.page_size])
    return tensors(logits, sizes)


def without_windows(config: Any) -> Any:
    config = copy.deepcopy(config)
    config.layer_types = ["full_attention"] * config.num_hidden_layers
    return config


def factors(_: Any = None) -> list[torch.Tensor]:
    """Of the channels of keys of the model that `cache` is for."""
    config = build("gemma2").config
    shape = config.num_key_value_heads, config.head_dim
    return [torch.linspace(0.5, 2.0, shape[0] * shape[1]).view(shape)] * config.num_hidden_layers


MASK = torch.zeros(1, 1, QUERIES, KEYS).masked_fill_(torch.arange(KEYS) == 2, -torch.inf)
ATTENTION = {
    "module": lambda _: Layer(2, is_causal=False),
    "query": other,
    "key": other,
    "value": other,
    "attention_mask": MASK,
    "cache": "pages",
}
OPTIONS = {
    "scaling": 0.5,
    "softcap": 2.0,
    "sliding_window": 3,
    "is_causal": False,
    "dropout": 0.5,
    "output_attentions": True,
    "position_bias": torch.arange(4 * QUERIES * KEYS).view(1, 4, QUERIES, KEYS) / 50,
    "indices": torch.tensor([[[0, 1, 2]] * QUERIES]),
    "s_aux": torch.tensor([0.5, -1.0, 2.0, 0.0]),
    "sinks": torch.tensor([0.5, -1.0, 2.0, 0.0]),
}
ENDS = {
    "cu_seq_lens_q": torch.tensor([0, 3, QUERIES], dtype=torch.int32),
    "cu_seq_lens_k": torch.tensor([0, 5, KEYS], dtype=torch.int32),
    "max_length_q": 2,
    "max_length_k": 6,
}
HINTS = {name: "not for attention" for name in NOT_FOR_ATTENTION}
CACHE = {
    "config": lambda config: without_windows(config),
    "dtype": ["i8", "int8", "int8_per_row", "fp8", "int4", "int3"],
    "v_dtype": "i8",
    "granularity": 8,
    "scale_dtype": "f16",
    "rotated": [True, 48],
    "channel_scales": factors,
    "capacity": [128, 0],
    "page_size": [4, 0],
    "sparse_pages": [32, 0],
}


def cache() -> dict[str, Any]:
    return {"config": build("gemma2").config}


def cache_int8() -> dict[str, Any]:
    return cache() | {"dtype": "i8"}


CASES = [
    Walk("attention", READ, call, served, OPTIONS | ENDS, {}),
    Walk("packed", ENDS, packed, served, ENDS, {}, {"cu_seq_lens_q": "max_length_q"}),
    Walk(
        "named",
        [n for n in parameters_of(attention) if n != "options"],
        call,
        served,
        ATTENTION,
        {},
    ),
    Walk("FolioCache", parameters_of(FolioCache.__init__, "self"), cache, of_cache, CACHE, {}),
    Walk(
        "FolioCache",
        parameters_of(FolioCache.__init__, "self"),
        cache_int8,
        of_cache,
        {
            name: CACHE[name]
            for name in ("v_dtype", "granularity", "scale_dtype", "rotated", "channel_scales")
        }
        | {"v_dtype": "f16"},
        {},
    ),
]


@pytest.mark.parametrize("name", sorted({walk.name for walk in CASES}))
def test_all_parameters_are_walked(name: str) -> None:
    check_complete(CASES, name)


@pytest.mark.parametrize("walk, parameter", walks(CASES))
def test_an_argument_is_used_or_refused(walk: Walk, parameter: str) -> None:
    walk.check(parameter)


def test_an_unknown_option_goes_to_the_models_own_attention() -> None:
    values = call() | {"block_indices": torch.zeros(1)}
    with pytest.raises(folio_kv.Unsupported, match="does not know the option block_indices"):
        served(**values)
    for name in NOT_FOR_ATTENTION:
        assert torch.equal(served(**call() | {name: 1})[0], served(**call())[0])


def test_functions_without_effects_have_no_arguments() -> None:
    assert parameters_of(folio.register) == []
    assert parameters_of(folio.report) == ["model"]
    assert not folio.report(torch.nn.Linear(2, 2)).layers and folio.report(build("llama")).layers
