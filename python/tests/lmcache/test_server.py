# SPDX-License-Identifier: Apache-2.0
"""Stock vLLM on a CPU, LMCache's server, and folio's connector below it: prompts survive a restart
of both. Starting the two takes most of a minute each time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lmcache")
pytest.importorskip("vllm")
from vllm_engine import Engine  # noqa: E402
from vllm_store import Run, cached_of, tokens_of  # noqa: E402

from folio_kv.bench.lmcache_server import LMCacheServer, connector  # noqa: E402

WORKER = Path(__file__).parent / "engine_of_server.py"


def ask(engine: Engine, port: int) -> list[Any]:
    """A round of an engine of its own: tokens, and how many of each prompt were not computed."""
    rounds = ["ask", "sleep 5"]  # LMCache stores behind
    case = {"name": "ask", "model": "llama", "transfer": connector(port), "rounds": rounds}
    return Run(engine, "engine", [case], worker=WORKER).results()["ask"]


@pytest.mark.full
def test_a_prompt_survives_a_restart_of_engine_and_server(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    disk = {"disk": str(tmp_path / "objects"), "disk_bytes": "64MiB"}
    params = {"model": str(engine.model("llama")), "dtype": "float32", **disk}
    plugin = {"module_path": "folio_kv.lmcache", "class_name": "Connector"}
    adapter = {"type": "native_plugin", **plugin, "adapter_params": params}
    seen = []
    for turn in range(2):
        options = ["--l1-size-gb", "0.1", "--chunk-size", "64"]
        server = LMCacheServer(adapter, tmp_path / f"server{turn}.log", options)
        try:
            seen.append(ask(engine, server.port))
        finally:
            server.end()
    cold, warm = seen
    assert tokens_of(cold) == tokens_of(warm)
    assert cached_of(cold)[0][0] == 0
    assert cached_of(warm)[0] == [128, 128, 320, 128, 128]  # whole chunks of 64 tokens
