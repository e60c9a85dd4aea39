# SPDX-License-Identifier: Apache-2.0
"""The example runs, and its own checks hold."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "python" / "transformers_generate.py"


@pytest.mark.skipif(not EXAMPLE.exists(), reason="the examples are not beside the tests")
def test_the_example_gives_stock_tokens() -> None:
    found = subprocess.run(
        [sys.executable, str(EXAMPLE)],
        capture_output=True,
        text=True,
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
        check=False,
    )
    assert found.returncode == 0, found.stderr[-2000:]
    assert found.stdout.count("100 % equal") >= 3
