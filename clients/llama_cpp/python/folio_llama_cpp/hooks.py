# SPDX-License-Identifier: Apache-2.0
"""Puts a store of prompts behind every model that is loaded from now on.

What is replaced in llama-cpp-python: `Llama.__init__`, `generate`, `_create_completion`, `eval` and
`close`, and the context's `__init__`, which asks for a second sequence (sequences.py). Its functions that change a
context's memory are called as ever, and the context's prompts are told.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import inspect
import logging
import weakref
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from folio_llama_cpp import identity
from folio_llama_cpp.probe import probe
from folio_llama_cpp.prompts import Prompts
from folio_llama_cpp.sequences import Functions, Sequence
from folio_llama_cpp.states import Unknown
from folio_llama_cpp.store import PAGE_TOKENS, Store

log = logging.getLogger("folio_llama_cpp")

# Functions of llama.cpp behind which a context may hold other than its tokens say.
_CHANGES = (
    "llama_decode llama_encode llama_memory_seq_add llama_memory_seq_div llama_memory_seq_cp "
    "llama_memory_seq_rm llama_state_set_data llama_state_load_file llama_state_seq_set_data "
    "llama_state_seq_load_file llama_set_causal_attn"
).split()
# .. and from which on its states are another model's.
_OTHER_MODEL = ["llama_set_adapters_lora", "llama_set_adapter_cvec"]
_ATTRIBUTE = "_folio_prompts"


class Hooks:
    """Of one process; `close` at its end keeps what is left."""

    def __init__(self, llama_cpp: ModuleType, store: Store) -> None:
        """Raises Unknown where this llama-cpp-python is not one that is known."""
        from llama_cpp import _internals
        from llama_cpp import llama_cpp as raw

        self._raw, self._store, self._package = raw, store, llama_cpp
        self._functions = Functions(raw._lib)
        self._models: weakref.WeakSet[Any] = weakref.WeakSet()
        self._by_pointer: dict[int, weakref.ref[Any]] = {}
        model = llama_cpp.Llama
        for name in ("generate", "_create_completion", "eval", "close"):
            if not callable(getattr(model, name, None)):
                raise Unknown(f"this llama-cpp-python's Llama has no {name}")
        _replace(_internals.LlamaContext, "__init__", self._init_context)
        _replace(model, "__init__", self._init_model)
        _replace(model, "generate", self._generate)
        _replace(model, "_create_completion", self._create_completion)
        _replace(model, "eval", self._eval)
        _replace(model, "close", self._close_model)
        for name in _CHANGES + _OTHER_MODEL:
            self._watch(name)
        atexit.register(self.close)

    def close(self) -> None:
        """Keeps what the contexts hold, and waits until it is stored."""
        for model in list(self._models):
            prompts = prompts_of(model)
            if prompts is not None:
                prompts.end_turn(at_any_cost=True)
            delattr(model, _ATTRIBUTE)
        self._models.clear()
        self._store.close()

    # -- what is replaced

    def _init_context(self, original: Callable[..., None], context: Any, /, **options: Any) -> None:
        params = options.get("params")
        if params is not None and not params.embeddings and params.n_seq_max == 1:
            params.n_seq_max, params.kv_unified = 2, True
        original(context, **options)

    def _init_model(
        self, original: Callable[..., None], model: Any, /, *args: Any, **options: Any
    ) -> None:
        original(model, *args, **options)
        if model.context_params.embeddings or model.model_params.vocab_only:
            return
        try:
            self._attach(model)
        except Exception as reason:
            _say_without(model, reason)

    def _generate(
        self, original: Callable[..., Iterator[int]], model: Any, /, *args: Any, **options: Any
    ) -> Iterator[int]:
        prompts = prompts_of(model)
        turn = None if prompts is None else prompts.begin_turn()
        given = inspect.signature(original).bind(model, *args, **options).arguments
        if prompts is not None and given.get("reset", True):
            prompts.restore(list(given["tokens"]))
        try:
            yield from original(model, *args, **options)
        finally:
            _end(model, turn)

    def _create_completion(
        self, original: Callable[..., Any], model: Any, /, *args: Any, **options: Any
    ) -> Iterator[Any]:
        """Log-probabilities of a prompt that is echoed need its logits, which states have not."""
        prompts = prompts_of(model)
        given = inspect.signature(original).bind(model, *args, **options).arguments
        if prompts is None or not given.get("echo") or given.get("logprobs") is None:
            yield from original(model, *args, **options)
            return
        prompts.wants_logits = True
        try:
            yield from original(model, *args, **options)
        finally:
            prompts.wants_logits = False

    def _eval(self, original: Callable[..., None], model: Any, tokens: Any) -> None:
        prompts = prompts_of(model)
        if prompts is None:
            return original(model, tokens)
        return prompts.evaluate(functools.partial(original, model), tokens)

    def _close_model(self, original: Callable[..., None], model: Any) -> None:
        _end(model, at_any_cost=True)
        if prompts_of(model) is not None:
            self._models.discard(model)
            delattr(model, _ATTRIBUTE)
        original(model)

    # -- a model's prompts

    def _attach(self, model: Any) -> None:
        from folio_kv.names import Sha256Names

        raw = self._raw
        if raw.llama_model_has_encoder(model._model.model):
            raise Unknown("it has an encoder")
        context = Sequence(self._functions, model._ctx.ctx)
        windows = raw.llama_model_n_swa(model._model.model)
        kinds = (raw.llama_model_is_recurrent, raw.llama_model_is_hybrid)
        is_recurrent = any(kind(model._model.model) for kind in kinds)
        form = probe(model, context, windows, log.warning)
        versions = identity.versions(self._package.__version__, raw._lib)
        digest = identity.fingerprint(model, versions, form.layout, PAGE_TOKENS)
        names = Sha256Names(digest)
        prompts = Prompts(model, context, form, self._store, names, windows, is_recurrent)
        setattr(model, _ATTRIBUTE, prompts)
        self._models.add(model)
        for pointer in (model._ctx.ctx, raw.llama_get_memory(model._ctx.ctx)):
            self._by_pointer[_number(pointer)] = weakref.ref(model)

    def _watch(self, name: str) -> None:
        function = getattr(self._raw, name, None)
        if function is None:
            return

        @functools.wraps(function)
        def call(*args: Any) -> Any:
            of = self._by_pointer.get(_number(args[0])) if args else None
            prompts = prompts_of(of and of())
            if prompts is not None and not (
                name == "llama_memory_seq_rm" and _number(args[-1]) < 0
            ):
                prompts.distrust()  # to the end is what `n_tokens` tells, and is looked at
                if name in _OTHER_MODEL:
                    prompts.give_up(f"{name} was called")
            return function(*args)

        for module in (self._raw, self._package):
            if getattr(module, name, None) is function:
                setattr(module, name, call)


def prompts_of(model: Any) -> Prompts | None:
    """The prompts of a model, where it has a store."""
    return getattr(model, _ATTRIBUTE, None)


def _replace(owner: type, name: str, by: Callable[..., Any]) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        return by(original, self, *args, **options)

    setattr(owner, name, call)


def _end(model: Any, turn: object = None, at_any_cost: bool = False) -> None:
    prompts = prompts_of(model)
    if prompts is None:
        return
    with contextlib.suppress(ReferenceError):  # the garbage collector closes the model
        prompts.end_turn(turn, at_any_cost)


def _say_without(model: Any, reason: object) -> None:
    log.warning("%s: its prompts are not kept: %s", model.model_path, reason)


def _number(argument: Any) -> int:
    """An address or an integer, as ctypes or as Python has it."""
    return int(getattr(argument, "value", argument) or 0)
