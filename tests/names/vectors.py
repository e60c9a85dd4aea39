#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/names/vectors.py: page names by Python's hashlib, which tests/names/vectors.txt holds.

usage: vectors.py FILE            says whether FILE is what this program makes; exit status 1 if not
       vectors.py FILE --write    makes it

A line is one of
  root  FINGERPRINT ADAPTER SALT NAME
  page  HEADER PARENT TOKENS SPANS NAME
  chain FINGERPRINT ADAPTER SALT PAGE_SIZE TOKENS NAMES      of the full pages of a sequence
  companion LEADING GROUP RULE REACH SINKS NAME              RULE 0 .. 3 as GroupRule, REACH its window, chunk or checkpoint
with bytes in hexadecimal, TOKENS t,t,..., SPANS offset:length:hash,..., NAMES name,name,...; what is empty is `-`.
"""
import hashlib
import itertools
import pathlib
import struct
import sys

HEADER = "# names by hashlib: made by tests/names/vectors.py, which says what a line holds\n"


def root(fingerprint, adapter, salt):
    encoding = b"folio root1" + fingerprint + struct.pack("<Q", adapter) + struct.pack("<I", len(salt)) + salt
    return hashlib.sha256(encoding).digest()


def page(header, parent, tokens, spans):
    encoding = b"folio page1" + struct.pack("<I", len(header)) + header + parent
    encoding += struct.pack(f"<I{len(tokens)}i", len(tokens), *tokens)
    encoding += struct.pack("<I", len(spans)) + b"".join(struct.pack("<ii", o, n) + h for o, n, h in spans)
    return hashlib.sha256(encoding).digest()


def chain(fingerprint, adapter, salt, page_size, tokens):
    names = [root(fingerprint, adapter, salt)]
    for end in range(page_size, len(tokens) + 1, page_size):
        names.append(page(b"", names[-1], tokens[end - page_size : end], []))
    return names[1:]


def companion(leading, group, rule, reach, sinks):
    return hashlib.sha256(b"folio pair1" + leading + struct.pack("<BBII", group, rule, reach, sinks)).digest()


def text(values):
    return ",".join(str(v) for v in values) or "-"


def spans_text(spans):
    return ",".join(f"{o}:{n}:{h.hex()}" for o, n, h in spans) or "-"


def some_bytes(count, seed):
    """The same on every machine and with every Python."""
    blocks = (hashlib.sha256(f"{seed} {i}".encode()).digest() for i in itertools.count())
    return bytes(itertools.islice(itertools.chain.from_iterable(blocks), count))


def some_tokens(count):
    return list(struct.unpack(f"<{count}i", some_bytes(4 * count, "tokens")))


def lines():
    nothing, everything = bytes(32), bytes(range(32))

    for fingerprint in nothing, everything:
        for adapter in 0, 1, 2**32, 2**64 - 1:
            for salt in b"", b"\0", b"tenant", some_bytes(128, "salt"):
                name = root(fingerprint, adapter, salt)
                yield f"root {fingerprint.hex()} {adapter} {salt.hex() or '-'} {name.hex()}"

    name = root(everything, 5, some_bytes(700, "salt"))  # more than one piece
    yield f"root {everything.hex()} 5 {some_bytes(700, 'salt').hex()} {name.hex()}"

    longest = 2**31 - 1
    all_spans = [
        [],
        [(0, 1, everything)],
        [(0, 16, nothing)],
        [(-100, 101, everything), (1, 1, nothing), (15, longest, everything)],
    ]
    tokens = [[0] * 16, list(range(16)), [2**31 - 1, -(2**31), -1] + [1] * 13]
    for parent in nothing, everything:
        for header in b"", b"\0", some_bytes(40, "header"):
            for page_tokens in tokens:
                for spans in all_spans:
                    name = page(header, parent, page_tokens, spans)
                    yield f"page {header.hex() or '-'} {parent.hex()} {text(page_tokens)} {spans_text(spans)} {name.hex()}"
    for count in 1, 2, 15, 17, 64, 113, 114, 128, 129, 256, 1000:  # around the pieces that are hashed
        page_tokens = some_tokens(count)
        yield f"page - {everything.hex()} {text(page_tokens)} - {page(b'', everything, page_tokens, []).hex()}"
    header, page_tokens = some_bytes(256, "header"), some_tokens(16)
    yield f"page {header.hex()} {nothing.hex()} {text(page_tokens)} - {page(header, nothing, page_tokens, []).hex()}"
    many = [(2 * i, 1 + i % 2, some_bytes(32, i)) for i in range(32)]
    page_tokens = some_tokens(64)
    yield f"page - {nothing.hex()} {text(page_tokens)} {spans_text(many)} {page(b'', nothing, page_tokens, many).hex()}"

    for page_size, count, adapter, salt in (1, 3, 0, b""), (4, 15, 7, b"tenant"), (16, 160, 2**63, b"\xff\0s"):
        tokens = some_tokens(count)
        names = chain(everything, adapter, salt, page_size, tokens)
        yield f"chain {everything.hex()} {adapter} {salt.hex() or '-'} {page_size} {text(tokens)} {text(n.hex() for n in names)}"

    rules = (0, 0, 0), (1, 1024, 0), (1, 128, 4), (1, 2**31 - 1, 2**31 - 2), (2, 8192, 0), (3, 512, 0)
    for leading in nothing, everything:
        for group in 1, 2, 7, 255:
            for rule, reach, sinks in rules:
                name = companion(leading, group, rule, reach, sinks)
                yield f"companion {leading.hex()} {group} {rule} {reach} {sinks} {name.hex()}"


def main():
    path = pathlib.Path(sys.argv[1])
    made = HEADER + "".join(line + "\n" for line in lines())
    if "--write" in sys.argv[2:]:
        path.write_text(made)
        return 0
    same = path.read_text() == made
    print(f"{path}: {'as made' if same else 'differs from what this program makes'}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
