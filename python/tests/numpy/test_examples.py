# SPDX-License-Identifier: Apache-2.0
"""The examples that need numpy alone run, and check themselves."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def run(*arguments):
    return subprocess.run(
        [sys.executable, *arguments], check=True, capture_output=True, text=True, timeout=300
    ).stdout


def test_the_quick_start_finds_its_prompt_again():
    assert "finds 16 of them" in run(ROOT / "examples/python/quickstart.py")


def test_the_engine_gives_each_request_the_tokens_of_its_generation_alone():
    assert run(ROOT / "examples/python/engine.py").count("the rest as alone") == 5


def test_the_engine_fits_150_lines():
    assert len((ROOT / "examples/python/engine.py").read_text().splitlines()) <= 150


@pytest.mark.parametrize("page", ["python/README.md", "docs/python.md"])
def test_the_first_program_of_a_page_runs(page):
    program = re.search(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S).group(1)
    arrays = (
        "import numpy as np\nprompt = list(range(20))\n"
        "q, k, v = (np.ones((20, heads, 64), np.float32) for heads in (8, 2, 2))\n"
    )
    run("-c", arrays + program + "\nassert out.shape[1:] == (8, 64)\n")
