# SPDX-License-Identifier: Apache-2.0
"""A Redis or Valkey server of a test's own, on a Unix socket or on a port."""

from __future__ import annotations

import atexit
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest
from reserved_port import ReservedPort

NO_PROGRAM = "neither redis-server nor valkey-server is installed"


class RedisProcess:
    """The server in `folder`; what it keeps is gone when it ends."""

    program = shutil.which("redis-server") or shutil.which("valkey-server")

    def __init__(self, folder: Path, port: ReservedPort | None = None) -> None:
        if self.program is None:
            pytest.skip(NO_PROGRAM)
        self.folder, self.port = folder, port
        if port is None:
            path = str(folder / "redis.sock")
            self.url, self._address = f"unix://{path}", path
            self._place = ["--port", "0", "--unixsocket", path]
        else:
            self.url, self._address = f"redis://127.0.0.1:{port.number}", ("127.0.0.1", port.number)
            self._place = ["--port", str(port.number), "--bind", "127.0.0.1"]
        self.process: subprocess.Popen[bytes] | None = None
        self.start()
        atexit.register(self.kill)  # where the test fails before

    def start(self) -> None:
        if self.port is not None:
            self.port.close()
        options = [*self._place, "--save", "", "--appendonly", "no"]
        self.process = subprocess.Popen(
            [self.program, *options], stdout=subprocess.DEVNULL, cwd=self.folder
        )
        end = time.monotonic() + 10
        while not self._answers():
            assert time.monotonic() < end, "the server has not begun in 10 s"
            time.sleep(0.01)

    def _answers(self) -> bool:
        with socket.socket(socket.AF_INET if self.port else socket.AF_UNIX) as connection:
            try:
                connection.settimeout(1)
                connection.connect(self._address)
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
