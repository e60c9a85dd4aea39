# SPDX-License-Identifier: Apache-2.0
"""States of sequences as bytes, without llama.cpp: what is cut and put together is what it was."""

from __future__ import annotations

import pathlib
import struct
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "clients/llama_cpp/python"))

from folio_llama_cpp.states import Layout, Unknown, parse  # noqa: E402

PAGE = 4


def section(
    positions: list[int],
    layers: int,
    has_values: bool,
    transposed: bool = False,
    more: int = 0,
    sequence: int = 0,
) -> bytes:
    """A cache as llama.cpp writes it, the bytes of a token made of its position."""
    cells = len(positions)
    out = struct.pack("=II", 1, cells)
    for position in positions:
        out += struct.pack("=iI", position, 1) + bytes([position % 251] * more)
        out += struct.pack("=i", sequence)
    out += struct.pack("=II", transposed, layers)
    for layer in range(layers):
        out += struct.pack("=iQ", 1, 6)
        out += b"".join(bytes([(position + layer) % 251] * 6) for position in positions)
    for layer in range(layers if has_values else 0):
        if transposed:
            out += struct.pack("=iII", 1, 2, 3)
            for element in range(3):
                out += b"".join(struct.pack("=H", p * 7 + element + layer) for p in positions)
        else:
            out += struct.pack("=iQ", 8, 10)
            out += b"".join(bytes([(p * 3 + layer) % 251] * 10) for p in positions)
    return out


def state(positions: list[int], caches: list[dict], sequence: int = 0) -> np.ndarray:
    whole = struct.pack("=Ii", 0xAF143CD8, sequence)
    for cache in caches:
        whole += section(positions, sequence=sequence, **cache)
    return np.frombuffer(whole, np.uint8).copy()


KINDS = {
    "rows": [{"layers": 3, "has_values": True}],
    "transposed": [{"layers": 2, "has_values": True, "transposed": True}],
    "latent": [{"layers": 2, "has_values": False}],
    "two": [{"layers": 2, "has_values": True}, {"layers": 1, "has_values": False}],
    "positions_2d": [{"layers": 1, "has_values": True, "more": 12}],
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_is_put_together_from_pages_and_an_end(kind: str) -> None:
    layout = parse(state(list(range(5)), KINDS[kind]), 5)
    expected = state(list(range(11)), KINDS[kind])
    assert layout.size(11) == len(expected)
    parts = [state(list(range(f, last)), KINDS[kind], 1) for f, last in ((0, 8), (8, 11))]
    for part, (first, last) in zip(parts, ((0, 8), (8, 11)), strict=True):
        layout.take(part, first, last - first)
    made = layout.frame(11)
    for into, page in zip(
        layout.pages(made, 11, PAGE), layout.pages(parts[0], 8, PAGE), strict=True
    ):
        assert into.shape == page.shape and len(into) == 2
        into[...] = page
    layout.scatter(made, 11, 8, layout.gather(parts[1], 3, 0))
    assert np.array_equal(made, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_cells_in_another_order_are_put_into_their_own(kind: str) -> None:
    layout = parse(state(list(range(4)), KINDS[kind]), 4)
    given = state([12, 10, 13, 11], KINDS[kind], 1)
    layout.take(given, 10, 4)
    assert np.array_equal(given[8:], state([10, 11, 12, 13], KINDS[kind])[8:])


def test_other_tokens_are_not_taken() -> None:
    layout = parse(state(list(range(4)), KINDS["rows"]), 4)
    for positions in ([0, 1, 2, 4], [0, 1, 1, 2], [1, 2, 3, 4]):
        with pytest.raises(Unknown, match="not of the tokens 0 to 3"):
            layout.take(state(positions, KINDS["rows"]), 0, 4)
    with pytest.raises(Unknown, match="has 276 bytes, not 336"):
        layout.take(state(list(range(3)), KINDS["rows"]), 0, 4)
    with pytest.raises(Unknown, match="other headers"):
        other = state(list(range(4)), KINDS["rows"])
        other[8 + 8 + 4 * 12 + 8] = 30  # the type of the first layer's keys
        layout.take(other, 0, 4)


def test_bytes_that_are_not_explained_are_unknown() -> None:
    good = state(list(range(4)), KINDS["rows"])
    assert isinstance(parse(good, 4), Layout)
    bad = {"longer": np.append(good, np.uint8(0)), "shorter": good[:-1], "empty": good[:8]}
    for at, name in (
        (0, "magic"),
        (8, "streams"),
        (12, "cells"),
        (16, "position"),
        (20, "sequences"),
    ):
        bad[name] = good.copy()
        bad[name][at] ^= 5
    for name, one in bad.items():
        with pytest.raises(Unknown):
            parse(one, 4)
            pytest.fail(name)


def test_positions_tell_a_cell_from_what_stands_behind_it() -> None:
    """A state of another order than 0, 1, .. says nothing of its layout."""
    with pytest.raises(Unknown):
        parse(state([1, 0, 2, 3], KINDS["rows"]), 4)
