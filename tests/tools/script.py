# SPDX-License-Identifier: Apache-2.0
"""tests/tools/script.py: a tool in Python, run in this process as a command is."""

import contextlib
import io
import os
import runpy
from unittest import mock


def run_script(path, *words, **environment):
    """(exit status, what it says)"""
    said, status = io.StringIO(), 0
    with (
        mock.patch("sys.argv", [path.name, *words]),
        mock.patch.dict(os.environ, environment),
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(said),
    ):
        try:
            runpy.run_path(str(path), run_name="__main__")
        except SystemExit as end:
            status = end.code
    if isinstance(status, str):  # as Python ends with it
        said.write(status + "\n")
        status = 1
    return status, said.getvalue()
