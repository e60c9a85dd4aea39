# SPDX-License-Identifier: Apache-2.0
"""SGLang's own classes on a CPU, without a server. Without SGLang in the environment the whole
folder is skipped.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import no_triton
import pytest

HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    if importlib.util.find_spec("sglang") is not None:
        no_triton.install()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips this folder where SGLang is missing."""
    if importlib.util.find_spec("sglang") is not None:
        return
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.skip(reason="sglang is not installed"))


@pytest.fixture(autouse=True)
def host_memory() -> Iterator[None]:
    """SGLang leaves 10 GB of a machine alone: tests have some MB of their own."""
    from sglang.srt.mem_cache.pool_host.base import host_memory_budget_scope

    with host_memory_budget_scope(1 << 28):
        yield


@pytest.fixture
def disk(tmp_path: Path) -> dict[str, Any]:
    return {"disk": str(tmp_path / "pages"), "disk_bytes": "64MiB"}
