# SPDX-License-Identifier: Apache-2.0
"""Runs the stock engine without and with folio: two processes for all cases that are asked for.

Starting an engine takes seconds and importing vLLM ten more: tests share two processes and read
what they wrote. Without vLLM in the environment the whole folder is skipped.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import vllm_cases
from vllm_engine import Engine

HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    """Declares the mark of the cases that always run; `full` is declared above."""
    config.addinivalue_line("markers", "quick: one case of each kind of an engine's")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips this folder where vLLM is missing."""
    if importlib.util.find_spec("vllm") is not None:
        return
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.skip(reason="vllm is not installed"))


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """The engines of this session."""
    return Engine(tmp_path_factory.mktemp("vllm"))


@pytest.fixture(scope="session")
def runs(request: pytest.FixtureRequest, engine: Engine) -> dict[str, dict[str, Any]]:
    """Every case that a collected test names: {"stock": without folio, "folio": with it}."""
    names = []
    for item in request.session.items:
        case = getattr(item, "callspec", None) and item.callspec.params.get("case")
        if case in vllm_cases.CASES and not item.get_closest_marker("skip"):
            names.append(case)
    stock, folio = vllm_cases.plan_of(names)
    return {
        "stock": engine.run(stock, False, "stock"),
        "folio": engine.run(folio, True, "folio"),
    }
