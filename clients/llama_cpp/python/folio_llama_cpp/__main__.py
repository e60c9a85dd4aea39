# SPDX-License-Identifier: Apache-2.0
"""python -m folio_llama_cpp: what is installed, and whether folio serves it.

With --library it prints the path of libggml-folio.so alone, for GGML_BACKEND_PATH.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import sys

import folio_llama_cpp


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m folio_llama_cpp", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--library",
        action="store_true",
        help="print the path of libggml-folio.so alone, for GGML_BACKEND_PATH",
    )
    if parser.parse_args().library:
        print(folio_llama_cpp.library())
        return 0
    print(f"folio-llama-cpp  {importlib.metadata.version('folio-llama-cpp')}")
    try:
        found = folio_llama_cpp.installed()
        print(f"llama-cpp-python {found.version}, ggml {found.ggml_version} ({found.folder})")
        folio_llama_cpp.enable()
    except folio_llama_cpp.NotEnabled as reason:
        print(f"not enabled: {reason}")
        return 1
    print("enabled: attention of its models runs on folio")
    return 0


if __name__ == "__main__":
    sys.exit(main())
