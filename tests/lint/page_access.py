#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/lint/page_access.py: under src/cpu only KVBuffer's page cursor reads a page table or forms the address of a row in a page.

usage: page_access.py ROOT        prints `file:line: rule` for each breach; exit status 1 if there is one

Whoever reads a table or multiplies by a page's strides has to name one of the members and functions of WORDS, or the memory of a view;
the code of src/cpu, comments and strings apart, names none, but for functions of its own of that name. It asks PageCursor
(folio/attention/kv_buffer/page_cursor.h), which is public and not looked at. ALLOWED lists the exceptions with their reasons; one that is not needed is a breach.
"""
import pathlib
import re
import sys

FOLDER = "src/cpu"
WORDS = {
    "run_of", "row_of", "page_of", "row_offset_bytes", "scale_offset_bytes", "scale_at",  # folio/cache/page_walk.h
    "entries", "row_start", "row_starts", "row_stride", "lookup_table",                   # tables
    "page_stride_bytes", "slot_stride_bytes", "head_stride_bytes",                        # views
    "page_size", "num_pages", "unbounded_page_size",
    "block_paged_ptr", "scales_block_paged_ptr", "scales_raw_ptr", "row_idx", "num_kv_rows", "populate", "get_tma_row", "OperandRun",
}
FORBIDDEN = re.compile(r"\b(" + "|".join(sorted(WORDS)) + r")\b")
VIEW_MEMORY = re.compile(r"\b(\w*view_?|key|value|\w*plane_?|scales)\s*(?:\.|->)\s*data\b(?!\s*[!=]=\s*nullptr)")
OWN_FUNCTION = re.compile(r"(?!\b(?:return|else|case)\b)\b\w+[>*&\s]*\s[*&]*(\w+)\s*\(")  # a type, then a name and its parameters
ALLOWED = {
    "src/cpu/skeleton/mutant.h": ({"page_stride_bytes", "slot_stride_bytes", "page_size"},
                         "the deliberate fault `dense_page_stride` makes a view with a wrong stride"),
    "src/cpu/append/": ({"head_stride_bytes"}, "of a token's heads in rows::Format, which knows no page"),
    "src/cpu/pages/": ({"entries", "num_pages", "page_stride_bytes"},
                       "a query meets the summaries of a whole table row, one or two rows of each page: there are no keys to go through"),
}


def code_of(text):
    """The text without comments and strings, line by line as before."""
    blank = lambda match: re.sub(r"[^\n]", " ", match.group(0))
    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', blank, text, flags=re.DOTALL)


def check(root, allowed):
    used = set()
    for path in sorted((root / FOLDER).rglob("*")):
        name = str(path.relative_to(root))
        if path.suffix not in {".h", ".cpp"}:
            continue
        code = code_of(path.read_text(encoding="utf-8"))
        own = set(OWN_FUNCTION.findall(code))
        for number, line in enumerate(code.splitlines(), 1):
            found = [word for word in FORBIDDEN.findall(line) if word not in own] + [f"{view}.data" for view in VIEW_MEMORY.findall(line)]
            if line.lstrip().startswith("#"):
                continue
            for word in found:
                exception = next((key for key, (words, _) in allowed.items() if name.startswith(key) and word in words), None)
                if exception is None:
                    yield f"{name}:{number}: {word}: ask PageCursor"
                used.add((exception, word))
    for key, (words, _) in allowed.items():
        yield from (f"{key}: the exception for {word} is not needed" for word in sorted(words) if (key, word) not in used)


def main():
    breaches = list(check(pathlib.Path(sys.argv[1]), ALLOWED))
    print("\n".join([*breaches, f"{len(breaches)} breaches"]))
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
