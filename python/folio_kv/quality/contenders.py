# SPDX-License-Identifier: Apache-2.0
"""Caches side by side under one model of transformers', piece by piece of a text, then token by
token: only one piece of the reference's logits is kept.
"""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache

from ..errors import Error
from .cache_types import CacheType
from .outcome import Outcome
from .scores import Tally, log_probabilities

__all__ = ["Contender", "compare"]

PIECE = 512
CALIBRATED = 512  # tokens of the text, from its beginning


class RoundedCache(DynamicCache):
    """transformers' cache of rows that were rounded to float8 with the scale 1, as vLLM stores them."""

    def update(self, key: torch.Tensor, value: torch.Tensor, *more: Any, **named: Any) -> Any:
        return super().update(_as_float8(key), _as_float8(value), *more, **named)


def _as_float8(x: torch.Tensor) -> torch.Tensor:
    return x.clamp(-448, 448).to(torch.float8_e4m3fn).to(x.dtype)


class Contender:
    """A type of cache under the model, with what it has brought so far. Errors: the cache's own."""

    def __init__(self, row: CacheType, model: Any, scales: Callable[[], Any] | None = None):
        self.outcome = Outcome(row.name, row.engine)
        self.model, self.tally, self.steps = model, Tally(), []
        self.attention, self.cache = _made(row, model, scales)

    def logits(self, tokens: torch.Tensor, kept: torch.Tensor) -> np.ndarray:
        """Of rows `kept` of these tokens, which stand behind those before."""
        self.model.set_attn_implementation(self.attention)
        with torch.inference_mode():
            out = self.model(tokens, past_key_values=self.cache, logits_to_keep=kept)
        return out.logits[0].float().numpy()

    def forget(self) -> None:
        """What was left out so far does not count."""
        if hasattr(self.cache, "watch"):
            self.cache.watch = type(self.cache.watch)()

    def step(self, token: int) -> int:
        """Decodes a token and notes the time: the token that follows."""
        begin = time.perf_counter()
        following = int(self.logits(torch.tensor([[token]]), torch.tensor([0])).argmax())
        self.steps.append(time.perf_counter() - begin)
        return following

    def finish(self) -> Outcome:
        figures = {"bytes_per_token": bytes_per_token(self.cache), **self.tally.figures()}
        if (choice := getattr(self.cache, "sparse_pages", None)) is not None and choice.watched:
            left_out = self.cache.left_out()
            figures |= {"keys_read": left_out.keys, "weights_left_out": left_out.share}
        if self.steps:
            figures["tokens_per_second"] = 1 / statistics.median(self.steps)
        self.outcome.figures = figures
        return self.outcome


def _made(row: CacheType, model: Any, scales: Callable[[], Any] | None) -> tuple[str, Any]:
    """The name of the attention and the cache. scales: of channels, for rows that want them."""
    if row.engine == "vllm":
        return "sdpa", RoundedCache(config=model.config)
    import folio_kv.transformers as folio

    folio.register()
    options = dict(row.options)
    if options.pop("calibrated", False):
        options["channel_scales"] = scales()
    if choice := options.get("sparse_pages"):
        options["sparse_pages"] = folio.SparsePages(**choice)
    try:
        cache = folio.FolioCache(model.config, **options)
    except TypeError as error:
        raise Error(f"this folio_kv has no such cache: {error}") from error
    for layer in cache.layers:  # a window's piece would be attended to before it is stored
        if hasattr(layer, "activate_past_recording"):
            layer.activate_past_recording()
    return "folio_flash", cache


def _calibrated(model: Any, tokens: Sequence[int]) -> Any:
    import folio_kv.transformers as folio

    return folio.calibrate(model, torch.tensor([list(tokens)]))


def bytes_per_token(cache: Any) -> float:
    """Of keys and values with their scales, in all attention layers, as if none had a window."""
    if isinstance(cache, DynamicCache):
        each = 1 if isinstance(cache, RoundedCache) else 4
        rows = [x for layer in cache.layers for x in (layer.keys, layer.values) if x is not None]
        return float(sum(each * x.shape[1] * x.shape[3] for x in rows))
    planes = [layer.planes for layer in cache.layers if getattr(layer, "planes", None) is not None]
    return sum(x.nbytes / (x.pages.num_pages * x.pages.page_size) for x in planes)


def compare(
    model: Any,
    rows: Sequence[CacheType],
    tokens: Sequence[int],
    *,
    scored_each: int,
    decoded: int,
    scored_from: int = 0,
    say: Callable[[str], None] = lambda text: None,
) -> list[Outcome]:
    """The reference, then each row in turn. tokens: those of the text, and the one behind them."""
    reference = Contender(CacheType("reference", "vllm", {}), model)
    reference.cache = DynamicCache(config=model.config)
    reference.outcome = Outcome("reference", "transformers")
    refused: dict[str, Outcome] = {}
    running: list[Contender] = []
    scales = functools.cache(lambda: _calibrated(model, tokens[:CALIBRATED]))
    for row in rows:
        try:
            running.append(Contender(row, model, scales))
        except Error as error:
            refused[row.name] = Outcome(row.name, row.engine, refused=str(error))
    ids = torch.tensor(list(tokens))
    for at in range(0, len(tokens) - 1, PIECE):
        end = min(at + PIECE, len(tokens) - 1)
        if at <= scored_from < end:
            for contender in running:
                contender.forget()
        own = torch.arange(at, end)
        scored = own[(own >= scored_from) & (own % scored_each == 0)]
        _score(reference, running, refused, ids, slice(at, end), scored)
        say(f"{end} of {len(tokens) - 1} tokens")
    _decode([reference, *running], int(tokens[-1]), decoded)
    done = {x.outcome.name: x.finish() for x in running} | refused
    return [reference.finish(), *(done[row.name] for row in rows)]


def _score(
    reference: Contender,
    running: list[Contender],
    refused: dict[str, Outcome],
    ids: torch.Tensor,
    piece: slice,
    scored: torch.Tensor,
) -> None:
    """One piece of the text, of which the tokens `scored` are scored, or none; who cannot serve it
    leaves."""
    targets = ids[scored + 1].numpy()
    kept = scored - piece.start if len(scored) else torch.tensor([0])  # 0 tokens would mean all
    logits = reference.logits(ids[None, piece], kept)
    exact = log_probabilities(logits)
    reference.tally.add(logits, exact, targets)
    for contender in list(running):
        try:
            contender.tally.add(contender.logits(ids[None, piece], kept), exact, targets)
        except Error as error:
            running.remove(contender)
            contender.outcome.refused = str(error)
            refused[contender.outcome.name] = contender.outcome


def _decode(contenders: list[Contender], token: int, count: int) -> None:
    """Greedy tokens behind the text, those that compare in turns; the first is not timed."""
    following = [token] * len(contenders)
    for at in range(count + 1 if count else 0):
        following = [x.step(y) for x, y in zip(contenders, following)]
        if at == 0:
            for contender in contenders:
                contender.steps.clear()
