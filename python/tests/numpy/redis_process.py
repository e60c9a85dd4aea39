# SPDX-License-Identifier: Apache-2.0
"""A Redis or Valkey server of a test's own, on a Unix socket."""

from __future__ import annotations

import atexit
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest


class RedisProcess:
    """The server in `folder`; what it keeps is gone when it ends."""

    program = shutil.which("redis-server") or shutil.which("valkey-server")

    def __init__(self, folder: Path) -> None:
        if self.program is None:
            pytest.skip("neither redis-server nor valkey-server is installed")
        self.socket = folder / "redis.sock"
        self.url = f"unix://{self.socket}"
        self.process: subprocess.Popen[bytes] | None = None
        self.start()
        atexit.register(self.kill)  # where the test fails before

    def start(self) -> None:
        options = ["--port", "0", "--unixsocket", self.socket, "--save", "", "--appendonly", "no"]
        self.process = subprocess.Popen(
            [self.program, *map(str, options)], stdout=subprocess.DEVNULL, cwd=self.socket.parent
        )
        end = time.monotonic() + 10
        while not self._answers():
            assert time.monotonic() < end, "the server has not begun in 10 s"
            time.sleep(0.01)

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(str(self.socket))
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
            except OSError:
                return False

    def kill(self) -> None:
        """As kill -9."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
