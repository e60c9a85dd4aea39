# SPDX-License-Identifier: Apache-2.0
"""The server of folio_llama_cpp as docs/llama_cpp.md starts it, and what its streams say."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from reserved_port import ReservedPort

ROOT = pathlib.Path(__file__).resolve().parents[3]


class Server:
    """The documented command, with a model; `errors` is what it writes to stderr."""

    def __init__(
        self,
        sites: dict[str, pathlib.Path],
        model: str,
        folder: pathlib.Path,
        prompts: str = "",
        **variables: str,
    ) -> None:
        """prompts: the folder of the prompts' cache, for the command that has one."""
        self.errors, self._port = folder / "stderr", ReservedPort()
        plain, with_cache = re.findall(
            r"^build/llama_cpp/venv/bin/python -m (folio_llama_cpp.server .*)$",
            (ROOT / "docs/llama_cpp.md").read_text().replace("\\\n", ""),
            re.MULTILINE,
        )
        command = with_cache.replace("PROMPTS", prompts) if prompts else plain
        options = f"--port {self._port.number} --n_ctx 1024 --n_threads 1"
        path = os.pathsep.join(str(site) for site in sites.values())
        with self.errors.open("w") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *command.replace("MODEL.gguf", model).split()]
                + options.split(),
                env={**os.environ, "PYTHONPATH": path, "FOLIO_GGML_TRACE": "1", **variables},
                stderr=file,
            )

    def open(self, of: str = "completions", **body: Any) -> Any:
        """The response to a request for a completion; the server may still be starting."""
        url = f"http://127.0.0.1:{self._port.number}/v1/{of}"
        data = json.dumps({"temperature": 0, **body}).encode()
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
        while True:
            assert self.process.poll() is None, self.errors.read_text()
            try:
                return urllib.request.urlopen(request, timeout=600)
            except urllib.error.HTTPError as error:
                raise AssertionError(error.read().decode() + self.errors.read_text()) from error
            except urllib.error.URLError:
                time.sleep(0.2)

    def end(self, by: int) -> str:
        self.process.send_signal(by)
        self.process.wait(600)
        return self.errors.read_text()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._port.close()


def streamed(response: Any, has_begun: Callable[[], object] = lambda: None) -> tuple[str, str]:
    """A streamed completion's text and why it ended; `has_begun` is called at its first piece."""
    text, reason = "", ""
    with response:
        for line in response:
            piece = line.decode().removeprefix("data: ").strip()
            if piece in ("", "[DONE]") or piece.startswith(":"):
                continue
            (choice,) = json.loads(piece)["choices"]
            text, reason = text + choice["text"], choice["finish_reason"] or reason
            has_begun()
    return text, reason
