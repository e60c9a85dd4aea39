# SPDX-License-Identifier: Apache-2.0
"""Capabilities of other packages, probed in modules that are nobody's."""

from __future__ import annotations

import logging
import sys
import types
from dataclasses import dataclass
from typing import Any

import pytest

from folio_kv import Unsupported
from folio_kv._engine import Engine, members, names, parameters, value


@dataclass
class Step:
    """A class with a field, an attribute set by a method, and a method."""

    lengths: list[int]

    def plan(self, batch: int, fast: bool = False) -> None:
        self.table = batch


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = types.ModuleType("nobodys_engine")
    made.Step, made.layout = Step, "LBHNC"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return made


def engine() -> Engine:
    here = "nobodys_engine"
    return Engine(
        "nobody's engine",
        (1, 2),
        (1, 10),
        {
            "steps": (
                names(here, "Step.plan"),
                parameters(here, "Step.plan", "batch fast"),
                members(here, "Step", "lengths table plan"),
            ),
            "caches": (value(here, "layout", "LBHNC".__eq__, "LBHNC"),),
        },
    )


def test_what_is_complete_is_served(module: Any) -> None:
    assert engine().refusals("1.4.0") == {"steps": "", "caches": ""}


@pytest.mark.parametrize(
    "change, missing",
    [
        (dict(layout="LBNHC"), {"caches": "nobodys_engine.layout (LBHNC)"}),
        (dict(layout=...), {"caches": "nobodys_engine.layout"}),
        (
            dict(Step=...),
            {"steps": "nobodys_engine.Step.plan, nobodys_engine.Step"},
        ),
        (
            dict(
                Step=type("Step", (), {"plan": lambda self, batch, slow: self.table, "lengths": 1})
            ),
            {"steps": "nobodys_engine.Step.plan(batch, fast)"},
        ),
        (
            dict(Step=type("Step", (), {"plan": lambda self, batch, fast: self.lengths})),
            {"steps": "nobodys_engine.Step.table"},
        ),
    ],
)
def test_a_missing_hook_refuses_its_capability_by_name_and_no_other(
    module: Any, change: dict[str, Any], missing: dict[str, str]
) -> None:
    for name, to in change.items():
        delattr(module, name) if to is ... else setattr(module, name, to)
    told = engine().refusals("1.4.0")
    assert {name: why for name, why in told.items() if why} == {
        name: f"nobody's engine 1.4.0 lacks {what}" for name, what in missing.items()
    }


def test_without_the_module_every_capability_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nobodys_engine", None)
    assert all("lacks nobodys_engine." in why for why in engine().refusals("1.4.0").values())


def test_a_newer_version_is_warned_of_once(module: Any, caplog: pytest.LogCaptureFixture) -> None:
    one = engine()
    assert one.warning("1.10.3") is None and one.why_not("1.10.3") is None
    assert one.warning("1.10rc1") is None
    assert one.why_not("1.11.0.dev0") is None and one.why_not("2.0rc1") is None
    assert one.warning("1.11.0.dev0").startswith("nobody's engine 1.11.0.dev0 is newer than")
    assert one.warning("1.11.0.dev0") is None
    for _ in range(2):
        one.expect("steps", logging.getLogger("folio_kv"), "1.12")
    (said,) = caplog.messages
    assert said.startswith("folio: nobody's engine 1.12 is newer than")


@pytest.mark.parametrize("version", ["1.1.9", "0.33.0", "unknown"])
def test_an_older_version_is_refused_whole(version: str) -> None:
    why = f"nobody's engine: expected 1.2 or later, got {version}"
    assert engine().refusals(version) == {"steps": why, "caches": why}
    with pytest.raises(Unsupported, match=f"^caches: {why}$"):
        engine().expect("caches", logging.getLogger("folio_kv"), version)


def test_the_installed_version_is_meant_where_none_is_given(module: Any) -> None:
    one = Engine("Nobodys_Engine", (1, 2), (1, 10), {"steps": ()})
    assert "got of no version" in one.refusals()["steps"]
    module.__version__ = "1.1.9"
    with pytest.raises(Unsupported, match="expected 1.2 or later, got 1.1.9"):
        one.expect("steps", logging.getLogger("folio_kv"))
    module.__version__ = "1.11"
    assert one.refusals() == {"steps": ""}
    assert one.warning().startswith("Nobodys_Engine 1.11 is newer") and one.warning() is None
