# SPDX-License-Identifier: Apache-2.0
"""One architecture, with eager attention and with folio: plain forward, cached decoding, continuous
batching.

Each check gives an `Outcome`: the worst difference between logits, or the reason why there is
nothing to compare. A difference is measured against `BOUND`: what float32 sums in another order may
cost in models of this size.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers
from architectures import VOCABULARY, build
from transformers import ContinuousBatchingConfig, GenerationConfig

import folio_kv.transformers as folio
from folio_kv.transformers import attention as attention_module
from folio_kv.transformers.masks import MaskTensor
from folio_kv.transformers.rows import CachedRows

BOUND = 1e-4
PROMPT, NEW, PADS = 21, 8, 5
# Refused by transformers for names with "flash": chunks beyond one chunk, and masks with a prefix.
NAMES_WITHOUT_FLASH = ("hrm_text", "llama4", "llama4_text")
CACHES_OF_THEIR_OWN = ("minimax",)


@dataclass
class Outcome:
    """`failure` says whose it is: "folio: ..." or "transformers: ..."; `skipped` why there is
    nothing to compare.
    """

    difference: float | None = None
    failure: str = ""
    skipped: str = ""

    def __str__(self) -> str:
        return "n/a" if self.skipped else "failed" if self.failure else "ok"


@dataclass
class Row:
    """What the table says about an architecture."""

    name: str
    forward: Outcome = field(default_factory=Outcome)
    generate: Outcome = field(default_factory=Outcome)
    continuous: Outcome = field(default_factory=Outcome)
    features: tuple[str, ...] = ()
    remarks: list[str] = field(default_factory=list)

    @property
    def outcomes(self) -> tuple[Outcome, Outcome, Outcome]:
        return self.forward, self.generate, self.continuous


def implementation_of(name: str) -> str:
    return "folio" if name in NAMES_WITHOUT_FLASH else "folio_flash"


def prompts(count: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens and padding mask [count, PROMPT]; all rows but the first are padded on the left."""
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(3, VOCABULARY, (count, PROMPT), generator=generator)
    mask = torch.ones_like(tokens)
    mask[1:, :PADS] = 0
    return torch.where(mask.bool(), tokens, 0), mask


def greedy() -> GenerationConfig:
    return GenerationConfig(
        max_new_tokens=NEW,
        do_sample=False,
        pad_token_id=0,
        eos_token_id=None,
        bos_token_id=1,
        output_logits=True,
        return_dict_in_generate=True,
    )


class Calls:
    """Records what the layers ask of the attention function while it is active."""

    def __init__(self) -> None:
        self.features: set[str] = set()
        self.count = 0

    def __enter__(self) -> Calls:
        for name in folio.NAMES:
            transformers.AttentionInterface.register(name, self._call)
        return self

    def __exit__(self, *error: Any) -> None:
        for name in folio.NAMES:
            transformers.AttentionInterface.register(name, attention_module.attention)

    def _call(
        self,
        module: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        **options: Any,
    ) -> Any:
        self.count += 1
        group = query.shape[1] // key.shape[1]
        self.features.add("MHA" if group == 1 else "MQA" if key.shape[1] == 1 else "GQA")
        scale = options.get("scaling")
        named = {
            "window": options.get("sliding_window") is not None,
            "softcap": options.get("softcap") is not None,
            "sinks": options.get("s_aux") is not None or options.get("sinks") is not None,
            "own scale": scale is not None and abs(scale - query.shape[-1] ** -0.5) > 1e-6,
            "bias": options.get("position_bias") is not None,
            "sparse": options.get("indices") is not None,
            "MLA": hasattr(module, "expand_kv"),
            "chunks": chunk_of(attention_mask) > 0,
            "KV of another layer": isinstance(key, CachedRows)
            and isinstance(module.layer_idx, int)
            and key.layer is not key.layer.owner.layers[module.layer_idx],
            "K dim != V dim": key.shape[-1] != value.shape[-1],
        }
        self.features |= {feature for feature, is_there in named.items() if is_there}
        return attention_module.attention(module, query, key, value, attention_mask, **options)


def _difference(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a.float() - b.float()).abs().max())


def chunk_of(mask: torch.Tensor | None) -> int:
    return mask.look().pattern.chunk if isinstance(mask, MaskTensor) else 0


def check_forward(model: Any, name: str) -> Outcome:
    """Logits of a forward without a cache, with left padding."""
    tokens, mask = prompts()
    logits = {}
    for implementation in ("eager", implementation_of(name)):
        model.set_attn_implementation(implementation)
        with torch.no_grad():
            logits[implementation] = model(
                input_ids=tokens, attention_mask=mask, use_cache=False
            ).logits[mask.bool()]
    first, second = logits.values()
    return _judged(_difference(first, second))


def _judged(difference: float) -> Outcome:
    if difference <= BOUND:
        return Outcome(difference)
    return Outcome(difference, failure=f"folio: logits differ by {difference:.1e}")


def check_generate(
    model: Any, name: str, make_cache: Callable[[Any], Any] = folio.FolioCache
) -> Outcome:
    """Greedy tokens and their logits, with left padding; eager with transformers' cache, folio with
    a FolioCache.
    """
    if name in CACHES_OF_THEIR_OWN:
        make_cache = lambda config: None
    tokens, mask = prompts()
    settings = greedy()
    if hasattr(model.config, "index_topk"):
        # No ends, behind which rows go on with padding: its embedding is 0, to an indexer all keys
        # are equal then, and of equal ones torch takes any.
        settings.suppress_tokens = [0, 1, 2]
    model.set_attn_implementation("eager")
    expected = model.generate(tokens, attention_mask=mask, generation_config=settings)
    model.set_attn_implementation(implementation_of(name))
    cache = make_cache(model.config)
    got = model.generate(
        tokens, attention_mask=mask, generation_config=settings, past_key_values=cache
    )
    if not torch.equal(expected.sequences, got.sequences):
        model.set_attn_implementation("eager")
        uncached = model.generate(
            tokens, attention_mask=mask, generation_config=settings, use_cache=False
        )
        if torch.equal(expected.sequences, uncached.sequences):
            return Outcome(failure="folio: other tokens")
        expected = uncached
        if not torch.equal(expected.sequences, got.sequences):
            return Outcome(failure="folio: other tokens, but so are eager's with its own cache")
    return _judged(max(_difference(a, b) for a, b in zip(expected.logits, got.logits)))


def batch_config() -> ContinuousBatchingConfig:
    """Few tokens a batch, so that prompts come in chunks beside rows that decode."""
    return ContinuousBatchingConfig(
        page_size=8,
        num_blocks=64,
        max_batch_tokens=24,
        max_requests_per_batch=4,
        allow_block_sharing=True,
        return_logprobs=True,
        use_cuda_graph=False,
        use_async_batching=False,
        auto_switch_to_flash=False,
    )


def run_batch(model: Any, requests: list[list[int]]) -> list[tuple[list[int], list[float]]]:
    """Tokens and their log-probabilities by transformers' continuous batching."""
    config = copy.copy(greedy())
    config.return_dict_in_generate = config.output_logits = None
    outputs = model.generate_batch(
        inputs=requests,
        generation_config=config,
        continuous_batching_config=batch_config(),
        progress_bar=False,
        warmup=False,
    )
    if len(outputs) != len(requests):
        raise RuntimeError(f"{len(outputs)} of {len(requests)} requests came back")
    by_prompt = {tuple(x.prompt_ids): x for x in outputs.values()}
    found = [by_prompt[tuple(request)] for request in requests]
    for output in found:
        if output.error:
            raise RuntimeError(output.error)
    return [(list(x.generated_tokens), list(x.logprobs)) for x in found]


def requests() -> list[list[int]]:
    """Prompts of four lengths, two of them with a common beginning of more than a page."""
    generator = torch.Generator().manual_seed(2)
    tokens = torch.randint(3, VOCABULARY, (45,), generator=generator).tolist()
    return [tokens[:30], tokens[:20] + tokens[40:], tokens[35:42], tokens[5:6]]


def check_continuous(model: Any, name: str) -> Outcome:
    """Greedy tokens and log-probabilities of `generate_batch` beside eager's uncached forwards over
    the same tokens.
    """
    asked = requests()
    found, difference = _in_batch(model, asked, "folio_flash")
    if not isinstance(found, str) and difference <= BOUND:
        return Outcome(difference)
    stock, stock_difference = _in_batch(model, asked, "eager")
    if isinstance(stock, str):
        return Outcome(
            skipped=f"transformers' continuous batching fails without folio too: {stock}"
        )
    if stock_difference > BOUND:
        beside = "fails with it" if isinstance(found, str) else "differs with it"
        return Outcome(
            skipped="transformers' continuous batching differs from eager forwards without folio, "
            f"and {beside}"
        )
    return Outcome(failure=f"folio: {found}") if isinstance(found, str) else _judged(difference)


def _in_batch(model: Any, asked: list[list[int]], implementation: str) -> tuple[Any, float]:
    """Answers of `generate_batch`, and their worst difference to eager forwards; or what it raised,
    and infinity.
    """
    try:
        model.set_attn_implementation(implementation)
        found = run_batch(model, asked)
    except Exception as error:
        return _first_line(error), float("inf")
    finally:
        model.set_attn_implementation("eager")
    return found, _against_eager(model, asked, found)


def _against_eager(
    model: Any, asked: list[list[int]], found: list[tuple[list[int], list[float]]]
) -> float:
    """Worst difference of log-probabilities to an eager forward over prompt and answer; infinite if
    a token is another.
    """
    worst = 0.0
    for request, (tokens, logprobs) in zip(asked, found):
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([request + tokens]), use_cache=False).logits[
                0, len(request) - 1 : -1
            ]
        if logits.argmax(-1).tolist() != tokens:
            return float("inf")
        expected = logits.float().log_softmax(-1).amax(-1)
        worst = max(worst, _difference(expected, torch.tensor(logprobs)))
    return worst


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:90] if text else ''}"


def compare(name: str) -> Row:
    """All checks of one architecture."""
    row = Row(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = build(name)
        checks = {
            "forward": check_forward,
            "generate": check_generate,
            "continuous": check_continuous,
        }
        with Calls() as calls:
            for kind, check in checks.items():
                try:
                    outcome = check(model, name)
                except Exception as error:
                    outcome = Outcome(failure=_first_line(error))
                setattr(row, kind, outcome)
                if kind == "forward":
                    row.remarks += stock_layers(model)
                if kind == "forward" and calls.count == 0 and not outcome.failure:
                    row.forward = Outcome(skipped="never asks for an attention function")
                    row.generate = row.continuous = row.forward
                    break
    row.features = tuple(sorted(calls.features))
    return row


def stock_layers(model: Any) -> list[str]:
    """Why layers ran the model's own attention in the last forward."""
    return sorted(
        {layer.reason for layer in folio.report(model).layers if layer.served_by == "stock"}
    )
