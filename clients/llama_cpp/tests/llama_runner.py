# SPDX-License-Identifier: Apache-2.0
"""The program `llama_run` (run/main.cpp) as a Python object: one process, one model, many contexts.

Which device computes is decided when the process starts: `device` is the path of libggml-folio.so,
or None for stock llama.cpp.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import tempfile
from typing import Any

import numpy as np

# Set for this project's device alone; never inherited, so that stock is stock.
DEVICE_VARIABLES = "GGML_BACKEND_PATH", "FOLIO_GGML_TRACE", "FOLIO_GGML_DEVICE"


class RunnerError(Exception):
    """A command that the program or llama.cpp refused."""


class Runner:
    def __init__(
        self,
        program: pathlib.Path,
        model: pathlib.Path,
        device: pathlib.Path | None = None,
        variables: dict[str, str] | None = None,
    ) -> None:
        environment = {k: v for k, v in os.environ.items() if k not in DEVICE_VARIABLES}
        if device is not None:
            environment |= {"GGML_BACKEND_PATH": str(device), "FOLIO_GGML_TRACE": "1"}
        environment |= variables or {}
        self._errors = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            [program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=environment,
        )
        self.vocabulary = 0
        try:
            self("load", model=str(model))
        except BaseException:
            self.close()
            raise

    def __call__(self, command: str, **arguments: Any) -> dict[str, Any]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        try:
            print(json.dumps({"do": command, **arguments}), file=stdin, flush=True)
        except BrokenPipeError:
            pass  # it has ended; there is no answer either
        line = stdout.readline()
        if not line.startswith("{"):  # the end, or what an abort prints
            stdin.close()
            status = self._process.wait()
            raise RunnerError(f"{command}: ended with status {status}: {self.errors()[-2000:]}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RunnerError(f"{command}: {answer['error']}")
        return answer

    def logits(self) -> tuple[np.ndarray, dict[str, Any]]:
        """The logits collected since the context was opened [rows, vocabulary], and the counts."""
        with tempfile.NamedTemporaryFile() as file:
            answer = self("write", path=file.name)
            values = np.fromfile(file.name, dtype=np.float32)
        return values.reshape(answer["rows"], answer["vocabulary"]), answer

    def errors(self) -> str:
        """What the process wrote to standard error so far."""
        self._errors.seek(0)
        return self._errors.read()

    def close(self) -> str:
        """Ends the process; what it wrote to standard error, the device's counters among it."""
        if self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        return self.errors()
