# SPDX-License-Identifier: Apache-2.0
"""A context's sequence 0, read and written by llama.cpp's public functions.

llama-cpp-python keeps its conversation in sequence 0. Tokens [first, last) of it are read by giving
their cells to sequence 1 as well, for as long as its state is written: cells are shared, nothing is
computed or moved. That asks for a context of two sequences in one cache (`n_seq_max`, `kv_unified`).
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from folio_llama_cpp.states import HEADER, Bytes, Layout, Unknown, parse

OWN, OTHER = 0, 1
_WHOLE, _PARTIAL = 0, 1  # LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY
_TO_THE_END = -1

_POINTER, _INT, _SIZE, _BOOL = ctypes.c_void_p, ctypes.c_int32, ctypes.c_size_t, ctypes.c_bool
_FUNCTIONS: dict[str, tuple[Any, ...]] = {  # name -> result, arguments
    "llama_state_seq_get_size_ext": (_SIZE, _POINTER, _INT, ctypes.c_uint32),
    "llama_state_seq_get_data_ext": (_SIZE, _POINTER, _POINTER, _SIZE, _INT, ctypes.c_uint32),
    "llama_state_seq_set_data_ext": (_SIZE, _POINTER, _POINTER, _SIZE, _INT, ctypes.c_uint32),
    "llama_get_memory": (_POINTER, _POINTER),
    "llama_memory_clear": (None, _POINTER, _BOOL),
    "llama_memory_seq_rm": (_BOOL, _POINTER, _INT, _INT, _INT),
    "llama_memory_seq_cp": (None, _POINTER, _INT, _INT, _INT, _INT),
    "llama_memory_seq_pos_min": (_INT, _POINTER, _INT),
    "llama_memory_seq_pos_max": (_INT, _POINTER, _INT),
    "llama_n_seq_max": (ctypes.c_uint32, _POINTER),
}


class Functions:
    """llama.cpp's functions, each with its own prototype: those of llama-cpp-python stay."""

    def __init__(self, library: ctypes.CDLL) -> None:
        for name, (result, *arguments) in _FUNCTIONS.items():
            try:
                made = ctypes.CFUNCTYPE(result, *arguments)((name, library))
            except AttributeError:
                raise Unknown(f"this llama.cpp has no {name}") from None
            setattr(self, name.removeprefix("llama_"), made)

    def __getattr__(self, name: str) -> Any:  # for type checkers
        raise AttributeError(name)


class Sequence:
    """Sequence 0 of a context, which holds the tokens 0 .. n - 1 at these positions."""

    def __init__(self, functions: Functions, context: int) -> None:
        self._call, self._context = functions, context
        self._memory = functions.get_memory(context)
        if not self._memory:
            raise Unknown("the context has no memory")
        if functions.n_seq_max(context) <= OTHER:
            raise Unknown("the context has no second sequence")

    def last(self) -> int:
        """The last position; -1 where there is none."""
        return int(self._call.memory_seq_pos_max(self._memory, OWN))

    def first(self) -> int:
        """From which position on all caches have all tokens; -1 where there is none."""
        return int(self._call.memory_seq_pos_min(self._memory, OWN))

    def clear(self) -> None:
        self._call.memory_clear(self._memory, False)

    def whole(self) -> Bytes:
        """The state of all that is there."""
        return self._state(OWN, _WHOLE)

    def rest(self) -> Bytes:
        """What a state has of caches whose tokens cannot be cut, windows' and recurrent ones', with
        its header: the whole state where llama.cpp makes no difference."""
        return self._state(OWN, _PARTIAL)

    def tokens(self, layout: Layout, first: int, last: int) -> Bytes:
        """The state of the tokens [first, last) alone, without its rest. Raises Unknown."""
        self._call.memory_seq_cp(self._memory, OWN, OTHER, first, last)
        try:
            state = self._state(OTHER, _WHOLE)
        finally:
            self._call.memory_seq_rm(self._memory, OTHER, -1, _TO_THE_END)
        state = state[: layout.size(last - first)]
        layout.take(state, first, last - first)
        return state

    def write(self, state: Bytes, tokens: int) -> bool:
        """Replaces all that the context holds by a state of so many tokens; where that fails,
        by nothing."""
        self.clear()
        read = self._call.state_seq_set_data_ext(
            self._context, state.ctypes.data, state.nbytes, OWN, _WHOLE
        )
        if read == state.nbytes and self.last() == tokens - 1:
            return True
        self.clear()
        return False

    def size(self, is_partial: bool) -> int:
        """Bytes of `rest`, or of `whole`."""
        flags = _PARTIAL if is_partial else _WHOLE
        return int(self._call.state_seq_get_size_ext(self._context, OWN, flags))

    def _state(self, sequence: int, flags: int) -> Bytes:
        size = self._call.state_seq_get_size_ext(self._context, sequence, flags)
        state = np.empty(size, np.uint8)
        written = self._call.state_seq_get_data_ext(
            self._context, state.ctypes.data, size, sequence, flags
        )
        if written != size or size < HEADER.size:
            raise Unknown(f"llama.cpp wrote {written} of {size} bytes of a state")
        return state


class Form:
    """How the states of a context are kept: what can be cut by tokens, and whether there is a rest
    that belongs to one length of the sequence."""

    def __init__(self, layout: Layout, has_rest: bool) -> None:
        self.layout, self.has_rest = layout, has_rest

    @property
    def is_whole(self) -> bool:
        """Nothing can be cut: the rest is the whole state."""
        return not self.layout.caches

    def rest_bytes(self, sequence: Sequence) -> int:
        return sequence.size(is_partial=not self.is_whole) - HEADER.size

    def rest(self, sequence: Sequence) -> Bytes:
        """The bytes behind what can be cut, of the sequence as it is."""
        state = sequence.whole() if self.is_whole else sequence.rest()
        return state[HEADER.size :]


WHOLE_STATES = Form(Layout(()), True)


def form_of(sequence: Sequence, tokens: int, windows: int) -> Form:
    """The form of a context's states, from its sequence of so many tokens. Raises Unknown where only
    whole states can be kept. windows: the model's window of attention, 0 for none."""
    whole, rest = sequence.whole(), sequence.rest()
    behind = len(rest) - HEADER.size
    if len(rest) == len(whole):  # llama.cpp makes no difference between the caches
        if windows:
            raise Unknown("windows and whole caches stand in one state")
        return Form(parse(whole, tokens), False)
    cut = len(whole) - behind
    if not HEADER.size < cut < len(whole) or whole[cut:].tobytes() != rest[HEADER.size :].tobytes():
        raise Unknown("the rest is not the end of a state")
    return Form(parse(whole[:cut], tokens), True)
