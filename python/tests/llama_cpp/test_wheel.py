# SPDX-License-Identifier: Apache-2.0
"""The wheel folio-llama-cpp, installed beside llama-cpp-python: what enable() does and refuses.

llama-cpp-python is its own Python code over the libraries that tools/llama_cpp.py builds, as in an
installed package. Each test is a process of its own: a device stays loaded.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import runpy
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from typing import Any

import backend_ops
import pytest
from reserved_port import ReservedPort

import llama_models as models

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


def ends() -> tuple[str, str]:
    """What is asked of llama-cpp-python's version: from the first release tested to the last."""
    tested = list(RELEASES)
    return f"<={tested[-1]}", f">={tested[0]}"


def tool(action: str) -> pathlib.Path:
    made = subprocess.run(
        [sys.executable, ROOT / "tools/llama_cpp.py", action], stdout=subprocess.PIPE, text=True
    )
    assert made.returncode == 0, f"tools/llama_cpp.py {action} failed: its words stand above"
    return pathlib.Path(made.stdout.split()[-1])


@pytest.fixture(scope="session")
def sites(built: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, pathlib.Path]:
    """Folders as of installed packages: `folio` of the wheel, `llama` of llama-cpp-python."""
    folder = tmp_path_factory.mktemp("sites")
    with zipfile.ZipFile(tool("wheel")) as wheel:
        wheel.extractall(folder / "folio")
    package = folder / "llama/llama_cpp"
    shutil.copytree(tool("sources").parents[1] / "llama_cpp", package)
    shutil.copytree(built / "llama", package / "lib")  # a wheel has copies for links
    return {"folio": folder / "folio", "llama": folder / "llama"}


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


@pytest.fixture(scope="session")
def text_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("text") / "llama.gguf"
    models.write(file, "llama", has_text=True)
    return str(file)


def served(result: subprocess.CompletedProcess[str]) -> bool:
    """Whether the device's counters tell of nodes that it ran."""
    return re.search(r"^ggml-folio: nodes [1-9]", result.stderr, re.MULTILINE) is not None


def test_attention_runs_on_folio_after_enable(run: Run, text_model: str) -> None:
    enable = "import folio_llama_cpp as f; f.enable(); f.enable(); assert f.is_enabled()\n"
    result = run("-c", enable + GENERATE.format(model=text_model, options=""))
    assert result.stdout.split() == ["True"], result.stderr
    assert served(result), result.stderr


def test_the_server_answers_on_folio(
    sites: dict[str, pathlib.Path], text_model: str, tmp_path: pathlib.Path
) -> None:
    port = ReservedPort()
    path = os.pathsep.join(str(site) for site in sites.values())
    environment = {**os.environ, "PYTHONPATH": path, "FOLIO_GGML_TRACE": "1"}
    options = [
        "--model",
        text_model,
        "--port",
        str(port.number),
        "--n_ctx",
        "256",
        "--n_threads",
        "2",
    ]
    errors = tmp_path / "stderr"
    with errors.open("w") as file:
        server = subprocess.Popen(
            [sys.executable, "-m", "folio_llama_cpp.server", *options], env=environment, stderr=file
        )
    try:
        answer = ask(server, f"http://127.0.0.1:{port.number}/v1/completions", errors)
    finally:
        server.terminate()
        server.wait(600)
        port.close()
    assert answer["usage"]["completion_tokens"] > 0
    # The server ends without freeing its context: no counters, but the kernel is named when it runs.
    assert "ggml-folio: kernel attention_" in errors.read_text()


def ask(server: subprocess.Popen[bytes], url: str, errors: pathlib.Path) -> dict[str, Any]:
    """One completion of a server that may still be starting."""
    body = json.dumps({"prompt": "The cache", "max_tokens": 8}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    while True:
        assert server.poll() is None, errors.read_text()
        try:
            with urllib.request.urlopen(request, timeout=600) as response:
                answer: dict[str, Any] = json.load(response)
                return answer
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode() + errors.read_text()) from error
        except urllib.error.URLError:
            time.sleep(0.2)


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


def test_the_command_says_what_is_installed(run: Run) -> None:
    result = run("-m", "folio_llama_cpp")
    assert result.returncode == 0, result.stderr
    version = TOOL["VERSION"]
    assert f"llama-cpp-python {version}, ggml {RELEASES[version][0]}" in result.stdout
    assert "enabled: attention of its models runs on folio" in result.stdout


def test_one_range_is_stated_everywhere() -> None:
    last, first = ends()
    assert TOOL["NEWEST"] == last.removeprefix("<=")
    client = ROOT / "clients/llama_cpp"
    asked = re.findall(
        r"llama-cpp-python[^><]*(>=.*?),(<=.*?)\"", (client / "python/pyproject.toml").read_text()
    )
    assert asked == [(first, last)] * 2
    header = (client / "src/version.h").read_text()
    known = [".".join(found) for found in re.findall(r"_ggml = \{(\d+), (\d+), (\d+)\}", header)]
    versions = [version for version, _ in RELEASES.values()]
    assert known == [versions[0], versions[-1]]
    assert list(backend_ops.CASES) == versions
    assert f"{versions[0]} to {versions[-1]}" in (ROOT / "docs/llama_cpp.md").read_text()


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
    assert sorted(hint[1].removeprefix("llama-cpp-python").split(",")) == list(ends())


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
