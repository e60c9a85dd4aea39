# SPDX-License-Identifier: Apache-2.0
"""llama.cpp's own check of FLASH_ATTN_EXT, test-backend-ops, with folio's device."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

CHECK = pathlib.Path(__file__).resolve().parents[3] / "clients/llama_cpp/tests/backend_ops.py"


@pytest.mark.parametrize("part", ["quick", pytest.param("whole", marks=pytest.mark.full)])
def test_backend_ops(built: pathlib.Path, part: str) -> None:
    subprocess.run([sys.executable, CHECK, built, "--part", part], check=True)
