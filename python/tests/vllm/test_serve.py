# SPDX-License-Identifier: Apache-2.0
"""`vllm serve` answers over HTTP with folio's layers, in the processes that it starts by itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from reserved_port import ReservedPort
from vllm_engine import Engine, environment
from vllm_worker import OPTIONS, prompts_of

START_SECONDS = 900
REQUEST_SECONDS = 600


class Server:
    """`vllm serve` of a model on a free port of 127.0.0.1, with folio; its output goes to `log`."""

    def __init__(self, engine: Engine, model: str) -> None:
        self.port = ReservedPort()
        self.log = engine.folder / f"serve-{model}.log"
        options = {
            "--host": "127.0.0.1",
            "--port": str(self.port.number),
            "--served-model-name": model,
            "--dtype": "float32",
            **{
                "--" + name.replace("_", "-"): str(OPTIONS[name])
                for name in ("max_model_len", "max_num_seqs", "max_num_batched_tokens")
            },
        }
        arguments = [word for pair in options.items() for word in pair]
        command = [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve"]
        environ = environment(engine.folder / "plugins", True, VLLM_ENABLE_V1_MULTIPROCESSING="1")
        with self.log.open("w") as out:
            self.process = subprocess.Popen(
                [*command, str(engine.model(model)), "--enforce-eager", *arguments],
                env=environ,
                cwd=engine.folder,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """The JSON answer to a request (POST with a body); raises what urllib raises."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port.number}{path}", data, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=REQUEST_SECONDS) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def wait(self) -> None:
        """Returns when the server answers; fails when it ends or takes longer than its limit."""
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            assert self.process.poll() is None, self.log.read_text()[-4000:]
            try:
                return self.ask("/health")
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.5)
        raise AssertionError(f"no answer in {START_SECONDS} s: {self.log.read_text()[-4000:]}")

    def stop(self) -> None:
        """Ends the server and the processes that it started."""
        self.port.close()
        if self.process.poll() is not None:
            return
        os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@pytest.fixture(scope="module")
def server(engine: Engine) -> Iterator[Server]:
    """A server of the tiny Llama."""
    pytest.importorskip("model_hosting_container_standards", reason="`vllm serve` imports it")
    started = Server(engine, "llama")
    try:
        started.wait()
        yield started
    finally:
        started.stop()


@pytest.mark.quick
@pytest.mark.parametrize("case", ["llama"])
def test_a_server_completes_with_the_tokens_of_the_stock_engine(
    runs: dict[str, Any], server: Server, case: str
) -> None:
    prompts = prompts_of([300, 7, 211, 140], seed=2)  # those of the scenario `chunked`
    for prompt, expected in zip(prompts, runs["stock"][case]["chunked"], strict=True):
        body = dict(
            model=case,
            prompt=prompt,
            temperature=0,
            max_tokens=len(expected["tokens"]),
            ignore_eos=True,
            skip_special_tokens=False,
        )
        text = server.ask("/v1/completions", body)["choices"][0]["text"]
        assert text.split() == [f"t{token}" for token in expected["tokens"]]


@pytest.mark.quick
def test_a_server_says_which_layers_are_served(server: Server) -> None:
    server.ask("/v1/completions", dict(model="llama", prompt=[5, 6, 7], max_tokens=1))
    log = Path(server.log).read_text()
    assert "folio serves 4 of 4 attention layers: 0-3; " in log
