# SPDX-License-Identifier: Apache-2.0
"""Where prompts are kept: directories that are small, damaged or another process's, and Redis servers."""

from __future__ import annotations

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest
from prompt_runs import COUNT, KINDS, OTHER, PAGE, PROMPT, SECOND, Runs, restored, same, tokens
from redis_process import RedisProcess


@pytest.mark.parametrize("every", [20_000, 400_000])
def test_damage_shortens_what_is_found(
    runs: Runs, text_models: Callable[[str], str], every: int
) -> None:
    """A bit in each page, and one here and there."""
    model, do = text_models("gemma3"), [["generate", PROMPT, COUNT]]
    runs(model, do)
    for file in pathlib.Path(runs.cache).iterdir():
        data = bytearray(file.read_bytes())
        for at in range(len(data.rstrip(b"\0")) - 1000, 5000, -every):
            data[at] ^= 4
        file.write_bytes(data)
    found, _ = runs(model, do)
    last_page = (len(PROMPT) - 1) // PAGE * PAGE
    assert restored(found)[0] == 0 if every < 33_000 else restored(found)[0] <= last_page
    same(found, runs.computed(model, do))
    again, _ = runs(model, do)
    assert restored(again) == [last_page]  # what was damaged is stored anew


def test_a_small_directory_stays_small(runs: Runs, text_models: Callable[[str], str]) -> None:
    """Prompts used longest ago go; the latest are there."""
    model, size = text_models("llama"), 16 << 20
    prompts = [tokens(700, seed) for seed in range(20, 34)]
    do = [["generate", prompt, 1] for prompt in prompts]
    runs(model, do, bytes=size)
    files = sum(file.stat().st_size for file in pathlib.Path(runs.cache).iterdir())
    assert files <= size
    last = [do[-1], do[0]]
    found, _ = runs(model, last, bytes=size)
    assert restored(found) == [640, 0]
    same(found, runs.computed(model, last, is_cold=True))


@pytest.mark.parametrize(
    "name", [KINDS[0], *(pytest.param(name, marks=pytest.mark.full) for name in KINDS[1:])]
)
def test_a_process_that_is_killed_loses_the_end(
    runs: Runs, text_models: Callable[[str], str], name: str
) -> None:
    model = text_models(name)
    prompts = [tokens(700, seed) for seed in range(40, 60)]
    do = [["generate", prompt, COUNT] for prompt in prompts]
    process = runs.begin(model, do, cache=runs.cache)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(0.05 + 0.3 * random.random())
    process.send_signal(signal.SIGKILL)
    process.communicate()
    found, _ = runs(model, do[:4])
    assert restored(found)[0] > 0
    same(found, runs.computed(model, do[:4], is_cold=True))


def test_a_directory_belongs_to_one_process(runs: Runs, text_models: Callable[[str], str]) -> None:
    code = "folio_llama_cpp.enable(cache=sys.argv[1]); print('there', flush=True); sys.stdin.read()"
    first = subprocess.Popen(
        [sys.executable, "-c", "import sys, folio_llama_cpp; " + code, runs.cache],
        env={**os.environ, "PYTHONPATH": runs.path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert first.stdout is not None and first.stdout.readline() == "there\n"
        second = runs.start(
            "-m", "folio_llama_cpp.server", "--prompt-cache", runs.cache, "--model", "x"
        )
        _, log = second.communicate(timeout=300)
        assert second.returncode == 1
        (line,) = [text for text in log.splitlines() if "folio_llama_cpp.server" in text]
        assert line == (
            f"folio_llama_cpp.server: --prompt-cache: {runs.cache!r} is in use by another process, and a "
            "directory belongs to one at a time; several share a redis:// server"
        )
    finally:
        first.communicate("")


@pytest.fixture
def redis(tmp_path: pathlib.Path) -> Iterator[RedisProcess]:
    server = RedisProcess(tmp_path)
    yield server
    server.kill()


@pytest.mark.parametrize("name", ["llama", pytest.param("gemma3", marks=pytest.mark.full)])
def test_a_redis_server_is_shared(
    runs: Runs, redis: RedisProcess, text_models: Callable[[str], str], name: str
) -> None:
    model = text_models(name)
    before, _ = runs(model, [["generate", PROMPT, COUNT]], cache=redis.url)
    turn = [["generate", PROMPT + before[0]["tokens"][: COUNT - 1] + SECOND, COUNT]]
    found, log = runs(model, turn, cache=redis.url)
    assert restored(found) == [len(PROMPT) + COUNT - 1], log
    same(found, runs.computed(model, turn))


@pytest.mark.full
def test_a_redis_server_that_is_killed_makes_misses(
    runs: Runs, redis: RedisProcess, text_models: Callable[[str], str]
) -> None:
    """In the midst of requests, behind the first, and before a process starts."""
    model = text_models("gemma3")
    prompts = [PROMPT, OTHER, *(tokens(700, seed) for seed in range(60, 64)), PROMPT]
    do = [["generate", prompt, COUNT] for prompt in prompts]
    process = runs.begin(model, do, cache=redis.url)
    assert process.stdout is not None
    first = process.stdout.readline()
    redis.kill()
    found, _ = runs.end(process)
    expected = runs.computed(model, do, is_cold=True)
    same([json.loads(first), *found], expected)
    found, _ = runs(model, do[:1], cache=redis.url)
    assert restored(found) == [0]
    same(found, expected[:1])
