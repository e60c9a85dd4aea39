# SPDX-License-Identifier: Apache-2.0
"""tests/names/vectors.py FILE: names computed by hashlib from the encoding of names/page_name.h, for page_name_test.cpp to compare.

A line is `root FINGERPRINT ADAPTER SALT NAME` or `page PARENT TOKENS token ... ITEMS {offset length CONTENT} ... NAME`; bytes in hex, an
empty salt as `-`.
"""

import hashlib
import random
import struct
import sys


def root(fingerprint, adapter, salt):
    return hashlib.sha256(b"folio/r1" + fingerprint + struct.pack("<QI", adapter, len(salt)) + salt).digest()


def page(parent, tokens, items):
    text = b"folio/p1" + parent + struct.pack(f"<I{len(tokens)}iI", len(tokens), *tokens, len(items))
    for offset, length, content in items:
        text += struct.pack("<ii", offset, length) + content
    return hashlib.sha256(text).digest()


def root_line(fingerprint, adapter, salt):
    return f"root {fingerprint.hex()} {adapter} {salt.hex() or '-'} {root(fingerprint, adapter, salt).hex()}"


def page_line(parent, tokens, items):
    listed = "".join(f" {offset} {length} {content.hex()}" for offset, length, content in items)
    numbers = " ".join(map(str, tokens))
    return f"page {parent.hex()} {len(tokens)} {numbers} {len(items)}{listed} {page(parent, tokens, items).hex()}"


def lines():
    rng = random.Random(14)
    zero, ones = bytes(32), b"\xff" * 32
    for fingerprint in (zero, ones, bytes(range(32))):
        for adapter in (0, 1, 2**63, 2**64 - 1):
            for salt in (b"", b"a", b"tenant-1", b"\0", bytes(range(128))):
                yield root_line(fingerprint, adapter, salt)
    for tokens in ([0], [-1], [2**31 - 1, -(2**31)], list(range(16)), list(range(256))):
        for items in ([], [(0, 1, ones)], [(-5, 6, zero), (1, 2**31 - 1, ones)][: len(tokens)]):
            yield page_line(root(zero, 0, b""), tokens, items)
    parent = root(ones, 7, b"chain")
    for _ in range(200):
        tokens = [rng.randrange(-(2**31), 2**31) for _ in range(rng.choice((1, 15, 16, 17, 64, 100)))]
        items, at = [], rng.randrange(-3, 3)
        while at < len(tokens) and rng.random() < 0.5:
            length = rng.randrange(max(1, 1 - at), 9)
            items.append((at, length, rng.randbytes(32)))
            at += length + rng.randrange(3)
        yield page_line(parent, tokens, items)
        parent = page(parent, tokens, items)


if __name__ == "__main__":
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in lines())
