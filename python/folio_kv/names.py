# SPDX-License-Identifier: Apache-2.0
"""Names of pages as chains of SHA-256, by hashlib: byte for byte those of the C++ library
``folio::names``, which needs OpenSSL (``folio/names/sha256_names.h`` says what is hashed).

``PagePool(..., name=Sha256Names(fingerprint))`` names the pages of a pool; ``chain`` names those of
a prompt without a pool, as a router does.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence

from folio_kv._core import CompanionContent, PageContent
from folio_kv.errors import Error

Span = tuple[int, int, bytes]

MAX_HEADER_BYTES = 256
MAX_COUNT = 2**31 - 1


class Sha256Names:
    """Names pages; called with a ``PageContent``, it is what ``PagePool`` takes for ``name``.

    fingerprint: 32 bytes, the caller's digest of what keys and values depend on beside tokens:
    model, geometry, element type, rank. header: at most 256 bytes that belong to every page's name.
    Raises Error.
    """

    def __init__(self, fingerprint: bytes = bytes(32), header: bytes = b"") -> None:
        if len(fingerprint) != 32:
            raise Error(f"fingerprint has {len(fingerprint)} bytes, expected 32")
        if len(header) > MAX_HEADER_BYTES:
            raise Error(f"header has {len(header)} bytes, expected at most {MAX_HEADER_BYTES}")
        self._root = hashlib.sha256(b"folio root1" + fingerprint)
        self._page = hashlib.sha256(b"folio page1" + struct.pack("<I", len(header)) + header)

    def root(self, salt: bytes = b"", adapter: int = 0) -> bytes:
        """Where the chains of a salt and an adapter begin."""
        if not 0 <= adapter < 2**64:
            raise Error(f"adapter is {adapter}, expected 0 to 2^64 - 1")
        state = self._root.copy()
        state.update(struct.pack("<QI", adapter, len(salt)) + salt)
        return state.digest()

    def page(self, parent: bytes, tokens: Sequence[int], spans: Sequence[Span] = ()) -> bytes:
        """The name of the page of these tokens behind the one that ``parent`` names, or a root.

        spans: (offset, length, hash) of items with a token in the page, as seen from its first
        token, ascending.
        """
        if len(parent) != 32:
            raise Error(f"parent has {len(parent)} bytes, expected 32")
        if len(tokens) == 0:
            raise Error("tokens has 0 elements, expected 1 or more")
        check_spans(spans, len(tokens))
        state = self._page.copy()
        state.update(parent)
        try:
            state.update(struct.pack(f"<I{len(tokens)}i", len(tokens), *tokens))
        except struct.error as error:
            raise Error(f"tokens: expected integers of 32 bits: {error}") from None
        state.update(struct.pack("<I", len(spans)))
        for offset, length, digest in spans:
            state.update(struct.pack("<ii", offset, length) + digest)
        return state.digest()

    def companion(
        self,
        leading: bytes,
        group: int,
        rule: str,
        *,
        window: int = 0,
        sinks: int = 0,
        chunk: int = 0,
        checkpoint: int = 0,
    ) -> bytes:
        """The name of the page that ``group`` has of the tokens of the page that ``leading`` names;
        what the rule has not stands for nothing."""
        if len(leading) != 32:
            raise Error(f"leading has {len(leading)} bytes, expected 32")
        if not 1 <= group <= 255:
            raise Error(f"group is {group}, expected 1 to 255")
        reaches = {"full": 0, "window": window, "chunked": chunk, "state": checkpoint}
        if rule not in reaches:
            raise Error(f'rule is "{rule}", expected one of {", ".join(reaches)}')
        kind = struct.pack("<BB", group, list(reaches).index(rule))
        reach = struct.pack("<ii", reaches[rule], sinks if rule == "window" else 0)
        return hashlib.sha256(b"folio pair1" + leading + kind + reach).digest()

    def name_companion(self, page: CompanionContent) -> bytes:
        return self.companion(
            page.leading,
            page.group,
            page.rule,
            window=page.window,
            sinks=page.sinks,
            chunk=page.chunk,
            checkpoint=page.checkpoint,
        )

    def __call__(self, page: PageContent) -> bytes:
        parent = page.parent
        if parent is None:
            parent = self.root(page.salt, page.adapter)
        return self.page(parent, page.tokens, page.spans)

    def chain(
        self,
        tokens: Sequence[int],
        page_size: int,
        *,
        salt: bytes = b"",
        adapter: int = 0,
        spans: Sequence[Span] = (),
    ) -> list[bytes]:
        """The names of the full pages of a prompt; spans: as ``PagePool.admit`` takes them."""
        if page_size < 1:
            raise Error(f"page_size is {page_size}, expected at least 1")
        names: list[bytes] = []
        parent = self.root(salt, adapter)
        for begin in range(0, len(tokens) - page_size + 1, page_size):
            end = begin + page_size
            inside = [(o - begin, n, h) for o, n, h in spans if o < end and o + n > begin]
            parent = self.page(parent, tokens[begin:end], inside)
            names.append(parent)
        return names


def check_spans(spans: Sequence[Span], num_tokens: int) -> None:
    """Raises Error unless each has a token of the page, and none begins before the last one's end."""
    end_before = -(2**31)
    for i, (offset, length, digest) in enumerate(spans):
        if len(digest) != 32 or not 1 <= length <= MAX_COUNT:
            raise Error(f"spans[{i}]: expected a length from 1 on, and 32 bytes of hash")
        end = offset + length
        if end <= 0 or not end_before <= offset < num_tokens:
            raise Error(
                f"spans[{i}] is [{offset}, {end}), expected a token of the page's [0, {num_tokens}), "
                "and none of the span before"
            )
        end_before = end
