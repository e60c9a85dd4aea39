# SPDX-License-Identifier: Apache-2.0
"""The wheel folio-llama-cpp, installed beside llama-cpp-python: what enable() does and refuses.

llama-cpp-python is its own Python code over the libraries that tools/llama_cpp.py builds, as in an
installed package. Each test is a process of its own: a device stays loaded.
"""

from __future__ import annotations

import concurrent.futures
import json
import os
import pathlib
import re
import runpy
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import backend_ops
import pytest
from newer_ggml import NEWER

from server_process import Server, streamed

ROOT = pathlib.Path(__file__).resolve().parents[3]
TOOL = runpy.run_path(str(ROOT / "tools/llama_cpp.py"))
RELEASES: dict[str, tuple[str, str]] = TOOL["RELEASES"]
Run = Callable[..., subprocess.CompletedProcess[str]]

# A model of text, eight tokens of it; the device's counters come when the model is closed.
GENERATE = """
from llama_cpp import Llama
model = Llama({model!r}, n_ctx=256, n_threads=2 {options})
print(len(model("The cache", max_tokens=8)["choices"][0]["text"]) > 0)
model.close()
"""


# What is asked of llama-cpp-python's version: the first release tested, or a later one.
WANTED = f">={next(iter(RELEASES))}"


@pytest.fixture
def run(sites: dict[str, pathlib.Path], tmp_path: pathlib.Path) -> Run:
    """Runs a Python program that finds the packages `with_` names."""

    def python(
        *arguments: str, with_: tuple[object, ...] = ("folio", "llama"), **variables: str
    ) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join(str(sites.get(str(name), name)) for name in with_)
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("FOLIO_", "GGML_"))}
        environment |= {"PYTHONPATH": path, "FOLIO_GGML_TRACE": "1", **variables}
        command = [sys.executable, "-X", "faulthandler", *arguments]
        return subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=600
        )

    return python


def served(result: subprocess.CompletedProcess[str]) -> bool:
    """Whether the device's counters tell of nodes that it ran."""
    return re.search(r"^ggml-folio: nodes [1-9]", result.stderr, re.MULTILINE) is not None


def test_attention_runs_on_folio_after_enable(run: Run, text_model: str) -> None:
    enable = "import folio_llama_cpp as f; f.enable(); f.enable(); assert f.is_enabled()\n"
    result = run("-c", enable + GENERATE.format(model=text_model, options=""))
    assert result.stdout.split() == ["True"], result.stderr
    assert served(result), result.stderr
    assert result.stderr.count("attention layers") == 1 and SERVED in result.stderr


SERVED = "ggml-folio: folio serves 2 of 2 attention layers: 0-1; "


@pytest.fixture
def server(
    sites: dict[str, pathlib.Path], text_model: str, tmp_path: pathlib.Path
) -> Iterator[Server]:
    made = Server(sites, text_model, tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize(
    "by", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.full)]
)
def test_the_server_ended_by_a_signal_has_told_all(server: Server, by: int) -> None:
    with server.open(prompt="The cache", max_tokens=8) as response:
        assert json.load(response)["usage"]["completion_tokens"] > 0
    errors = server.end(by)
    assert errors.count("attention layers") == 1 and SERVED in errors, errors
    assert "ggml-folio: kernel attention_" in errors
    nodes = re.findall(r"^ggml-folio: nodes (\d+) refused 0 ", errors, re.MULTILINE)
    assert len(nodes) == 1 and int(nodes[0]) >= 2 * 8, errors


def test_four_streams_at_once_are_whole(server: Server) -> None:
    """Each is what it is alone. The first is read while the others wait: llama-cpp-python's own
    default cuts a stream off as soon as somebody waits."""
    prompts = ["The cache", "A page", "Keys and values of", "Four"]

    def stream(prompt: str, **more: Any) -> tuple[str, str]:
        return streamed(server.open(prompt=prompt, max_tokens=40, stream=True), **more)

    alone = [stream(prompt) for prompt in prompts]
    assert all(reason in ("length", "stop") for _, reason in alone), alone
    begun = threading.Event()
    with concurrent.futures.ThreadPoolExecutor(4) as clients:
        first = clients.submit(stream, prompts[0], has_begun=begun.set)
        assert begun.wait(600)
        others = [clients.submit(stream, prompt) for prompt in prompts[1:]]
        assert [client.result() for client in (first, *others)] == alone


def test_nothing_changes_without_enable(run: Run, text_model: str) -> None:
    look = "import folio_llama_cpp as f; assert not f.is_enabled()\n"
    result = run("-c", look + GENERATE.format(model=text_model, options=", flash_attn=True"))
    assert result.stdout.split() == ["True"], result.stderr
    assert not served(result)


def test_a_model_without_flash_attention_is_told(run: Run, text_model: str) -> None:
    enable = "import folio_llama_cpp as f; f.enable()\n"
    result = run("-c", enable + GENERATE.format(model=text_model, options=", flash_attn=False"))
    assert result.stdout.split() == ["True"], result.stderr
    assert "RuntimeWarning: flash_attn=False" in result.stderr
    assert not served(result)
    why = "llama.cpp serves 0-1: flash attention is off"
    assert f"folio serves 0 of 2 attention layers; {why}; 2 threads of ggml" in result.stderr


def test_the_command_says_what_is_installed(run: Run) -> None:
    result = run("-m", "folio_llama_cpp")
    assert result.returncode == 0, result.stderr
    version = TOOL["VERSION"]
    assert f"llama-cpp-python {version}, ggml {RELEASES[version][0]}" in result.stdout
    assert "enabled: attention of its models runs on folio" in result.stdout


def test_one_range_is_stated_everywhere() -> None:
    client, tested = ROOT / "clients/llama_cpp", list(RELEASES)
    assert TOOL["NEWEST"] == tested[-1]
    asked = re.findall(
        r"llama-cpp-python(?:\[server\])?([><].*)\"", (client / "python/pyproject.toml").read_text()
    )
    assert asked == [WANTED] * 2
    header = (client / "src/version.h").read_text()
    first, last = (
        ".".join(found) for found in re.findall(r"_ggml = \{(\d+), (\d+), (\d+)\}", header)
    )
    versions = [version for version, _ in RELEASES.values()]
    assert (first, last) == (versions[0], list(NEWER.values())[-1])
    assert list(backend_ops.CASES) == versions
    for text in (ROOT / "docs/llama_cpp.md", client / "python/README.md"):
        assert (
            f"{first} to {last} (llama-cpp-python {tested[0]} to {tested[-1]}" in text.read_text()
        )


def test_the_command_prints_the_path_of_the_module(
    run: Run, sites: dict[str, pathlib.Path]
) -> None:
    result = run("-m", "folio_llama_cpp", "--library")
    assert (
        pathlib.Path(result.stdout.strip())
        == sites["folio"] / "folio_llama_cpp/lib/libggml-folio.so"
    )
    assert pathlib.Path(result.stdout.strip()).is_file()


def test_a_missing_llama_cpp_python_is_named(run: Run) -> None:
    result = run("-m", "folio_llama_cpp", with_=("folio",))
    assert result.returncode == 1
    hint = re.search(
        "not enabled: llama-cpp-python is not installed: pip install '(.*)'", result.stdout
    )
    assert hint is not None, result.stdout
    assert hint[1] == "llama-cpp-python" + WANTED


def test_libraries_that_do_not_load_are_named(run: Run, tmp_path: pathlib.Path) -> None:
    package = tmp_path / "broken/llama_cpp"
    (package / "lib").mkdir(parents=True)
    (package / "__init__.py").write_text("__version__ = '9.9'\n")
    (package / "lib/libllama.so").write_bytes(b"no library")
    result = run("-m", "folio_llama_cpp", with_=("folio", package.parent))
    assert result.returncode == 1
    assert "not enabled: the libraries of llama-cpp-python cannot be loaded: " in result.stdout
    assert "libllama.so" in result.stdout


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("", "has no ggml_backend_reg_by_name: it is older than any that folio knows"),
        (
            'extern "C" { void* ggml_backend_reg_by_name(const char*) { return nullptr; }'
            " void* ggml_backend_load(const char*) { return nullptr; }"
            ' const char* ggml_version() { return "0.1.2"; } }',
            "the ggml 0.1.2 of llama-cpp-python 9.9",
        ),
    ],
)
def test_another_ggml_is_refused_by_name(
    run: Run, tmp_path: pathlib.Path, code: str, words: str
) -> None:
    package = tmp_path / "other/llama_cpp"
    (package / "lib").mkdir(parents=True)
    (package / "__init__.py").write_text("__version__ = '9.9'\n")
    (tmp_path / "ggml.cpp").write_text(code)
    library = package / "lib/libllama.so"
    subprocess.run(["c++", "-shared", "-fPIC", "-o", library, tmp_path / "ggml.cpp"], check=True)
    result = run("-m", "folio_llama_cpp", with_=("folio", package.parent))
    assert result.returncode == 1
    assert words in result.stdout


def test_a_wheel_without_its_module_is_named(
    run: Run, sites: dict[str, pathlib.Path], tmp_path: pathlib.Path
) -> None:
    shutil.copytree(sites["folio"], tmp_path / "torn")
    module = tmp_path / "torn/folio_llama_cpp/lib/libggml-folio.so"
    module.unlink()
    result = run("-m", "folio_llama_cpp", with_=(tmp_path / "torn", "llama"))
    assert result.returncode == 1
    assert f"not enabled: {module} is missing" in result.stdout
