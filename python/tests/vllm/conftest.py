# SPDX-License-Identifier: Apache-2.0
"""Runs the stock engine without and with folio: two processes for all cases that are asked for.

Starting an engine takes seconds and importing vLLM ten more: tests share two processes and read
what they wrote. Without vLLM in the environment the whole folder is skipped.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import vllm_cases
import vllm_models

HERE = Path(__file__).parent
LIMIT_SECONDS = 1500


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declares --engines=quick|full, unless the folder above does."""
    try:
        parser.addoption("--engines", choices=("quick", "full"), default="quick")
    except ValueError:
        pass


def pytest_configure(config: pytest.Config) -> None:
    """Declares the marks that these tests carry."""
    config.addinivalue_line("markers", "quick: one case of each kind")
    config.addinivalue_line("markers", "full: every case; only with --engines=full")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skips this folder where vLLM is missing, and what is `full` unless it is asked for."""
    missing = importlib.util.find_spec("vllm") is None
    quick = config.getoption("--engines") == "quick"
    for item in items:
        if HERE not in item.path.parents:
            continue
        if missing:
            item.add_marker(pytest.mark.skip(reason="vllm is not installed"))
        elif quick and item.get_closest_marker("full"):
            item.add_marker(pytest.mark.skip(reason="runs with --engines=full"))


def environment(plugins: Path, folio: bool, **more: str) -> dict[str, str]:
    """The environment of an engine's process: folio_kv importable, its entry point visible.

    The entry point comes from the installed folio-kv; where there is none (a source tree), from a
    description of the package that the test writes to `plugins`.
    """
    import folio_kv

    path = [str(Path(folio_kv.__file__).parents[1])]
    if not importlib.metadata.entry_points(group="vllm.general_plugins", name="folio"):
        description = plugins / "folio_kv_source_tree-0.dist-info"
        description.mkdir(parents=True, exist_ok=True)
        (description / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: folio-kv-source-tree\nVersion: 0\n"
        )
        (description / "entry_points.txt").write_text(
            "[vllm.general_plugins]\nfolio = folio_kv.vllm:register\n"
        )
        path.append(str(plugins))
    threads = str(min(2, len(os.sched_getaffinity(0))))
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*path, os.environ.get("PYTHONPATH", "")]),
        "FOLIO_VLLM": "1" if folio else "0",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": threads,
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        **more,
    }


class Engine:
    """Runs of the stock engine, with folio or not, over tiny models in a folder of the session."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.models = folder / "models"

    def model(self, name: str) -> Path:
        """The folder of a model, written if it is not there."""
        return vllm_models.build(name, self.models)

    def run(
        self, cases: dict[str, dict[str, Any]], folio: bool, tag: str, **more: str
    ) -> dict[str, Any]:
        """Runs the cases in one process; {case -> what `vllm_worker` says, "log": its output}."""
        for case in cases.values():
            self.model(case["model"])
        wanted, out = self.folder / f"{tag}.cases.json", self.folder / f"{tag}.json"
        wanted.write_text(json.dumps([dict(case, name=name) for name, case in cases.items()]))
        command = [sys.executable, str(HERE / "vllm_worker.py"), self.models, wanted, out]
        process = subprocess.run(
            command,
            env=environment(self.folder / "plugins", folio, **more),
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_SECONDS,
        )
        assert process.returncode == 0, process.stdout[-4000:]
        return {**json.loads(out.read_text()), "log": process.stdout}


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """The engines of this session."""
    return Engine(tmp_path_factory.mktemp("vllm"))


@pytest.fixture(scope="session")
def runs(request: pytest.FixtureRequest, engine: Engine) -> dict[str, dict[str, Any]]:
    """Every case that a collected test names, without and with folio: {"stock": .., "folio": ..}."""
    names = []
    for item in request.session.items:
        case = getattr(item, "callspec", None) and item.callspec.params.get("case")
        if case in vllm_cases.CASES and not item.get_closest_marker("skip"):
            names.append(case)
    cases = {name: vllm_cases.CASES[name] for name in dict.fromkeys(names)}
    stock = {**cases, **vllm_cases.references(list(cases))}
    return {
        "stock": engine.run(stock, False, "stock"),
        "folio": engine.run(cases, True, "folio"),
    }
