# SPDX-License-Identifier: Apache-2.0
"""What llama_state_seq_get_data writes of a sequence, cut into tokens and put together again.

A state is a header of 8 bytes (a magic number and the sequence), then what each of the context's
caches has. A cache of keys and values is, of native integers:

    u32 streams = 1, u32 cells
    cells times: i32 position, u32 sequences = 1, some more bytes or none, i32 sequence
    u32 whether values are transposed, u32 layers
    of each layer its keys:   i32 type, u64 bytes of a row, rows of all cells
    of each layer its values: the same; transposed i32 type, u32 bytes of an element, u32 elements,
                              then of each element those of all cells. Layers of MLA have none.

so the bytes of a token are slices of it. `parse` finds the layout from a state whose positions are
known, and takes nothing for a layout that does not explain every byte.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

HEADER = struct.Struct("=Ii")
MAGIC = 0xAF143CD8
_CELLS = struct.Struct("=II")
_LAYERS = struct.Struct("=II")
_ROWS = struct.Struct("=iQ")
_ELEMENTS = struct.Struct("=iII")
_CELL = 12  # bytes of a cell's metadata, at least
_MOST_MORE = 32  # bytes that a cell's metadata may have beyond it
_MOST_LAYERS = 4096
_MOST_ROW = 1 << 26


class Unknown(ValueError):
    """Bytes that are no state of the layout that is known."""


@dataclass(frozen=True)
class Rows:
    """Keys or values of one layer."""

    head: bytes  # what stands before them
    token: int  # bytes of a token
    elements: int = 0  # of transposed ones: that many, each with the bytes of all cells

    def view(self, data: Bytes, cells: int) -> Bytes:
        """[elements or 1, cells, bytes] over the bytes of all cells."""
        lines = self.elements or 1
        return data.reshape(lines, cells, self.token // lines)


@dataclass(frozen=True)
class Cache:
    """One cache of keys and values, every cell of which is there."""

    cell: int  # bytes of a cell's metadata
    transposed: int
    keys: tuple[Rows, ...]
    values: tuple[Rows, ...]

    @property
    def token(self) -> int:
        return self.cell + sum(rows.token for rows in self.keys + self.values)

    @property
    def fixed(self) -> int:
        """Bytes that a state has of it beside those of tokens."""
        heads = sum(len(rows.head) for rows in self.keys + self.values)
        return _CELLS.size + _LAYERS.size + heads


@dataclass(frozen=True)
class Layout:
    """Of the caches whose tokens can be cut: what stands in front of the rest of a state."""

    caches: tuple[Cache, ...]

    @property
    def token(self) -> int:
        """Bytes of a token."""
        return sum(cache.token for cache in self.caches)

    def size(self, cells: int) -> int:
        """Bytes of a state of so many cells, its header among them, without its rest."""
        return HEADER.size + sum(cache.fixed + cells * cache.token for cache in self.caches)

    def frame(self, cells: int, rest: int = 0) -> Bytes:
        """A state of so many cells, `rest` bytes behind it: all but the bytes of tokens and rest."""
        state = np.empty(self.size(cells) + rest, np.uint8)
        _put(state, 0, HEADER.pack(MAGIC, 0))
        for offset, part in self._walk(cells):
            if isinstance(part, bytes):
                _put(state, offset, part)
        return state

    def regions(self, state: Bytes, cells: int) -> list[Bytes]:
        """Views of the bytes of tokens, [lines, cells, bytes]: metadata of cells, and rows."""
        found = []
        for offset, part in self._walk(cells):
            if isinstance(part, Rows):
                found.append(part.view(state[offset : offset + cells * part.token], cells))
        return found

    def pages(self, state: Bytes, cells: int, tokens: int) -> list[Bytes]:
        """Views of whole pages of `tokens`, [page, lines, bytes]: in order, the bytes of a page."""
        count = cells // tokens
        return [
            region[:, : count * tokens].reshape(len(region), count, -1).swapaxes(0, 1)
            for region in self.regions(state, cells)
        ]

    def gather(self, state: Bytes, cells: int, first: int) -> Bytes:
        """The bytes of the tokens from `first` on, as a page has them."""
        return np.concatenate([r[:, first:].reshape(-1) for r in self.regions(state, cells)])

    def scatter(self, state: Bytes, cells: int, first: int, data: Bytes) -> None:
        """Puts what `gather` has made into a state of as many cells."""
        offset = 0
        for region in self.regions(state, cells):
            part = region[:, first:]
            part[...] = data[offset : offset + part.size].reshape(part.shape)
            offset += part.size

    def take(self, state: Bytes, first: int, cells: int) -> None:
        """Makes sure that `state` is one of the tokens first, first + 1, .., in order: reorders the
        bytes where cells are in another one, and sets the sequence to 0. Raises Unknown."""
        expected = self.frame(cells)
        if len(state) != len(expected):
            raise Unknown(f"a state of {cells} tokens has {len(state)} bytes, not {len(expected)}")
        for offset, part in self._walk(cells):
            if isinstance(part, bytes) and state[offset : offset + len(part)].tobytes() != part:
                raise Unknown(f"other headers at byte {offset} of a state of {cells} tokens")
        regions = iter(self.regions(state, cells))
        for cache in self.caches:
            own = [next(regions) for _ in range(1 + len(cache.keys) + len(cache.values))]
            positions = _integers(own[0][0], 0)
            if not np.array_equal(positions, np.arange(first, first + cells)):
                order = np.argsort(positions, kind="stable")
                if not np.array_equal(positions[order], np.arange(first, first + cells)):
                    raise Unknown(f"a state is not of the tokens {first} to {first + cells - 1}")
                for region in own:
                    region[...] = region[:, order]
            own[0][0, :, -4:] = 0

    def _walk(self, cells: int) -> Iterator[tuple[int, bytes | Rows]]:
        """Offsets of what a state consists of behind its header."""
        offset = HEADER.size
        for cache in self.caches:
            parts: list[bytes | Rows] = [_CELLS.pack(1, cells), Rows(b"", cache.cell)]
            parts.append(_LAYERS.pack(cache.transposed, len(cache.keys)))
            for rows in cache.keys + cache.values:
                parts += [rows.head, rows]
            for part in parts:
                yield offset, part
                offset += len(part) if isinstance(part, bytes) else cells * part.token


def parse(state: Bytes, cells: int) -> Layout:
    """The layout of a state of the tokens 0 .. cells - 1, in order. Raises Unknown."""
    if cells < 2 or len(state) < HEADER.size or HEADER.unpack_from(state)[0] != MAGIC:
        raise Unknown("no header of a sequence's state")
    found = _caches(state, HEADER.size, cells)
    if found is None or not found:
        raise Unknown("a layout that is not known")
    return Layout(tuple(found))


def _caches(state: Bytes, offset: int, cells: int) -> list[Cache] | None:
    """Caches up to the state's end; None if its bytes are not that."""
    if offset == len(state):
        return []
    for cache, end in _one_cache(state, offset, cells):
        behind = _caches(state, end, cells)
        if behind is not None:
            return [cache, *behind]
    return None


def _one_cache(state: Bytes, offset: int, cells: int) -> Iterator[tuple[Cache, int]]:
    """What a cache at `offset` may be, and where it ends."""
    if len(state) < offset + _CELLS.size or _CELLS.unpack_from(state, offset) != (1, cells):
        return
    start = offset + _CELLS.size
    for cell in range(_CELL, _CELL + _MOST_MORE + 1, 4):
        at = start + cells * cell
        if len(state) < at + _LAYERS.size:
            return
        meta = state[start:at].reshape(cells, cell)
        transposed, layers = _LAYERS.unpack_from(state, at)
        if not (_is_meta(meta) and transposed in (0, 1) and 0 < layers <= _MOST_LAYERS):
            continue
        keys, behind = _some_rows(state, at + _LAYERS.size, cells, layers, 0)
        if len(keys) < layers:
            continue
        values, _ = _some_rows(state, behind, cells, layers, transposed)
        for count in range(len(values), -1, -1):
            taken = tuple(values[:count])
            end = behind + sum(len(rows.head) + cells * rows.token for rows in taken)
            yield Cache(cell, transposed, tuple(keys), taken), end


def _some_rows(
    state: Bytes, offset: int, cells: int, most: int, transposed: int
) -> tuple[list[Rows], int]:
    found: list[Rows] = []
    form = _ELEMENTS if transposed else _ROWS
    while len(found) < most and offset + form.size <= len(state):
        head = state[offset : offset + form.size].tobytes()
        if transposed:
            _, element, elements = _ELEMENTS.unpack(head)
            token = element * elements
        else:
            (_, token), elements = _ROWS.unpack(head), 0
        end = offset + form.size + cells * token
        if not 0 < token <= _MOST_ROW or end > len(state):
            break
        found.append(Rows(head, token, elements))
        offset = end
    return found, offset


def _is_meta(meta: Bytes) -> bool:
    """Metadata of cells in order, each of one sequence, all of the same."""
    of_sequence = _integers(meta, meta.shape[1] - 4)
    return (
        np.array_equal(_integers(meta, 0), np.arange(len(meta)))
        and bool((_integers(meta, 4) == 1).all())
        and bool((of_sequence == of_sequence[0]).all())
    )


def _integers(meta: Bytes, offset: int) -> npt.NDArray[np.int32]:
    return np.ascontiguousarray(meta[:, offset : offset + 4]).view(np.int32)[:, 0]


def _put(state: Bytes, offset: int, part: bytes) -> None:
    state[offset : offset + len(part)] = np.frombuffer(part, np.uint8)
