# SPDX-License-Identifier: Apache-2.0
"""generate and generate_batch of transformers: attention "sdpa" beside "folio_flash"."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

from .model import make, prompts
from .timing import Row

_NEW = 17  # tokens generated; the first belongs to the prefill
SHAPES = {  # (context, batch)
    "generate": [(1024, 1), (1024, 8), (8192, 1), (32768, 1)],
    "generate_batch": [(1024, 8), (8192, 1), (32768, 1)],
}


def _shapes(part: str, longest: int) -> list[tuple[int, int]]:
    return [shape for shape in SHAPES[part] if shape[0] <= longest]


class _Clock:
    """A streamer that notes when each step's tokens come."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def put(self, tokens: object) -> None:
        self.times.append(time.perf_counter())

    def end(self) -> None:
        pass


def generate(longest: int, head_size: int) -> Iterator[Row]:
    """Tokens a second of prefill and of decoding, per context and batch."""
    import torch

    import folio_kv.transformers as folio

    folio.register()
    shapes = _shapes("generate", longest)
    model = make(head_size, max(context for context, _ in shapes) + _NEW)

    def once(name: str, tokens: torch.Tensor, new: int) -> tuple[float, float, torch.Tensor]:
        """Seconds of the prefill and of a decoded step, and the tokens."""
        cache = {}
        if name == "folio":
            cache["past_key_values"] = folio.FolioCache(
                model.config, capacity=tokens.shape[1] + new
            )
        model.set_attn_implementation("folio_flash" if name == "folio" else "sdpa")
        clock = _Clock()
        out = model.generate(
            tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=new, min_new_tokens=new,
            do_sample=False, streamer=clock, **cache,
        )  # fmt: skip
        steps = [b - a for a, b in zip(clock.times[1:], clock.times[2:])]
        return clock.times[1] - clock.times[0], statistics.median(steps), out

    with torch.no_grad():
        for context, batch in shapes:
            tokens = torch.tensor(prompts(batch, context))
            rounds = 1 if context > 1024 else 3
            seen: dict[str, list[tuple[float, float]]] = {"folio": [], "sdpa": []}
            once("folio", tokens[:, :64], 3), once("sdpa", tokens[:, :64], 3)
            for _ in range(rounds):
                for name, times in seen.items():
                    prefill, step, _ = once(name, tokens, _NEW)
                    times.append((batch * context / prefill, batch / step))
            for i, what in enumerate(("prefill", "decode")):
                values = {n: statistics.median(t[i] for t in times) for n, times in seen.items()}
                yield Row("generate", f"{what}, {batch} of {context:,}", "tokens/s", values)


def generate_batch(longest: int, head_size: int) -> Iterator[Row]:
    """Tokens a second of continuous batching: until each request has a token, and from then on."""
    import torch

    import folio_kv.transformers as folio

    folio.register()
    shapes = _shapes("generate_batch", longest)
    model = make(head_size, max(context for context, _ in shapes) + _NEW + _most_steps(shapes))

    with torch.no_grad():
        for name in "folio", "sdpa":
            _batched(model, name, 64, 1)
        for context, batch in shapes:
            seen: dict[str, list[tuple[float, float]]] = {"folio": [], "sdpa": []}
            for _ in range(1 if context > 1024 else 3):
                for name, rates in seen.items():
                    rates.append(_batched(model, name, context, batch))
            for i, what in enumerate(("prefill", "decode")):
                values = {n: statistics.median(r[i] for r in rates) for n, rates in seen.items()}
                yield Row("generate_batch", f"{what}, {batch} of {context:,}", "tokens/s", values)


_PAGE, _STEP = 256, 512  # tokens of a page, and of a step of continuous batching


def _most_steps(shapes: list[tuple[int, int]]) -> int:
    return max(-(-context * batch // _STEP) for context, batch in shapes)


def _batched(model, name: str, context: int, batch: int) -> tuple[float, float]:
    """Tokens a second of the prompts and of decoding, all requests together.

    The first requests decode while the last prompts are read, so all generate that much more.
    """
    from transformers import GenerationConfig
    from transformers.generation import ContinuousBatchingConfig

    new = _NEW + _most_steps([(context, batch)])
    model.set_attn_implementation("folio_flash" if name == "folio" else "sdpa")
    begin = time.perf_counter()
    results = model.generate_batch(
        inputs=prompts(batch, context),
        generation_config=GenerationConfig(
            max_new_tokens=new, do_sample=False, eos_token_id=-1, pad_token_id=0
        ),
        continuous_batching_config=ContinuousBatchingConfig(
            page_size=_PAGE,
            num_blocks=batch * (-(-(context + new) // _PAGE) + 1),
            max_batch_tokens=_STEP,
        ),
        record_timestamps=True,
        progress_bar=False,
    )
    times = [result.timestamps for result in results.values()]
    if [len(of_request) for of_request in times] != [new] * batch:
        counts = [len(of_request) for of_request in times]
        raise RuntimeError(f"generate_batch: {name} gave {counts} tokens, expected {new} each")
    all_begun = max(of_request[0] for of_request in times)
    steps = [
        b - a for of_request in times for a, b in zip(of_request, of_request[1:]) if a >= all_begun
    ]
    return batch * context / (all_begun - begin), batch / statistics.median(steps)
