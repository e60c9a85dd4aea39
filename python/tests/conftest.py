# SPDX-License-Identifier: Apache-2.0
"""What all Python tests share: how much of them runs, and that nothing is fetched from a network.

A test with an argument named `architecture` is one of a table: `--architectures=third` runs a third
of the table, each day another (`--day=N` repeats that of a day), `--architectures=all` the whole.
Tests marked `full` run with the whole table alone.
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
        help="how many of the architectures are tested, and whether what is marked `full` runs",
    )
    group.addoption(
        "--day",
        type=int,
        default=today,
        help="which third: the number of a day, today's unless given",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "full: takes long; runs with --architectures=all alone")


def pytest_report_header(config: pytest.Config) -> str:
    share, day = config.getoption("architectures"), config.getoption("day")
    return f"folio_kv: --architectures={share} --day={day}"


@pytest.fixture(scope="session")
def architectures(pytestconfig: pytest.Config) -> str:
    """`third` or `all`: how much was asked for."""
    share: str = pytestconfig.getoption("architectures")
    return share


def _architecture(item: pytest.Item) -> str | None:
    callspec = getattr(item, "callspec", None)
    return None if callspec is None else callspec.params.get("architecture")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("architectures") == "all":
        return
    skipped = pytest.mark.skip(reason="takes long: --architectures=all runs it")
    for item in items:
        if item.get_closest_marker("full"):
            item.add_marker(skipped)
    names = sorted({name for item in items if (name := _architecture(item)) is not None})
    chosen = {None, *names[config.getoption("day") % 3 :: 3]}
    left_out = [item for item in items if _architecture(item) not in chosen]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if _architecture(item) in chosen]
