# SPDX-License-Identifier: Apache-2.0
"""The prompts of one loaded model: what its context holds is stored behind its requests, and what
a store has of a prompt is restored before them.

The tokens that stand in the context are followed from one evaluation to the next. Whatever else
changes its memory (`distrust`) ends that until the context is emptied: states are kept of tokens
that are known to have been computed one after the other, and of nothing else.
"""

from __future__ import annotations

import logging
import math
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from folio_llama_cpp.sequences import Form
from folio_llama_cpp.sequences import Sequence as Context
from folio_llama_cpp.states import Bytes, Unknown
from folio_llama_cpp.store import PAGE_TOKENS, Found, Names, Store

log = logging.getLogger("folio_llama_cpp")

KEPT_AT_ONCE = 512  # tokens: pages are read out of the context when so many have not been
REST_EVERY = 2048  # tokens of a prompt between the rests that are kept of it
SHARE = 0.005  # of the time of evaluations, for reading states; writing them takes about as much
_CREDIT_S, _MOST_CREDIT_S = 0.5, 2.0
_LEAST_GAIN = PAGE_TOKENS  # tokens
_TRIES = 3  # to load a prompt of which pages turn out to be missing


class Prompts:
    """Beside a `llama_cpp.Llama`; of one thread at a time, as that is. But a request that was given
    up ends whenever its generator goes, in any thread and in the midst of the next one: `end_turn`
    leaves a context alone that is in use, or is another request's by then.
    """

    def __init__(
        self,
        model: Any,
        context: Context,
        form: Form,
        store: Store,
        maker: Any,
        windows: int,
        is_recurrent: bool,
    ) -> None:
        """maker: folio_kv.names.Sha256Names of the model. windows: its window of attention, or 0.
        is_recurrent: some of its memory cannot be set back."""
        # A model is not kept alive by its prompts: it is to go with its last reference.
        self._model: Any = weakref.proxy(model)
        self._context, self._form, self._store = context, form, store
        self._windows, self._is_recurrent = windows, is_recurrent
        self._tokens = np.zeros(model.n_ctx(), np.int32)  # that the context holds
        self._known = 0  # of them; -1: something else has changed the context
        self._names = Names(maker)
        self._pages = 0  # leading ones that are stored, or on their way
        self._last_rest = 0  # the tokens behind which a rest has been kept
        self._prompt_end = 0  # of the tokens that are being evaluated
        self._kept_end = self._kept_rest = b""  # names of what was kept last
        self._fault = ""
        self._in_use, self._turn = threading.Lock(), object()  # the context; whose it is
        self._credit, self._rate = _CREDIT_S, 1e-9  # seconds; seconds a byte
        self._load_rate, self._token_s = 2e-9, 1e-3  # seconds a byte; of a prompt's token
        self._without_logits = 0  # leading tokens that have been restored, not computed
        self.is_evaluating = self.is_off = False
        self.wants_logits = False  # a request asks for the logits of all its tokens
        self.figures = {"restored_tokens": 0, "restored_prompts": 0, "kept_pages": 0}
        self.figures |= {"kept_ends": 0, "kept_rests": 0, "postponed": 0, "failed_loads": 0}
        self.seconds = {"keeping": 0.0, "restoring": 0.0}

    def all_figures(self) -> dict[str, float]:
        seconds = {f"{name}_s": value for name, value in self.seconds.items()}
        failed = sum(n for outcome, n in self._store.outcomes.items() if outcome != "done")
        return {**self.figures, **seconds, "failed_stores": failed, "page_tokens": PAGE_TOKENS}

    def give_up(self, reason: object) -> None:
        """Nothing is kept or restored from now on; the model runs on."""
        if not self.is_off:
            self.is_off = True
            log.warning("%s: prompts are not kept any more: %s", self._model.model_path, reason)

    # -- a request's turn

    def begin_turn(self) -> object:
        """The context is another request's from now on."""
        with self._in_use:
            self._turn = object()
            return self._turn

    def end_turn(self, turn: object = None, at_any_cost: bool = False) -> None:
        """`keep_end`, unless the context is in use, or the turn is no longer this one."""
        if not self._in_use.acquire(blocking=False):
            return
        try:
            if turn in (None, self._turn):
                self.keep_end(at_any_cost)
        finally:
            self._in_use.release()

    # -- before a request

    def restore(self, tokens: Sequence[int]) -> None:
        """Fills the context with the longest prefix of `tokens` that the store has, where that saves
        more than it costs; else leaves what the context has of it, if that can be taken up."""
        with self._in_use:
            self._prepare(tokens)

    def _prepare(self, tokens: Sequence[int]) -> None:
        self.keep_end()
        if self.wants_logits and self._without_logits:
            self._model.n_tokens = 0
        if self.is_off or self.wants_logits or min(tokens, default=-1) < 0:
            return  # pictures and sounds have no tokens
        try:
            self._restore(tokens)
        except Exception as reason:
            self.give_up(reason)

    def _restore(self, tokens: Sequence[int]) -> None:
        own = self._usable(tokens)
        # The last token is always computed: its logits are needed.
        most = min(len(tokens), len(self._tokens)) - 1
        for _ in range(_TRIES):
            if most - own < _LEAST_GAIN:
                return
            names = Names(self._names.maker)
            found = self._store.find(names, tokens, self._form, most)
            if found is None or not self._saves(found, own):
                return
            started = time.perf_counter()
            state, there = self._store.load(names, found, self._form, self._deadline_ms(found, own))
            if state is not None:
                self._take(state, names, tokens, found, time.perf_counter() - started)
                return
            self.figures["failed_loads"] += 1
            most = there

    def _usable(self, tokens: Sequence[int]) -> int:
        """How many of `tokens` the context can go on behind. llama-cpp-python looks at tokens alone:
        where windows have lost what is needed there, the context counts as empty."""
        model = self._model
        held = model.input_ids[: model.n_tokens]
        least = min(len(held), len(tokens))
        differ = np.flatnonzero(held[:least] != np.asarray(tokens[:least], np.int64))
        own = int(differ[0]) if len(differ) else least
        if own == len(tokens):
            if own == len(held) and not getattr(model, "_requires_eval", True):
                return own  # its logits are there
            own -= 1
        if own <= 0 or own == len(held) == self._context.last() + 1:
            return max(own, 0)
        if self._is_recurrent:
            return 0
        if self._lacks_windows(own):
            model.n_tokens = 0
            return 0
        return own

    def _lacks_windows(self, tokens: int) -> bool:
        """Whether windows have lost what is needed behind so many tokens."""
        return bool(self._windows) and self._context.first() > max(0, tokens - self._windows)

    def _saves(self, found: Found, own: int) -> bool:
        gain = found.tokens - own
        cost = self._load_rate * self._state_bytes(found)
        return gain >= _LEAST_GAIN and gain * self._token_s > cost

    def _deadline_ms(self, found: Found, own: int) -> int:
        """A load that takes longer than what it saves is given up."""
        return 1000 + int(1000 * (found.tokens - own) * self._token_s)

    def _state_bytes(self, found: Found) -> int:
        return found.tokens * self._form.layout.token + found.rest_bytes

    def _take(
        self, state: Bytes, names: Names, tokens: Sequence[int], found: Found, seconds: float
    ) -> None:
        """Makes a state the context's."""
        model, started = self._model, time.perf_counter()
        was_written = self._context.write(state, found.tokens)
        model.n_tokens = found.tokens if was_written else 0
        self._known = model.n_tokens
        if not was_written:
            raise Unknown(f"llama.cpp has refused a state of {found.tokens} tokens")
        model.input_ids[: found.tokens] = tokens[: found.tokens]
        self._tokens[: found.tokens] = tokens[: found.tokens]
        model._requires_eval = True
        names.cut(found.tokens)
        self._names, self._pages = names, len(names.pages)
        self._last_rest = self._without_logits = found.tokens
        seconds += time.perf_counter() - started
        self._load_rate += 0.5 * (seconds / max(1, len(state)) - self._load_rate)
        self.figures["restored_tokens"] += found.tokens
        self.figures["restored_prompts"] += 1
        self.seconds["restoring"] += seconds
        log.info("restored %d of %d tokens in %.0f ms", found.tokens, len(tokens), 1000 * seconds)

    # -- while tokens are evaluated

    def evaluate(self, original: Callable[[Sequence[int]], None], tokens: Sequence[int]) -> None:
        """Hands the tokens to `original`, which evaluates them, piece by piece as it cuts its batches,
        and keeps what is new."""
        with self._in_use:
            self._evaluate(original, tokens)

    def _evaluate(self, original: Callable[[Sequence[int]], None], tokens: Sequence[int]) -> None:
        self._begin()
        if self._model.n_tokens and self._lacks_windows(self._model.n_tokens):
            # The model was set back behind what a restored context has: that is computed again.
            tokens = [*self._model.input_ids[: self._model.n_tokens].tolist(), *tokens]
            self._model.n_tokens = 0
            self._begin()
        self._prompt_end = self._model.n_tokens + len(tokens)
        for first, last in list(self._pieces(len(tokens))):
            started = time.perf_counter()
            piece = tokens[first:last]
            self.is_evaluating = True
            try:
                original(piece)
            except BaseException:
                self._known = -1
                raise
            finally:
                self.is_evaluating = False
            self._note(piece, time.perf_counter() - started)
            self._store.collect()
            try:
                self._keep(is_prompt=len(tokens) > 1, is_last=last == len(tokens))
            except Exception as reason:
                self.give_up(reason)

    def distrust(self) -> None:
        """The context's memory is changed by somebody else."""
        if not self.is_evaluating:
            self._known = -1

    def _begin(self) -> None:
        """Which tokens are known, when the model goes on behind `n_tokens`: it removes what is
        behind them."""
        n = self._model.n_tokens
        if n == 0:
            self._known = 0
        if n > self._known or not np.array_equal(self._model.input_ids[:n], self._tokens[:n]):
            self._known = -1
        behind = self._context.last() + 1 - n
        if n and (behind < 0 or (self._is_recurrent and behind > 0)):
            self._known = -1  # tokens are gone, or are there and cannot be taken back
        if self._known >= 0:
            self._known = n
        self._names.cut(max(0, self._known))
        self._pages = min(self._pages, len(self._names.pages))
        self._last_rest = min(self._last_rest, max(0, self._known))
        self._without_logits = min(self._without_logits, n)

    def _pieces(self, count: int) -> Iterator[tuple[int, int]]:
        """The batches that `Llama.eval` makes. With a rest they end at whole pages, the last but
        one at the prompt's last page, so that a rest can be kept there."""
        first, batch = 0, self._model.n_batch
        start = self._model.n_tokens
        is_aligned = self._form.has_rest and self._model.draft_model is None and count > 1
        while first < count:
            last = min(count, first + batch)
            if is_aligned:
                last_page = (start + count - 1) // PAGE_TOKENS * PAGE_TOKENS - start
                step = max(PAGE_TOKENS, batch // PAGE_TOKENS * PAGE_TOKENS)
                last = min(last, (start + first) // step * step + step - start)
                last = last_page if first < last_page < last else last
            yield first, last
            first = last

    def _note(self, tokens: Sequence[int], seconds: float) -> None:
        self._credit = min(_MOST_CREDIT_S, self._credit + SHARE * seconds)
        if len(tokens) >= PAGE_TOKENS:
            self._token_s += 0.5 * (seconds / len(tokens) - self._token_s)
        if self._known < 0:
            return
        end = self._known + len(tokens)
        if end != self._model.n_tokens or end > len(self._tokens):
            self._known = -1
            return
        self._tokens[self._known : end] = tokens
        self._known = end

    # -- keeping

    def keep_end(self, at_any_cost: bool = False) -> None:
        """Keeps all that the context holds and the store does not have, the shorter page at its end
        and its rest as well. Where that would take more than its share of time, a later call does."""
        if self._model.n_tokens < self._known and not self._is_recurrent:
            self._begin()  # tokens of a draft have been taken back
        if self.is_off or self._known < PAGE_TOKENS or self._known != self._model.n_tokens:
            return
        try:
            if at_any_cost:
                self._credit = math.inf
                self._store.wait_for_room()
            self._keep_all()
        except Exception as reason:
            self.give_up(reason)

    def _keep_all(self) -> None:
        if not self._keep_pages():
            return
        tokens = self._tokens[: self._known]
        if self._known % PAGE_TOKENS:
            self._keep_last_page(tokens)
        if self._form.has_rest:
            self._keep_rest(tokens)
        fault = self._store.fault()
        if fault and fault != self._fault:
            log.warning("prompts' store: %s", fault)
        self._fault = fault

    def _keep(self, is_prompt: bool, is_last: bool) -> None:
        """Nothing between a prompt's last batch and the first token behind it."""
        if self.is_off or self._known <= 0 or (is_prompt and is_last):
            return
        if self._known - self._pages * PAGE_TOKENS >= KEPT_AT_ONCE:
            self._keep_pages()
        if not (self._form.has_rest and is_prompt) or self._known % PAGE_TOKENS:
            return
        last_page = (self._prompt_end - 1) // PAGE_TOKENS * PAGE_TOKENS
        is_due = self._known - self._last_rest >= REST_EVERY or self._known == last_page
        if is_due and self._keep_pages():
            self._keep_rest(self._tokens[: self._known], and_more=1)

    def _keep_pages(self) -> bool:
        """Whether all whole pages are in the store, or on their way."""
        count = self._known // PAGE_TOKENS
        if self._known < 0 or count <= self._pages:
            return self._known >= 0
        self._names.extend(self._tokens[: self._known].tolist())
        self._pages += self._store.leading(self._names.pages[self._pages : count])
        first, new = self._pages, count - self._pages
        if new == 0:
            return True
        size = new * PAGE_TOKENS * self._form.layout.token
        if not self._may(size):
            return False
        started = time.perf_counter()
        state = np.empty(0, np.uint8)
        if not self._form.is_whole:
            state = self._read(first * PAGE_TOKENS, count * PAGE_TOKENS)
        has_room = self._store.keep_pages(self._names, state, first, new, self._form)
        if has_room:
            self._pages = count
            self.figures["kept_pages"] += new
        self._spent(started, size)
        return has_room

    def _keep_last_page(self, tokens: Any) -> None:
        first = len(tokens) // PAGE_TOKENS * PAGE_TOKENS
        name = self._names.end(tokens.tolist())
        size = (len(tokens) - first) * self._form.layout.token
        if name == self._kept_end or self._store.leading([name]) or not self._may(size):
            return
        started = time.perf_counter()
        data = np.empty(0, np.uint8)
        if not self._form.is_whole:
            state = self._read(first, len(tokens))
            data = self._form.layout.gather(state, len(tokens) - first, 0)
        before = self._names.parent(first // PAGE_TOKENS)
        if self._store.keep_end(name, before, data):
            self._kept_end = name
            self.figures["kept_ends"] += 1
        self._spent(started, size)

    def _keep_rest(self, tokens: Any, and_more: int = 0) -> None:
        """and_more: if as many rests after it can be kept as well: that of a request's end is the one
        behind which a conversation goes on."""
        name = self._names.end(tokens.tolist())
        if name == self._kept_rest or self._store.has_rest(name):
            self._last_rest = len(tokens)
            return
        if self._context.last() != len(tokens) - 1:
            return
        size = self._form.rest_bytes(self._context)
        if not self._may(size * (1 + and_more)):
            return
        started = time.perf_counter()
        if self._store.keep_rest(name, self._form.rest(self._context)):
            self._last_rest, self._kept_rest = len(tokens), name
            self.figures["kept_rests"] += 1
        self._spent(started, size)

    def _read(self, first: int, last: int) -> Bytes:
        return self._context.tokens(self._form.layout, first, last)

    def _may(self, size: int) -> bool:
        """Whether reading so many bytes is within the share of time that it may take, and what has
        been read before is on its way."""
        if size * self._rate <= self._credit and self._store.has_room():
            return True
        self.figures["postponed"] += 1
        return False

    def _spent(self, started: float, size: int) -> None:
        seconds = time.perf_counter() - started
        self._credit -= seconds
        self.seconds["keeping"] += seconds
        if size >= 1 << 16:
            self._rate += 0.25 * (seconds / size - self._rate)
