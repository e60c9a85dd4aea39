# SPDX-License-Identifier: Apache-2.0
"""LMCache's own classes on a CPU. Without LMCache in the environment the whole folder is skipped."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent

os.environ.setdefault("LMCACHE_LOG_LEVEL", "WARNING")
os.environ.setdefault("LMCACHE_TRACK_USAGE", "false")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips this folder where LMCache is missing."""
    if importlib.util.find_spec("lmcache") is not None:
        return
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.skip(reason="lmcache is not installed"))


@pytest.fixture
def disk(tmp_path: Path) -> dict[str, Any]:
    model = {"model": "tests", "dtype": "bfloat16"}
    return {**model, "disk": str(tmp_path / "objects"), "disk_bytes": "64MiB"}
