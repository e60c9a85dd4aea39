# SPDX-License-Identifier: Apache-2.0
"""The command line of the bench."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from . import __doc__ as _usage
from .timing import Row

PARTS = ("attention", "generate", "generate_batch", "vllm")


def _arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m folio_kv.bench",
        description=_usage,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="the same as --longest 1024")
    parser.add_argument("--longest", type=int, default=32768, help="context that is measured")
    parser.add_argument("--only", choices=PARTS, action="append", help="this part; may be repeated")
    parser.add_argument("--head-size", type=int, default=128, help="of the engines' model")
    parser.add_argument("--threads", type=int, default=0, help="of torch and folio; 0: all")
    parser.add_argument("--json", type=Path, help="where the results go")
    parser.add_argument("--commit", default="unknown", help="written to the results")
    parser.add_argument("--vllm-python", help="an interpreter with vLLM, if this one has none")
    given = parser.parse_args(arguments)
    given.longest = min(given.longest, 1024) if given.quick else given.longest
    return given


def _parts(arguments: argparse.Namespace) -> Iterator[tuple[str, Callable[[], Iterator[Row]]]]:
    """The parts that were asked for and can run here."""
    from . import attention, in_transformers, in_vllm

    longest, head_size = arguments.longest, arguments.head_size
    interpreter = arguments.vllm_python
    has_transformers = importlib.util.find_spec("transformers") is not None
    for part in arguments.only or PARTS:
        if part == "attention":
            yield part, lambda: attention.run(longest)
        elif part == "vllm" and in_vllm.is_there(interpreter):
            yield part, lambda: in_vllm.run(longest, head_size, interpreter)
        elif part == "generate" and has_transformers:
            yield part, lambda: in_transformers.generate(longest, head_size)
        elif part == "generate_batch" and has_transformers:
            yield part, lambda: in_transformers.generate_batch(longest, head_size)
        else:
            print(f"{part}: left out, the engine is not installed", flush=True)


def main(command_line: list[str] | None = None) -> int:
    """Runs the bench; `command_line` is sys.argv[1:] if not given."""
    arguments = _arguments(command_line)
    try:
        import torch
    except ImportError:
        print("the bench compares with torch, which is not installed", file=sys.stderr)
        return 1
    import folio_kv

    from .machine import describe, processors

    torch.set_num_threads(arguments.threads or processors())
    folio_kv.set_num_threads(arguments.threads)
    context = describe(arguments.commit, arguments.quick)
    context["head_size_of_engines"] = arguments.head_size
    for name, value in context.items():
        print(f"{name}: {value}", flush=True)
    rows: list[Row] = []
    failed: dict[str, str] = {}

    def save() -> None:
        if arguments.json:
            measured = [row.as_json() for row in rows]
            result = {"context": context, "rows": measured, "failed": failed}
            arguments.json.write_text(json.dumps(result, indent=1) + "\n")

    for name, part in _parts(arguments):
        try:
            for row in part():
                print(row.line(), flush=True)
                rows.append(row)
                save()
        except Exception as error:  # the other parts still count; the page says what is missing
            traceback.print_exc()
            reason = str(error).partition("\n")[0]
            failed[name] = f"{type(error).__name__}: {reason}"
            save()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
