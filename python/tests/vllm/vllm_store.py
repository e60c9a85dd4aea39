# SPDX-License-Identifier: Apache-2.0
"""Processes of engines with a connector, for the tests."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import vllm_models
from vllm_engine import LIMIT_SECONDS, Engine, environment

WORKER = Path(__file__).parent / "vllm_store_worker.py"


class Run:
    """A process that runs cases; `results` waits for its end."""

    def __init__(
        self,
        engine: Engine,
        tag: str,
        cases: list[dict[str, Any]],
        folio: bool = False,
        worker: Path = WORKER,
    ) -> None:
        for case in cases:
            vllm_models.build(case["model"], engine.models)
        wanted, self.out = engine.folder / f"{tag}.cases.json", engine.folder / f"{tag}.json"
        self.log = engine.folder / f"{tag}.log"
        wanted.write_text(json.dumps(cases))
        self.out.unlink(missing_ok=True)
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(worker), engine.models, wanted, self.out],
                env=environment(engine.folder / "plugins", folio),
                cwd=engine.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def wait_for(self, path: Path) -> None:
        """Until a case has touched it."""
        while not path.exists():
            assert self.process.poll() is None, self.log.read_text()[-4000:]
            time.sleep(0.01)

    def results(self) -> dict[str, Any]:
        """What the cases said; one that has failed fails the test."""
        results = self.said()
        failed = {name: said["error"] for name, said in results.items() if "error" in said}
        assert not failed, "\n".join(failed.values())
        return results

    def said(self) -> dict[str, Any]:
        """Of cases that may have failed; a process that ends otherwise fails the test with its log."""
        status = self.process.wait(LIMIT_SECONDS)
        assert status == 0, self.log.read_text()[-4000:]
        results: dict[str, Any] = json.loads(self.out.read_text())
        return results


def tokens_of(rounds: list[Any]) -> list[list[list[int]]]:
    """Of each round that answers."""
    return [[answer[0] for answer in said] for said in rounds if said is not None]


def cached_of(rounds: list[Any]) -> list[list[int]]:
    """Tokens that were not computed, likewise."""
    return [[answer[1] for answer in said] for said in rounds if said is not None]
