# SPDX-License-Identifier: Apache-2.0
"""Tries, with a few tokens of a loaded model, what can be done with the states of its context."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from folio_llama_cpp.sequences import WHOLE_STATES, Form, Sequence, form_of
from folio_llama_cpp.states import HEADER, Bytes, Unknown

_TOKENS, _FIRST = 4, 2  # of the probe; of its first piece
_TOLERANCE = 1e-3  # of the largest logit: a GPU may add in another order


def probe(model: Any, context: Sequence, windows: int, say: Callable[[str], None]) -> Form:
    """How the states of a model's context are kept: by tokens where a state that was cut and put
    together is, byte by byte, the one that llama.cpp makes, and gives the same logits; else whole,
    which `say` is told. The context is empty behind it. Raises Unknown where not even whole states
    come back."""
    try:
        _decode(model, context, 0, _TOKENS)
        try:
            form = form_of(context, _TOKENS, windows)
            _try(model, context, form)
        except Unknown as reason:
            say(
                f"prompts are kept as whole states, by ends of requests and not by tokens: {reason}"
            )
            form = WHOLE_STATES
            _decode(model, context, 0, _TOKENS)
            _try(model, context, form)
        return form
    finally:
        context.clear()
        model._batch.reset()


def _try(model: Any, context: Sequence, form: Form) -> None:
    """Raises Unknown where the context, which holds the probe, is another after its state was cut,
    put together and restored."""
    state, layout = context.whole(), form.layout
    if not form.is_whole:
        pieces = [
            context.tokens(layout, first, last) for first, last in ((0, _FIRST), (_FIRST, _TOKENS))
        ]
        rest = form.rest(context) if form.has_rest else np.empty(0, np.uint8)
        joined = layout.frame(_TOKENS, len(rest))
        layout.scatter(joined, _TOKENS, 0, _joined(form, pieces))
        joined[len(joined) - len(rest) :] = rest
        if not np.array_equal(joined[HEADER.size :], state[HEADER.size :]):
            raise Unknown("a state that is put together differs from llama.cpp's")
    logits = _decode(model, context, _TOKENS, 1)
    if not context.write(state, _TOKENS):
        raise Unknown("llama.cpp does not take its own state back")
    if not np.array_equal(context.whole()[HEADER.size :], state[HEADER.size :]):
        raise Unknown("llama.cpp's state is another after it was restored")
    again = _decode(model, context, _TOKENS, 1)
    if not np.allclose(logits, again, rtol=0, atol=_TOLERANCE * float(np.abs(logits).max())):
        raise Unknown("logits are others behind a state that was restored")


def _joined(form: Form, pieces: list[Bytes]) -> Bytes:
    """The bytes of the probe's tokens, as a page has them."""
    counts = (_FIRST, _TOKENS - _FIRST)
    regions = [
        form.layout.regions(piece, count) for piece, count in zip(pieces, counts, strict=True)
    ]
    return np.concatenate(
        [np.concatenate(both, axis=1).reshape(-1) for both in zip(*regions, strict=True)]
    )


def _decode(model: Any, context: Sequence, first: int, count: int) -> Any:
    """Evaluates the probe's tokens from `first` on, one by one; the last one's logits."""
    if first == 0:
        context.clear()
    for position in range(first, first + count):
        token = position % model.n_vocab()
        model._batch.set_batch(batch=[token], n_past=position, logits_all=False)
        model._ctx.decode(model._batch)
    found = model._ctx.get_logits_ith(-1)
    return np.ctypeslib.as_array(found, shape=(model.n_vocab(),)).copy()
