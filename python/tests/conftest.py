# SPDX-License-Identifier: Apache-2.0
"""What all Python tests share: how much of them runs, and that nothing is fetched from a network.

A test with an argument named `architecture` is one of a table: `--architectures=third` runs a third
of the table, each day another (`--day=N` repeats that of a day), `--architectures=all` the whole.
Tests marked `full` run with `--engines=full` alone.
"""

from __future__ import annotations

import datetime
import os

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")


def pytest_addoption(parser: pytest.Parser) -> None:
    today = datetime.datetime.now(datetime.timezone.utc).toordinal()
    group = parser.getgroup("folio_kv")
    group.addoption(
        "--architectures",
        choices=("third", "all"),
        default="third",
        help="how many of the architectures are tested",
    )
    group.addoption(
        "--engines",
        choices=("quick", "full"),
        default="quick",
        help="full: run what is marked `full`, too",
    )
    group.addoption(
        "--day",
        type=int,
        default=today,
        help="which third: the number of a day, today's unless given",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "full: runs with --engines=full alone")


def pytest_report_header(config: pytest.Config) -> str:
    names = "architectures", "day", "engines"
    return " ".join(["folio_kv:", *(f"--{name}={config.getoption(name)}" for name in names)])


def _architecture(item: pytest.Item) -> str | None:
    callspec = getattr(item, "callspec", None)
    return None if callspec is None else callspec.params.get("architecture")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("engines") == "quick":
        skipped = pytest.mark.skip(reason="runs with --engines=full")
        for item in items:
            if item.get_closest_marker("full"):
                item.add_marker(skipped)
    if config.getoption("architectures") == "all":
        return
    names = sorted({name for item in items if (name := _architecture(item)) is not None})
    chosen = {None, *names[config.getoption("day") % 3 :: 3]}
    left_out = [item for item in items if _architecture(item) not in chosen]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if _architecture(item) in chosen]
