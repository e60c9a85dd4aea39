# SPDX-License-Identifier: Apache-2.0
"""The example of the docs runs, and its two engines say the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from vllm_engine import Engine, environment

EXAMPLE = Path(__file__).parents[3] / "examples" / "python" / "vllm_offline.py"


@pytest.mark.quick
def test_the_offline_example_gives_the_tokens_of_the_stock_engine(engine: Engine) -> None:
    process = subprocess.run(
        [sys.executable, str(EXAMPLE)],
        env=environment(engine.folder / "plugins", folio=True),
        cwd=engine.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )
    assert process.returncode == 0, process.stdout[-4000:]
    assert "vLLM with folio says what stock vLLM says" in process.stdout
    assert process.stdout.count("folio serves 4 of 4 attention layers") == 1
