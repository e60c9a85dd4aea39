#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/generated/python_architectures.md: every causal-LM architecture of the installed
transformers, on folio beside eager.

    PYTHONPATH=python python3 tools/python_architectures.py [--check] [ARCHITECTURE ...]

The comparisons are those of python/tests/transformers. With --check nothing is written, and
whatever in the table is not as it would be written now is printed, differences between logits
aside: those depend on the machine. With architectures, only their rows are made, and printed.
"""

from __future__ import annotations

import argparse
import logging
import re
import sys
import warnings
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/generated/python_architectures.md"
sys.path.insert(0, str(ROOT / "python" / "tests" / "transformers"))

HEAD = """# Architectures of transformers on folio

Every architecture that transformers {version} registers for causal language models, built small
with random weights in float32 (three or four layers, four query heads, mostly two KV heads of 16),
with eager attention and with folio. Made by `tools/python_architectures.py`;
`python/tests/transformers/test_architectures.py` runs the same comparisons.

- **forward**: logits of one forward without a cache, two rows, one padded on the left.
- **generate**: {new} greedy tokens behind those rows with a `FolioCache`, and the logits of each;
  eager has transformers' cache.
- **continuous**: greedy tokens and log-probabilities of `generate_batch` (four requests, chunks of
  at most 24 tokens, two with a common prefix), beside eager forwards over the same tokens without a
  cache.
- **worst**: the largest difference between two logits in the three; more than {bound:.0e} counts as
  a failure.

*ok* means equal tokens and no larger difference. *n/a* means that there is nothing to compare, and
the remark says why: mostly transformers' own continuous batching, which then fails, or differs from
eager, without folio too. {summary}

| architecture | features | forward | generate | continuous | worst | remark |
| --- | --- | --- | --- | --- | --- | --- |
"""
NOT_BUILT_HEAD = "\n## Not built\n\n"


def remark(row) -> str:
    """Whose failure, or why there is nothing to compare; and which layers did not run on folio."""
    from comparison import implementation_of

    parts = []
    texts = {}
    for name, outcome in zip(("forward", "generate", "continuous"), row.outcomes):
        text = outcome.failure or outcome.skipped
        if text and text not in texts.values():
            texts[name] = text
            parts.append(
                text if name != "forward" and text.startswith("transformers") else f"{name}: {text}"
            )
    if row.forward.skipped:
        parts = [f"{'; '.join(row.remarks) or row.forward.skipped}"]
    elif row.remarks:
        parts.append("not on folio: " + "; ".join(row.remarks))
    if implementation_of(row.name) == "folio":
        parts.append('as "folio": transformers refuses flash names here')
    return "; ".join(parts).replace("|", "\\|").replace("\n", " ")


def line(row) -> str:
    """A row of the table."""
    differences = [outcome.difference for outcome in row.outcomes if outcome.difference is not None]
    worst = f"{max(differences):.0e}" if differences else ""
    cells = [
        row.name,
        ", ".join(row.features),
        *(str(outcome) for outcome in row.outcomes),
        worst,
        remark(row),
    ]
    return "| " + " | ".join(cells) + " |"


def page(rows) -> str:
    """The whole document."""
    import transformers
    from architectures import NOT_BUILT
    from comparison import BOUND, NEW

    served = sum(str(row.forward) == "ok" for row in rows)
    failed = sum(any(outcome.failure for outcome in row.outcomes) for row in rows)
    batched = sum(str(row.continuous) == "ok" for row in rows)
    summary = (
        f"Of {len(rows)} architectures {served} run on folio, {batched} of them in continuous "
        f"batching too, and {failed} fail; {sum(bool(row.forward.skipped) for row in rows)} have "
        "attention of their own, which asks for no other."
    )
    head = HEAD.format(version=transformers.__version__, new=NEW, bound=BOUND, summary=summary)
    reasons = defaultdict(list)
    for name, why in NOT_BUILT.items():
        reasons[why].append(name)
    foot = "\n".join(f"- {why}: {', '.join(sorted(names))}." for why, names in reasons.items())
    return head + "\n".join(line(row) for row in rows) + "\n" + NOT_BUILT_HEAD + foot + "\n"


def without_differences(text: str) -> list[str]:
    """The lines of the page without what depends on the machine, or on transformers' threads."""
    lines = [re.sub(r"\| \d+e-\d+ \|", "| |", line) for line in text.splitlines()]
    return [re.sub(r"without folio too: [^;|]*", "without folio too", line) for line in lines]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--check", action="store_true", help="compare with the page instead of writing it"
    )
    parser.add_argument("architecture", nargs="*")
    arguments = parser.parse_args()

    import torch
    import transformers
    from architectures import NOT_BUILT, names
    from comparison import compare

    import folio_kv
    import folio_kv.transformers as folio

    transformers.logging.set_verbosity_error()
    logging.disable(logging.ERROR)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    folio_kv.set_num_threads(1)
    folio.register()

    rows = []
    for name in arguments.architecture or [name for name in names() if name not in NOT_BUILT]:
        rows.append(compare(name))
        print(line(rows[-1]), file=sys.stdout if arguments.architecture else sys.stderr, flush=True)
    failed = any(outcome.failure for row in rows for outcome in row.outcomes)
    if arguments.architecture:
        return int(failed)
    text = page(rows)
    if not arguments.check:
        PAGE.write_text(text, encoding="utf-8")
        return int(failed)
    was, now = without_differences(PAGE.read_text(encoding="utf-8")), without_differences(text)
    for old in sorted(set(was) - set(now)):
        print(f"- {old}")
    for new in sorted(set(now) - set(was)):
        print(f"+ {new}")
    return int(failed or was != now)


if __name__ == "__main__":
    sys.exit(main())
