# SPDX-License-Identifier: Apache-2.0
"""tools/docs/headers.py: a public header as a page: its `///` comments as prose, what they stand before as code, in the header's order.

Doxygen would not do: it takes the headers' aligned forms (formulas, drawings, `Errors:` and what follows) for running text.
"""

import re

# What says nothing to a reader: what C++ is told of C, and lines outside of all declarations.
OF_C = re.compile(r"^#ifdef __cplusplus\n(?:extern \"C\" \{|\})\n#endif\n", re.MULTILINE)
NOISE = re.compile(r"#pragma once|#\s*include\b|(inline )?namespace [\w:]+.*\{$|\}  // namespace|// NOLINT|// SPDX")
# Where a declaration without a comment begins.
TYPE = re.compile(r"(template <.*>|struct|class|union|enum|typedef struct)\b")
LABEL = re.compile(r"(Errors|Effects|Memory|Cost|Shapes|Units|Source|Thread safety|Requires|Result):\s+")
ATTRIBUTES = re.compile(r"\b(?:FOLIO_\w*EXPORT|FOLIO_HOST_DEVICE|alignas\([^)]*\)|__attribute__\(\(.*?\)\))\s*|\[\[\w+\]\]\s*")
NAMES = [
    re.compile(pattern)
    for pattern in (
        r"^#define (\w+)",
        r"^(?:typedef )?(?:struct|class|union|enum(?: class)?) (\w+)",
        r"\bconcept (\w+) =",
        r"^using (\w+) =",
        r"(?:^|[\s*&])(operator\S+|~?\w+)\s*\((?!\()",
        r"^[^=;{]*?(\w+)\s*(?:\[\w*\])?\s*[=;{]",
    )
]


def escape(text):
    """Prose between code spans and *emphasis*, without what Markdown would take for its own."""
    parts = re.split(r"(`[^`]*`|(?<![\w*])\*\w[\w ]*\*(?![\w*]))", text)
    parts[::2] = [re.sub(r"([\\*_\[\]#])", r"\\\1", part).replace("&", "&amp;").replace("<", "&lt;") for part in parts[::2]]
    return "".join(parts)


def prose(lines):
    """Lines of a comment as Markdown: paragraphs, lists, labels; what is drawn or aligned stays as it is."""
    blocks, fence = [], []

    def end_drawing():
        if fence:
            width = min(len(line) - len(line.lstrip()) for line in fence)
            blocks.append("```text\n" + "\n".join(line[width:] for line in fence) + "\n```")
            fence.clear()

    open_block = False  # the next line goes on with the last block
    for line in lines:
        bare = line.strip()
        label, item = LABEL.match(line), re.match(r"\* ", line)
        if not bare:
            end_drawing()
            open_block = False
        elif label or item:
            end_drawing()
            text = line[label.end() if label else 2 :]
            blocks.append(f"**{label[1]}:** {escape(text)}" if label else f"* {escape(text)}")
            open_block = True
        elif line.startswith("  ") and not (open_block and blocks[-1].startswith(("**", "* "))):
            fence.append(line)
            open_block = False
        elif open_block:
            blocks[-1] += " " + escape(bare)
        else:
            end_drawing()
            blocks.append(escape(bare))
            open_block = True
    end_drawing()
    return "\n\n".join(blocks)


def chunks(lines):
    """(comment, code) of each declaration that has a comment, with those behind it that have none."""
    comment, code = [], []
    for line in lines:
        is_comment = line.startswith("///")
        if any(code) and (is_comment or TYPE.match(line) and not code[-1]):
            yield comment, code
            comment, code = [], []
        if is_comment:
            comment.append(line[3:].removeprefix(" ").rstrip())
        elif not NOISE.match(line):
            code.append(line.rstrip())
    if comment or any(code):
        yield comment, code


def name_of(code):
    """What the first declaration declares; '' where it has no name."""
    text = re.sub(r"^\s*//.*\n", "", "\n".join(code).strip(), flags=re.MULTILINE)
    text = re.sub(r"^(template <[^{;]*?>|requires .*)\n", "", ATTRIBUTES.sub("", text).lstrip())
    found = (pattern.search(text.split("\n\n")[0]) for pattern in NAMES)
    name = next((match[1] for match in found if match), "")
    return name if name not in ("enum", "defined") else ""


def page(name, text):
    """The page of the header `folio/...` as Markdown."""
    lines = OF_C.sub("", text).splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("///"))
    last = next(i for i in range(first, len(lines)) if not lines[i].startswith("///"))
    head = [line[3:].removeprefix(" ").rstrip() for line in lines[first:last]]
    head[0] = head[0].removeprefix(f"{name}: ")
    head[0] = head[0][:1].upper() + head[0][1:]
    parts = [f"# {escape(name)}", prose(head)]
    before = ""
    for comment, code in chunks(lines[last:]):
        if (title := name_of(code)) and title != before:
            parts.append(f"## {escape(title)}")
            before = title
        parts.append(prose(comment))
        if shown := "\n".join(code).strip("\n"):
            parts.append(f"```cpp\n{shown}\n```")
    return "\n\n".join(part for part in parts if part) + "\n"
