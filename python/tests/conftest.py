# SPDX-License-Identifier: Apache-2.0
"""What all Python tests share: how much of them runs, and that nothing is fetched from a network.

A test with an argument named `architecture`, or marked `quick`, is one of a table: a third of the
table runs with `--architectures=third`, each day another (`--day=N` repeats that of a day), all of
it with `--architectures=all`. Tests marked `full` run with `--engines=full` alone.
"""

from __future__ import annotations

import datetime
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

os.environ.setdefault("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="session")
def real_weights() -> pathlib.Path:
    """The folder of tools/real_weights.py. The first call takes minutes."""
    tool = [sys.executable, ROOT / "tools/real_weights.py"]
    made = subprocess.run(tool, stdout=subprocess.PIPE, text=True)
    assert made.returncode == 0, "tools/real_weights.py failed: its words stand above"
    return pathlib.Path(made.stdout.strip())


def pytest_addoption(parser: pytest.Parser) -> None:
    today = datetime.datetime.now(datetime.timezone.utc).toordinal()
    group = parser.getgroup("folio_kv")
    group.addoption(
        "--architectures",
        choices=("third", "all"),
        default="third",
        help="how many of the architectures, and of the engine's `quick` cases, are tested",
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


def _row(item: pytest.Item) -> str | None:
    """The row of the table that a test is of, if it is of one."""
    params = getattr(getattr(item, "callspec", None), "params", {})
    return params.get("case" if item.get_closest_marker("quick") else "architecture")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("engines") == "quick":
        skipped = pytest.mark.skip(reason="runs with --engines=full")
        for item in items:
            if item.get_closest_marker("full"):
                item.add_marker(skipped)
    if config.getoption("architectures") == "all":
        return
    rows = sorted({row for item in items if (row := _row(item)) is not None})
    chosen = {None, *rows[config.getoption("day") % 3 :: 3]}
    left_out = [item for item in items if _row(item) not in chosen]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if _row(item) in chosen]
