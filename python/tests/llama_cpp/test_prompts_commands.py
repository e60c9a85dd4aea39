# SPDX-License-Identifier: Apache-2.0
"""The server's command with prompts that survive: its options, and a chat before and after a restart."""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import time
from typing import Any

import pytest
from prompt_runs import Runs

from server_process import Server

BAD = {
    "bytes_word": (
        ["D", "--prompt-cache-bytes", "many"],
        "--prompt-cache-bytes: expected a number of ",
    ),
    "bytes_few": (
        ["D", "--prompt-cache-bytes", "1MB"],
        "--prompt-cache-bytes: expected 8388608 bytes",
    ),
    "bytes_many": (
        ["D", "--prompt-cache-bytes", "99999999TiB"],
        "--prompt-cache-bytes: expected 8388608 bytes or more, fewer than 4611686018427387904",
    ),
    "bytes_digits": (
        ["D", "--prompt-cache-bytes", "9" * 400],
        "--prompt-cache-bytes: expected a number of ",
    ),
    "nowhere": ([""], "--prompt-cache: expected a directory or a redis:// URL, got ''"),
    "file": (["FILE"], "--prompt-cache: expected a directory, got the file "),
    "url": (["http://localhost"], "--prompt-cache: expected a directory or a redis:// URL, got "),
    "dtype": (
        ["D", "--cache-dtype", "q4"],
        "--cache-dtype: expected one of f16, bf16, q8_0, q4_0, ",
    ),
    "values' dtype": (
        ["D", "--cache-v-dtype", "q4_0"],
        "--cache-v-dtype: expected a dtype beside it, got 'q4_0' and no dtype",
    ),
    "redis": (["redis://:99999"], "--prompt-cache: 'redis://:99999': "),
}
SERVERS = """
import json
import sys
from folio_llama_cpp.server import main
for options in json.loads(sys.argv[1]):
    sys.argv[1:] = ["--prompt-cache", *options, "--model", "x"]
    try:
        main()
    except SystemExit as end:
        print(end)
"""


def test_a_bad_option_is_one_line(runs: Runs) -> None:
    (runs.folder / "FILE").write_text("")
    options = json.dumps([options for options, _ in BAD.values()])
    out, log = runs.start("-c", SERVERS, options).communicate(timeout=300)
    said = out.splitlines()
    for line, (_, words) in zip(said, BAD.values(), strict=True):
        assert line.startswith(f"folio_llama_cpp.server: {words}"), log


def test_a_missing_folio_kv_is_named(runs: Runs, sites: dict[str, pathlib.Path]) -> None:
    runs.path = os.pathsep.join(str(site) for site in sites.values())
    code = "import folio_llama_cpp; folio_llama_cpp.enable(cache='D')"
    _, log = runs.start("-c", code).communicate(timeout=300)
    line = log.splitlines()[-1]
    assert "cache: needs folio-kv" in line and "pip install 'folio-llama-cpp[cache]'" in line


@pytest.mark.parametrize(
    "by",
    [
        signal.SIGTERM,
        *(pytest.param(n, marks=pytest.mark.full) for n in (signal.SIGINT, signal.SIGKILL)),
    ],
)
def test_the_server_takes_a_chat_up(
    runs: Runs, sites: dict[str, pathlib.Path], text_model: str, by: int
) -> None:
    """The documented command, twice on one directory."""
    messages = [{"role": "user", "content": "Of pages and names, " * 12}]

    def answer(server: Server, prompts: str) -> dict[str, Any]:
        body = {"messages": messages, "max_tokens": 8, "temperature": 0, "repeat_penalty": 1.0}
        with server.open("chat/completions", **body) as response:
            return dict(json.load(response)["choices"][0]["message"])

    said = []
    for _ in range(2):
        paths = {**sites, "kv": runs.path.split(os.pathsep)[-1]}
        server = Server(paths, text_model, runs.folder, runs.cache, XDG_CACHE_HOME=str(runs.folder))
        try:
            message = answer(server, runs.cache)
            if by == signal.SIGKILL:
                time.sleep(0.5)
            log = server.end(by)
        finally:
            server.close()
        messages += [message, {"role": "user", "content": "And then?"}]
        said.append(re.findall(r"folio_llama_cpp: restored (\d+) of (\d+) tokens", log))
    assert said[0] == [] and len(said[1]) == 1, log
    found, of = map(int, said[1][0])
    assert 240 <= found < of
