#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/python_stub.py: writes the stub of the installed folio_kv._core, as nanobind sees the module.

usage: python tools/python_stub.py FILE
"""

import pathlib
import sys

from nanobind.stubgen import StubGen

HEAD = "# SPDX-License-Identifier: Apache-2.0\n# Written by tools/update_python_stub.sh.\n"


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python tools/python_stub.py FILE")
    import folio_kv._core as module

    generator = StubGen(module)
    generator.put(module)
    pathlib.Path(sys.argv[1]).write_text(HEAD + generator.get())


if __name__ == "__main__":
    main()
