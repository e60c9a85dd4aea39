# SPDX-License-Identifier: Apache-2.0
"""The command line."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from ..errors import Error
from . import __doc__ as _usage
from .cache_types import TYPES, CacheType, chosen, sparse


def _arguments(command_line: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m folio_kv.quality",
        description=_usage,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", metavar="MODEL", type=Path, nargs="?")
    parser.add_argument("--types", help="names with commas between them; all if not given")
    parser.add_argument("--list", action="store_true", help="prints the names of the types")
    parser.add_argument("--text", type=Path, help="a text file, or a JSON list of tokens (*.json)")
    parser.add_argument("--tokens", type=int, default=8192, help="of the text")
    parser.add_argument("--scored-each", type=int, default=4, help="which tokens are scored")
    parser.add_argument("--scored-from", type=int, default=0, help="the first that may be scored")
    parser.add_argument("--pages", help="tokens that a query reads of a bf16 cache, with commas")
    parser.add_argument("--page-size", default="16", help="of --pages, with commas")
    parser.add_argument("--decoded", type=int, default=16, help="steps that are timed; 0: none")
    parser.add_argument("--threads", type=int, default=0, help="of torch and folio; 0: all")
    parser.add_argument("--format", choices=("text", "markdown", "json"), default="text")
    parser.add_argument("--json", type=Path, help="where the figures go as JSON")
    parser.add_argument("--plot", type=Path, help="where the plot goes, as SVG")
    parser.add_argument("--llama-model", type=Path, help="the GGUF file of types of llama.cpp")
    parser.add_argument("--llama-python", help="an interpreter with llama-cpp-python")
    given = parser.parse_args(command_line)
    if given.model is None and not given.list:
        parser.error("the following arguments are required: MODEL")
    return given


def _check(given: argparse.Namespace) -> None:
    """Errors: numbers out of range, results that could not be written at the end."""
    for name, value, least in (
        ("--tokens", given.tokens, 2),
        ("--scored-each", given.scored_each, 1),
        ("--scored-from", given.scored_from, 0),
        ("--decoded", given.decoded, 0),
        ("--threads", given.threads, 0),
    ):
        if value < least:
            raise Error(f"{name}: expected at least {least}, got {value}")
    if given.scored_from >= given.tokens:
        raise Error(f"--scored-from: expected less than --tokens, got {given.scored_from}")
    for name, path in (("--json", given.json), ("--plot", given.plot)):
        if path is not None and (path.is_dir() or not path.parent.is_dir()):
            raise Error(f"{name}: expected a file in a folder that is there, got {path}")
        if path is not None and not os.access(path if path.exists() else path.parent, os.W_OK):
            raise Error(f"{name}: expected a file that can be written, got {path}")


def _numbers(name: str, given: str) -> list[int]:
    """Of a text with commas. Errors: what is none, or below 1."""
    try:
        numbers = [int(x) for x in given.split(",") if x.strip()]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise Error(f"{name}: expected numbers above 0 with commas between them, got {given!r}")
    return list(dict.fromkeys(numbers))


def _rows(given: argparse.Namespace) -> list[CacheType]:
    if given.pages is None:
        return chosen(given.types)
    rows = sparse(_numbers("--pages", given.pages), _numbers("--page-size", given.page_size))
    return rows + [x for x in (chosen(given.types) if given.types else []) if x not in rows]


def _measure(given: argparse.Namespace) -> tuple[dict[str, Any], list[Any]]:
    """Where the outcomes come from, and those."""
    rows = _rows(given)
    _check(given)
    try:
        import torch
        import transformers  # noqa: F401
    except ImportError as error:
        raise Error(f"folio_kv.quality needs torch and transformers: {error}") from error
    import folio_kv

    from ..bench.machine import describe, processors
    from . import in_llama, text
    from .contenders import compare
    from .loading import load

    folio_kv.set_num_threads(given.threads)  # refuses numbers that torch would try
    torch.set_num_threads(given.threads or processors())
    transformers.utils.logging.disable_progress_bar()
    here = [row for row in rows if row.engine != "llama.cpp"]
    there = [row for row in rows if row.engine == "llama.cpp"]
    if there and given.scored_from:
        raise Error(f"--scored-from: not for types of llama.cpp ({there[0].name})")
    weights = in_llama.weights(given.model, given.llama_model) if there else None
    loaded = load(given.model)
    tokens = text.read(given.text, loaded.tokenizer, given.tokens, loaded.vocabulary)
    context = describe("", False) | {"model": str(given.model), "tokens": len(tokens) - 1}
    options: dict[str, Any] = {"scored_each": given.scored_each, "decoded": given.decoded}
    outcomes = compare(
        loaded.model, here, tokens, scored_from=given.scored_from, say=_say, **options
    )
    if there:
        threads = given.threads or processors()
        outcomes += in_llama.compare(
            weights, there, tokens, given.llama_python, threads=threads, say=_say, **options
        )
    return context, outcomes


def _say(progress: str) -> None:
    print(progress, file=sys.stderr, flush=True)


def main(command_line: list[str] | None = None) -> int:
    """`command_line` is sys.argv[1:] if not given. Exit status 2: an argument was refused; 1: a type
    that --types or --pages names was."""
    given = _arguments(command_line)
    if given.list:
        print("\n".join(TYPES))
        return 0
    try:
        context, outcomes = _measure(given)
    except Error as error:
        print(f"folio_kv.quality: {error}", file=sys.stderr)
        return 2
    from . import figure, report

    result = report.as_json(context, outcomes)
    forms = {"text": report.text, "markdown": report.markdown}
    print(forms[given.format](outcomes) if given.format in forms else json.dumps(result, indent=1))
    if given.json:
        given.json.write_text(json.dumps(result, indent=1) + "\n")
    if given.plot:
        given.plot.write_text(figure.draw(outcomes))
    named = given.types or given.pages
    return 1 if named and any(x.refused for x in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
