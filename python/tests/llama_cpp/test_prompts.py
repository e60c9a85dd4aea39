# SPDX-License-Identifier: Apache-2.0
"""Prompts that survive: what a process finds of an earlier one's gives the logits that computing it
gives, and what is not surely the same is not found.

Each run is a process of its own (prompts_run.py). The models have random float32 weights; logits
of a prompt that is computed in other batches differ in their last bits.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from redis_process import RedisProcess

import folio_kv
from server_process import Server

PROGRAM = pathlib.Path(__file__).with_name("prompts_run.py")
PAGE = 64
COUNT = 12  # tokens that are generated behind a prompt
NEAR = 5e-3  # of the largest logit; another token in the prompt's last page makes 0.1 or more
Logits = list[dict[str, Any]]
Models = str | list[tuple[str, dict[str, Any]]]  # a path, or several with options of each
COMPUTED: dict[str, Logits] = {}
# What stands in a context: whole caches, windows and whole ones, a recurrent state, MLA.
KINDS = ("llama", "gemma3", "lfm2", "deepseek2")


def tokens(count: int, seed: int) -> list[int]:
    """Bytes as tokens; the same from one process to the next."""
    return [3 + random.Random(seed * 1000 + i).randrange(256) for i in range(count)]


SYSTEM, FIRST, SECOND = tokens(300, 1), tokens(410, 2), tokens(150, 3)
PROMPT, OTHER = SYSTEM + FIRST, SYSTEM + SECOND


class Runs:
    def __init__(self, sites: dict[str, pathlib.Path], folder: pathlib.Path) -> None:
        kv = pathlib.Path(folio_kv.__file__).parents[1]
        self.path = os.pathsep.join(str(site) for site in (*sites.values(), kv))
        self.folder, self.cache = folder, str(folder / "cache")

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("FOLIO_", "GGML_"))}
        environment |= {"PYTHONPATH": self.path, "XDG_CACHE_HOME": str(self.folder / "xdg")}
        return subprocess.Popen(
            [sys.executable, "-X", "faulthandler", *arguments],
            env=environment,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, models: Models, do: list[Any], **more: Any) -> tuple[Logits, str]:
        """What the steps wrote, and the log. more: of prompts_run.py, its cache among them."""
        return self.end(self.begin(models, do, **{"cache": self.cache, "bytes": "1GiB", **more}))

    def computed(self, models: Models, do: list[Any], **more: Any) -> Logits:
        """What the steps write without a cache: computed once in a session."""
        key = json.dumps([models, do, more])
        if key not in COMPUTED:
            COMPUTED[key], _ = self.end(self.begin(models, do, **more))
        return COMPUTED[key]

    def begin(self, models: Models, do: list[Any], **more: Any) -> subprocess.Popen[str]:
        models = [(models, {})] if isinstance(models, str) else models
        return self.start(str(PROGRAM), json.dumps({"models": models, "do": do, **more}))

    def end(self, process: subprocess.Popen[str]) -> tuple[Logits, str]:
        out, log = process.communicate(timeout=900)
        assert process.returncode == 0, log
        return [json.loads(line) for line in out.splitlines()], log


@pytest.fixture
def runs(sites: dict[str, pathlib.Path], tmp_path: pathlib.Path) -> Runs:
    return Runs(sites, tmp_path)


def same(found: Logits, expected: Logits) -> None:
    """Equal logits, as far as the greedy tokens go together: they part at ties alone."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        a, b = np.array(one["logits"]), np.array(other["logits"])
        assert a.shape == b.shape
        for row, (p, q) in enumerate(zip(a, b, strict=True)):
            assert np.abs(p - q).max() <= NEAR * np.abs(q).max(), row
            if one["tokens"][row] != other["tokens"][row]:
                top = np.sort(q)[-2:]
                assert top[1] - top[0] <= NEAR * np.abs(q).max()
                break


def restored(results: Logits) -> list[int]:
    """Of each step, how many tokens came from the store."""
    counts = [0] + [int(result["figures"]["restored_tokens"]) for result in results]
    return [b - a for a, b in zip(counts, counts[1:], strict=False)]


@pytest.mark.parametrize("architecture", KINDS)
def test_a_conversation_is_taken_up_after_a_restart(
    runs: Runs, text_models: Callable[[str], str], architecture: str
) -> None:
    model = text_models(architecture)
    before, _ = runs(model, [["generate", PROMPT, COUNT], ["generate", OTHER, COUNT]])
    assert restored(before) == [0, 0]
    # The end of an answer is the last token that was evaluated; the next turn stands behind it.
    turn = PROMPT + before[0]["tokens"][: COUNT - 1] + tokens(90, 4)
    longer = SYSTEM + SECOND[:130] + tokens(200, 5)
    do = [["generate", prompt, COUNT] for prompt in (PROMPT, turn, OTHER, longer)]
    after, log = runs(model, do)
    cold = runs.computed(model, do, is_cold=True)
    same(after, cold)
    last_page = [(len(prompt) - 1) // PAGE * PAGE for prompt in (PROMPT, OTHER)]
    # The second prompt stands in the context but for its last tokens; the last shares 430 tokens
    # with the third, and the context has them unless it is of a kind that cannot go back.
    assert restored(after)[::2] == last_page, log
    assert restored(after)[1] in (0, len(PROMPT) + COUNT - 1)
    assert f"restored {last_page[0]} of {len(PROMPT)} tokens in" in log
    again, _ = runs(model, [do[1], do[3]])
    same(again, [cold[1], cold[3]])
    first, second = restored(again)
    assert first >= len(PROMPT) + COUNT - 1
    assert second == (len(longer) - 1) // PAGE * PAGE


def test_logits_tell_a_wrong_state(runs: Runs, text_models: Callable[[str], str]) -> None:
    """The control: another token far ahead is seen, so that `same` would see another prompt's state."""
    other = [*PROMPT[:100], PROMPT[100] ^ 1, *PROMPT[101:]]
    prompts = [["generate", prompt, COUNT] for prompt in (PROMPT, other)]
    found, changed = runs.computed(text_models("llama"), prompts, is_cold=True)
    with pytest.raises(AssertionError):
        same([changed], [found])


CONTEXTS = {
    "keys_q8_0_values_q4_0": {"type_k": 8, "type_v": 2},
    "q8_0": {"type_k": 8, "type_v": 8},
    "q4_0": {"type_k": 2, "type_v": 2},
    "bf16": {"type_k": 30, "type_v": 30},
    "transposed": {"flash_attn": False},
    "small_windows": {"swa_full": False},
    "small_batches": {"n_batch": 96, "n_ubatch": 32},
}


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "context"),
    [
        (name, context)
        for name in KINDS
        for context in CONTEXTS
        # llama.cpp makes no context of MLA whose keys and values have two types.
        if (name, context) != ("deepseek2", "keys_q8_0_values_q4_0")
    ],
)
def test_all_kinds_of_contexts(
    runs: Runs, text_models: Callable[[str], str], name: str, context: str
) -> None:
    """A restored prompt goes on as the one that was computed in the same batches."""
    model = [(text_models(name), CONTEXTS[context])]
    first = [["generate", PROMPT[: 9 * PAGE], 1], ["generate", PROMPT, COUNT]]
    expected = runs.computed(model, first)
    runs(model, first[:1])
    found, log = runs(model, first[1:])
    assert restored(found)[0] >= 8 * PAGE, log
    limit = NEAR if context in ("transposed", "small_windows", "small_batches") else 0.2
    for a, b in zip(found[0]["logits"][:1], expected[1]["logits"][:1], strict=True):
        assert np.abs(np.subtract(a, b)).max() <= limit * np.abs(b).max()


def with_another_weight(path: str, folder: pathlib.Path) -> str:
    """A copy of a model whose last weight has another sign."""
    data = bytearray(pathlib.Path(path).read_bytes())
    data[-1] ^= 0x80
    made = folder / "other.gguf"
    made.write_bytes(data)
    return str(made)


def test_what_may_be_another_state_is_not_found(
    runs: Runs, text_models: Callable[[str], str]
) -> None:
    model = text_models("llama")
    copy = runs.folder / "copy.gguf"
    shutil.copyfile(model, copy)
    quantised = {"type_k": 8, "type_v": 8}
    kept = [(model, {}), (str(copy), {}), (model, quantised)]
    others: dict[str, tuple[str, dict[str, Any]]] = {
        "weights": (with_another_weight(model, runs.folder), {}),
        "values' type": (model, {"type_v": 8}),
        "rotation": (model, {**quantised, "variables": {"LLAMA_ATTN_ROT_DISABLE": "1"}}),
        "layout": (model, {"flash_attn": False}),
        "rope": (model, {"rope_freq_base": 20000.0}),
        "context": (model, {"n_ctx": 1024}),
        "overrides": (model, {"kv_overrides": {"llama.attention.causal": True}}),
    }

    def each(count: int) -> list[list[Any]]:
        return [["generate", PROMPT[:200], 1, number] for number in range(count)]

    runs([kept[0], kept[2]], each(2))
    found, _ = runs([*others.values(), *kept], each(len(others) + len(kept)))
    restored_by = [int(result["figures"]["restored_tokens"]) for result in found]
    names = [*others, "itself", "a copy", "quantised"]
    expected = dict.fromkeys(others, 0) | dict.fromkeys(names[len(others) :], 3 * PAGE)
    assert dict(zip(names, restored_by, strict=True)) == expected


def test_two_models_at_once_keep_their_own(runs: Runs, text_models: Callable[[str], str]) -> None:
    """Two contexts of one model and one of another in a process, by turns."""
    both = [(text_models(name), {}) for name in ("llama", "llama", "deepseek2")]
    turns = [(PROMPT, 0), (OTHER, 1), (PROMPT, 2), (PROMPT, 1), (OTHER, 0), (OTHER, 2)]
    do = [["generate", prompt, COUNT, model] for prompt, model in turns]
    found, _ = runs(both, do)
    expected = runs.computed(both, do, is_cold=True)
    same(found, expected)
    again, _ = runs(both, do)
    same(again, expected)
    assert all(int(result["figures"]["restored_tokens"]) > 0 for result in again)


def test_a_shifted_context_is_not_kept(runs: Runs, text_models: Callable[[str], str]) -> None:
    """Its tokens are those of another prompt, its cells are not."""
    model = text_models("llama")
    do: list[Any] = [["generate", PROMPT, 1], ["shift", 128]]
    held = runs.computed(model, do)[1]["held"]
    more = held + tokens(100, 6)
    before, _ = runs(model, [*do, ["generate", more, 1]])
    kept = [result["figures"]["kept_pages"] for result in before]
    assert kept == [len(PROMPT) // PAGE] * 3
    found, _ = runs(model, [["generate", more, COUNT]])
    assert restored(found) == [0]
    same(found, runs.computed(model, [["generate", more, COUNT]]))


def test_what_is_computed_behind_a_hole_is_not_kept(runs: Runs, text_model: str) -> None:
    more = [["generate", PROMPT + SECOND, COUNT]]
    before, _ = runs(text_model, [["generate", PROMPT, 1], ["hole", 64, 128], *more])
    expected = runs.computed(text_model, more)
    with pytest.raises(AssertionError):  # it is another one
        same(before[2:], expected)
    found, _ = runs(text_model, more)
    assert restored(found) == [len(PROMPT)]
    same(found, expected)


def test_a_request_that_is_given_up_leaves_the_next_one_alone(
    runs: Runs, text_models: Callable[[str], str]
) -> None:
    """Its generator ends in one thread while another one evaluates."""
    model = text_models("llama")
    do = [["abandon", PROMPT, OTHER, COUNT], ["generate", OTHER, COUNT]]
    found, log = runs(model, do)
    expected, _ = runs(model, do, has_cache=False)
    same(found, expected)
    assert not found[0]["read"] and "not kept" not in log


def test_a_model_that_is_set_back_sees_its_windows(
    runs: Runs, text_models: Callable[[str], str]
) -> None:
    """A restored context has the last window alone; stock's, by default, has all of it."""
    model = text_models("gemma3")
    do: list[Any] = [["generate", PROMPT, 1], ["back", 300, SECOND]]
    runs(model, do[:1])
    found, _ = runs(model, do)
    assert restored(found)[0] > 600
    same(found, runs.computed(model, do))


def test_logits_of_a_prompt_are_computed_where_they_are_asked_for(
    runs: Runs, text_model: str
) -> None:
    text, model = (
        "".join(map(chr, (97 + t % 26 for t in PROMPT))),
        [(text_model, {"logits_all": True})],
    )
    do = [["complete", text, 4, False], ["complete", text, 4, True]]
    runs(model, do[:1])
    found, _ = runs(model, do)
    assert restored(found) == [len(PROMPT) // PAGE * PAGE, 0]
    expected = runs.computed(model, do[1:])
    assert len(expected[0]["of_tokens"]) > len(PROMPT)
    a, b = (np.array(one["of_tokens"][1:], float) for one in (found[1], expected[0]))
    assert np.abs(a - b).max() < 0.05


def test_whole_states_where_none_can_be_cut(runs: Runs, text_models: Callable[[str], str]) -> None:
    model, do = text_models("llama"), [["generate", PROMPT, COUNT]]
    before, log = runs(model, do, is_whole=True)
    said = "prompts are kept as whole states, by ends of requests and not by tokens: "
    assert log.count(said + "the test knows none") == 1
    turn = [["generate", PROMPT + before[0]["tokens"][: COUNT - 1] + SECOND, COUNT]]
    found, _ = runs(model, turn, is_whole=True)
    assert restored(found) == [len(PROMPT) + COUNT - 1]
    same(found, runs.computed(model, turn))


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
