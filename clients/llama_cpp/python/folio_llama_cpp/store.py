# SPDX-License-Identifier: Apache-2.0
"""Prompts in a tier of folio_kv: pages of tokens by name, and rests of states.

A page of PAGE_TOKENS tokens has the name of its place in a chain of SHA-256 over the model's
fingerprint and all tokens up to its end. A sequence that ends within a page has a last, shorter
one, named the same way. Where a state has a rest (windows, recurrent states: `sequences.Form`),
it lies beside the page at whose end it belongs, in parts, behind a record with its size. Where
nothing can be cut, pages are marks of one byte and the rest is all of a state.
"""

from __future__ import annotations

import collections
import hashlib
import pathlib
import re
import struct
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from folio_llama_cpp.errors import BadCache
from folio_llama_cpp.sequences import Form
from folio_llama_cpp.states import Bytes

PAGE_TOKENS = 64
_PART = 8 << 20  # bytes of a part of a rest, at most
_REST = struct.Struct("<8sQ")
_REST_MAGIC = b"folrest1"
_LEAST_BYTES, _MOST_BYTES = 8 << 20, 1 << 62
_MOST_QUEUED, _ROOM_S = 512 << 20, 10.0  # bytes, as a state is held until it is stored
_QUEUE = {"max_queued_bytes": 1 << 40}  # of loads as well, which are as large as a state
_LOOK_S = 0.003
ASK_WAIT_MS = 100  # for what a server says of a prompt


@dataclass
class Names:
    """Names of the pages of one sequence of tokens, which grows at its end or is cut there."""

    maker: Any  # folio_kv.names.Sha256Names
    pages: list[bytes] = field(default_factory=list)

    def before(self, page: int) -> bytes:
        """What stands before a page in its chain."""
        return self.pages[page - 1] if page else self.maker.root()

    def parent(self, page: int) -> bytes | None:
        return self.pages[page - 1] if page else None

    def extend(self, tokens: Sequence[int]) -> None:
        """Names the whole pages of `tokens`, which begin with those that are named already."""
        for page in range(len(self.pages), len(tokens) // PAGE_TOKENS):
            first = page * PAGE_TOKENS
            self.pages.append(
                self.maker.page(self.before(page), tokens[first : first + PAGE_TOKENS])
            )

    def cut(self, tokens: int) -> None:
        del self.pages[tokens // PAGE_TOKENS :]

    def end(self, tokens: Sequence[int]) -> bytes:
        """The name of the page at whose end, or within which, these tokens end."""
        page, more = divmod(len(tokens), PAGE_TOKENS)
        if not more:
            return self.before(page)
        return bytes(self.maker.page(self.before(page), tokens[-more:]))


@dataclass(frozen=True)
class Found:
    """A state that can be loaded."""

    tokens: int
    name: bytes  # of its end
    rest_bytes: int


class Store:
    """Pages and rests in one tier; of any number of models, in any threads."""

    def __init__(self, tier: Any, page_arrays: Any) -> None:
        """tier: whose `find` waits for what it has to ask. page_arrays: folio_kv.tiers.PageArrays."""
        self.tier, self._page_arrays = tier, page_arrays
        self._lock = threading.Lock()  # of what follows: models may have threads of their own
        self._under_way: list[tuple[Any, int]] = []  # stores, and their bytes
        self.outcomes: collections.Counter[str] = collections.Counter()  # of pages' stores

    def find(self, names: Names, tokens: Sequence[int], form: Form, most: int) -> Found | None:
        """The longest state of a prefix of `tokens`, `most` of them or fewer."""
        names.extend(tokens)
        whole_pages = names.pages[: most // PAGE_TOKENS]
        pages = int(self.tier.find(whole_pages)) if whole_pages else 0
        first = pages * PAGE_TOKENS
        ends = [
            (n, names.end(tokens[:n])) for n in range(first + 1, min(first + PAGE_TOKENS, most + 1))
        ]
        if not form.has_rest:
            whole = [(first, names.before(pages))] if pages else []
            best = self._last(whole, ends, [name for _, name in ends])
            return best and Found(*best, 0)
        whole = [(n * PAGE_TOKENS, names.pages[n - 1]) for n in range(1, pages + 1)]
        candidates = whole + ends
        while candidates:
            best = self._last([], candidates, [_rest(name, -1) for _, name in candidates])
            if best is None:
                return None
            size = self._rest_bytes(best[1])
            if size is not None:
                return Found(*best, size)
            candidates = candidates[: candidates.index(best)]
        return None

    def load(
        self, names: Names, found: Found, form: Form, deadline_ms: int
    ) -> tuple[Bytes | None, int]:
        """The state, or None and how many of its tokens are there all the same."""
        layout, cells = form.layout, 0 if form.is_whole else found.tokens
        pages, more = divmod(found.tokens, PAGE_TOKENS)
        state = layout.frame(cells, found.rest_bytes)
        marks = np.empty(0 if not form.is_whole else pages + 1, np.uint8)
        tail = np.empty(more * layout.token or (1 if more else 0), np.uint8)
        buffers = [(found.name, tail)] if more else []
        buffers += _parts(found.name, state[len(state) - found.rest_bytes :])
        begun = []
        if pages:
            where, numbers = self._pages(state, cells, form, marks, pages)
            begun.append(
                self.tier.load(names.pages[:pages], where, numbers, deadline_ms=deadline_ms)
            )
        if buffers:
            of, into = zip(*buffers, strict=True)
            begun.append(self.tier.load(list(of), list(into), deadline_ms=deadline_ms))
        for transfer in begun:
            transfer.wait()
        self._drop_bad(begun)
        if all(o == "done" for transfer in begun for o in transfer.outcomes):
            if more and cells:
                layout.scatter(state, cells, pages * PAGE_TOKENS, tail)
            return state, found.tokens
        if found.rest_bytes and any(o in ("corrupt", "missing") for o in begun[-1].outcomes):
            self.tier.drop([_rest(found.name, -1)])  # so that the rest is stored anew, too
        there = 0
        if pages:
            outcomes = begun[0].outcomes
            there = next((i for i, o in enumerate(outcomes) if o != "done"), pages)
        return None, min(there * PAGE_TOKENS, found.tokens - 1)

    def leading(self, names: list[bytes]) -> int:
        """How many of these are known to be there, from the first on; a server is not waited for."""
        there = self.tier.find_each(names) if names else []
        return next((i for i, is_there in enumerate(there) if not is_there), len(there))

    def has_rest(self, name: bytes) -> bool:
        return self.leading([_rest(name, -1)]) == 1

    def keep_pages(self, names: Names, state: Bytes, first: int, count: int, form: Form) -> bool:
        """Begins to store `count` pages from page `first` on, whose bytes are `state`'s; False where
        the tier's queue has no room. The state must not be changed any more."""
        given = names.pages[first : first + count]
        marks = np.zeros(count if form.is_whole else 0, np.uint8)
        cells = 0 if form.is_whole else count * PAGE_TOKENS
        where, numbers = self._pages(state, cells, form, marks, count)
        parents = [names.parent(page) for page in range(first, first + count)]
        return self._store(given, where, numbers, parents, len(state))

    def keep_end(self, name: bytes, parent: bytes | None, data: Bytes) -> bool:
        """Begins to store the shorter page at a sequence's end."""
        data = data if len(data) else np.zeros(1, np.uint8)
        return self._store([name], [data], None, [parent], len(data))

    def keep_rest(self, name: bytes, rest: Bytes) -> bool:
        """Begins to store a rest beside the page whose end it belongs to."""
        head = np.frombuffer(_REST.pack(_REST_MAGIC, len(rest)), np.uint8)
        of, parts = zip(*_parts(name, rest), (_rest(name, -1), head), strict=True)  # the head last
        return self._store(list(of), list(parts), None, [name] * len(of), len(rest))

    def has_room(self) -> bool:
        """Whether what is on its way into the tier is little enough for more."""
        self.collect()
        with self._lock:
            return sum(size for _, size in self._under_way) <= _MOST_QUEUED

    def collect(self) -> bool:
        """Lets go of what has been stored; whether that is all."""
        with self._lock:
            left = []
            for transfer, size in self._under_way:
                if transfer.is_done:
                    self.outcomes.update(transfer.outcomes)
                else:
                    left.append((transfer, size))
            self._under_way = left
            return not left

    def wait_for_room(self) -> None:
        """A while at most."""
        until = time.monotonic() + _ROOM_S
        while not self.has_room() and time.monotonic() < until:
            time.sleep(_LOOK_S)

    def fault(self) -> str:
        """Why pages could not be written or read, the latest; "" before the first time."""
        return str(self.tier.last_fault())

    def close(self) -> None:
        """Waits for what is being stored; nothing is kept or found from now on."""
        self.tier.close()

    def _pages(
        self, state: Bytes, cells: int, form: Form, marks: Bytes, count: int
    ) -> tuple[Any, list[int]]:
        if form.is_whole:
            return self._page_arrays([marks[:count]]), list(range(count))
        views = form.layout.pages(state, cells, PAGE_TOKENS)
        return self._page_arrays(views), list(range(count))

    def _store(
        self,
        names: list[bytes],
        where: Any,
        pages: Any,
        parents: Sequence[bytes | None],
        size: int,
    ) -> bool:
        try:
            transfer = self.tier.store(names, where, pages, parents=parents)
        except ValueError as error:  # folio_kv.Error
            if getattr(error, "code", "") != "busy":
                raise
            return False
        with self._lock:
            self._under_way.append((transfer, size))
        return True

    def _last(
        self, sure: list[tuple[int, bytes]], ends: list[tuple[int, bytes]], names: list[bytes]
    ) -> tuple[int, bytes] | None:
        """The last of `ends` whose name is there, or of `sure`."""
        there = []
        if names:
            self.tier.find(names)  # waits, and find_each does not
            there = self.tier.find_each(names)
        found = sure + [end for end, is_there in zip(ends, there, strict=True) if is_there]
        return found[-1] if found else None

    def _rest_bytes(self, name: bytes) -> int | None:
        head = np.empty(_REST.size, np.uint8)
        transfer = self.tier.load([_rest(name, -1)], [head], deadline_ms=1000)
        transfer.wait()
        self._drop_bad([transfer])
        if transfer.outcomes != ["done"]:
            return None
        magic, size = _REST.unpack(head.tobytes())
        return int(size) if magic == _REST_MAGIC else None

    def _drop_bad(self, transfers: list[Any]) -> None:
        """Damaged pages are forgotten, so that they are stored anew."""
        for transfer in transfers:
            bad = [
                n for n, o in zip(transfer.names, transfer.outcomes, strict=True) if o == "corrupt"
            ]
            if bad:
                self.tier.drop(bad)


def _rest(name: bytes, part: int) -> bytes:
    """The name of a part of the rest behind the page `name`; -1: of the record with its size."""
    return hashlib.sha256(b"folio llama.cpp rest1" + name + struct.pack("<i", part)).digest()


def _parts(name: bytes, rest: Bytes) -> list[tuple[bytes, Bytes]]:
    starts = range(0, len(rest), _PART)
    return [(_rest(name, i), rest[start : start + _PART]) for i, start in enumerate(starts)]


_UNITS = {"": 1, "b": 1, **{u: 10 ** (3 * i) for i, u in enumerate(("kb", "mb", "gb", "tb"), 1)}}
_UNITS |= {u: 1 << (10 * i) for i, u in enumerate(("kib", "mib", "gib", "tib"), 1)}


def bytes_of(size: int | str, key: str) -> int:
    """A number of bytes, or a text such as "100GiB". Raises BadCache, which names `key`."""
    found = re.fullmatch(r"\s*(\d{1,15}(?:\.\d{1,15})?)\s*([A-Za-z]*)\s*", str(size))
    if found is None or found[2].lower() not in _UNITS or isinstance(size, bool):
        raise BadCache(
            f"{key}: expected a number of bytes such as 8589934592 or 8GiB, got {size!r}"
        )
    count = int(float(found[1]) * _UNITS[found[2].lower()]) if found[2] else int(float(found[1]))
    if not _LEAST_BYTES <= count < _MOST_BYTES:
        expected = f"{_LEAST_BYTES} bytes or more, fewer than {_MOST_BYTES}"
        raise BadCache(f"{key}: expected {expected}, got {size!r}")
    return count


def open_store(place: str, size: int, key: str) -> Store:
    """The store in a directory, or in the server of a redis:// URL. Raises BadCache, which names
    `key`."""
    try:
        from folio_kv import tiers
    except ImportError as error:
        raise BadCache(
            f"{key}: needs folio-kv, whose tiers keep the pages: pip install 'folio-llama-cpp[cache]' ({error})"
        ) from None
    try:
        if re.match(r"(rediss?|unix)://", place):
            asking = {"unknown": "asked", "ask_wait_ms": ASK_WAIT_MS}
            return Store(tiers.RedisTier(place, size, **asking, **_QUEUE), tiers.PageArrays)
        if "://" in place or not place:
            raise BadCache(f"{key}: expected a directory or a redis:// URL, got {place!r}")
        path = pathlib.Path(place).expanduser()
        if path.exists() and not path.is_dir():
            raise BadCache(f"{key}: expected a directory, got the file {place!r}")
        segment = max(1 << 20, min(256 << 20, size // 8))
        tier = tiers.DiskTier(str(path), size, segment_bytes=segment, **_QUEUE)
    except ValueError as error:
        if isinstance(error, BadCache):
            raise
        if getattr(error, "code", "") == "busy":
            raise BadCache(
                f"{key}: {place!r} is in use by another process, and a directory belongs to one at a "
                "time; several share a redis:// server"
            ) from None
        raise BadCache(f"{key}: {place!r}: {' '.join(str(error).split())}") from None
    return Store(tier, tiers.PageArrays)
