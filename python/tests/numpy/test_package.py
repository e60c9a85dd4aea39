# SPDX-License-Identifier: Apache-2.0
"""The package as it is installed, and its source distribution."""

from __future__ import annotations

import importlib.metadata
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

import pytest

import folio_kv
from folio_kv import _core

PYTHON = pathlib.Path(__file__).resolve().parents[2]
SITE = pathlib.Path(folio_kv.__file__).parent


def project_version() -> str:
    text = (PYTHON / "library/CMakeLists.txt").read_text()
    match = re.search(r"project\(folio VERSION ([0-9.]+)", text)
    assert match
    return match.group(1)


def readelf(option: str, module: str | pathlib.Path = str(_core.__file__)) -> str:
    if shutil.which("readelf") is None:
        pytest.skip("no readelf on this machine")
    command = ["readelf", "--wide", option, str(module)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def in_place() -> bool:
    """Whether the working tree itself is imported, with a module built into it."""
    return SITE == PYTHON / "folio_kv"


def test_the_version_is_the_librarys() -> None:
    assert folio_kv.__version__ == project_version()


def test_the_distribution_says_the_same_version() -> None:
    if in_place():
        pytest.skip("the working tree is imported, not an installed package")
    assert importlib.metadata.version("folio-kv") == project_version()


def test_numpy_and_the_backend_of_nanobind_are_all_that_is_needed() -> None:
    if in_place():
        pytest.skip("the working tree is imported, not an installed package")
    requires = importlib.metadata.requires("folio-kv") or []
    needed = {re.split(r"[^\w-]", line)[0] for line in requires if "extra ==" not in line}
    assert needed == {"numpy", "nanobind-backend"}


def test_vllm_finds_the_plugin() -> None:
    if in_place():
        pytest.skip("the working tree is imported, not an installed package")
    (found,) = importlib.metadata.entry_points(group="vllm.general_plugins", name="folio")
    assert found.value == "folio_kv.vllm:register"


def test_importing_the_package_imports_no_engine() -> None:
    code = """
import sys, folio_kv
engines = "torch", "transformers", "vllm", "jax", "ml_dtypes"
print([name for name in engines if name in sys.modules])
"""
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout.strip() == "[]"


def test_the_package_is_typed() -> None:
    assert (SITE / "py.typed").is_file()
    assert (SITE / "_core.pyi").is_file()


def test_the_example_of_the_readme_runs() -> None:
    text = (PYTHON / "README.md").read_text()
    example = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert example
    exec(compile(example.group(1), "README.md", "exec"), {})


def test_the_module_exports_nothing_but_its_entry() -> None:
    lines = readelf("--dyn-syms").splitlines()
    fields = [line.split() for line in lines]
    defined = [f[7] for f in fields if len(f) == 8 and f[4] == "GLOBAL" and f[6] != "UND"]
    assert defined == ["PyInit__core"]


def needed_libraries(module: str | pathlib.Path) -> set[str]:
    """What the loader must find for it, beyond what every system with the C++ library has."""
    of_systems = re.compile(r"(ld-linux.*|lib(c|dl|gcc_s|m|pthread|rt|stdc\+\+))\.so\.\d+")
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", readelf("--dynamic", module))
    assert needed
    return {name for name in needed if not of_systems.fullmatch(name)}


def test_the_package_carries_what_it_links() -> None:
    if in_place():
        pytest.skip("the working tree is imported, not an installed package")
    libraries = [*SITE.rglob("*.so*")]
    assert pathlib.Path(str(_core.__file__)) in libraries
    needed = set().union(*map(needed_libraries, libraries))
    assert needed <= {library.name for library in libraries if library.parent == SITE}
    if needed:
        assert "[$ORIGIN]" in readelf("--dynamic")
    code = "import folio_kv; print(open('/proc/self/maps').read())"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert [name for name in needed if str(SITE.resolve() / name) not in run.stdout] == []


def test_what_is_loaded_at_run_time_is_not_linked() -> None:
    loaded = re.compile(r"lib(zmq|ssl|crypto|uc[mpst]|nixl|cuda|g?omp)\b.*")
    assert not [name for name in needed_libraries(str(_core.__file__)) if loaded.match(name)]


def test_the_package_runs_where_the_system_has_no_library_of_tiers(tmp_path: pathlib.Path) -> None:
    """There they are empty files, in a namespace of mounts."""
    if in_place():
        pytest.skip("the working tree is imported, not an installed package")
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0:
        pytest.skip("no namespace of mounts is to be had: not root, or not allowed")
    program = tmp_path / "program.py"
    program.write_text("""
from folio_kv import Error, tiers
page = bytearray(b"page" * 1024)
for tier in tiers.HostTier(1 << 20), tiers.DiskTier("pages", 1 << 30):
    stored = tier.store([b"name"], [page])
    assert stored.wait() and stored.outcomes == ["done"]
tiers.RedisTier("redis://127.0.0.1:1", 1 << 20)
for make in lambda: tiers.RedisTier("rediss://127.0.0.1:1", 1 << 20), tiers.UcxTransport:
    try:
        make()
    except Error as e:
        print(e.code, e)
""")
    script = """
for file in $(ls /lib/*-linux-gnu/lib{isal,uring,hiredis,ssl,zmq,ucp}.so.*); do
  mount --bind /dev/null "$(readlink -f "$file")"
done 2> /dev/null
exec "$@"
"""
    command = ["unshare", "--mount", "bash", "-c", script, "bash", sys.executable, str(program)]
    run = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert re.fullmatch(
        r"unsupported make_redis_tier: TLS .*Debian: libssl3.*\n"
        r"unsupported make_ucx_transport: .*Debian: libucx0.*\n",
        run.stdout,
    )


def test_the_stub_is_what_the_module_offers(tmp_path: pathlib.Path) -> None:
    nanobind = pytest.importorskip("nanobind")
    if not nanobind.__version__.startswith("3.1."):
        pytest.skip(f"the stub is written by nanobind 3.1, this is {nanobind.__version__}")
    stub = tmp_path / "_core.pyi"
    subprocess.run(
        [sys.executable, str(PYTHON.parent / "tools/python_stub.py"), str(stub)], check=True
    )
    assert stub.read_text() == (PYTHON / "folio_kv/_core.pyi").read_text(), (
        "after a wanted change: tools/update_python_stub.sh"
    )


def test_the_source_distribution_holds_the_library(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = pytest.importorskip("scikit_build_core.build")
    monkeypatch.chdir(PYTHON)
    name = backend.build_sdist(str(tmp_path))
    with tarfile.open(tmp_path / name) as archive:
        members = {m.name.partition("/")[2]: m for m in archive.getmembers()}
    links = [name for name, member in members.items() if member.issym() or member.islnk()]
    assert not links
    wanted = [
        "LICENSE",
        "licenses/isa-l.txt",
        "licenses/nanobind.txt",
        "CMakeLists.txt",
        "src/module.cpp",
        "folio_kv/__init__.py",
        "folio_kv/_core.pyi",
        "library/CMakeLists.txt",
        "library/LICENSE",
        "library/cmake/FolioTargets.cmake",
        "library/include/folio/folio.h",
        "library/src/attention/kernel_list.h",
    ]
    assert [name for name in wanted if name not in members] == []
    assert not [name for name in members if name.endswith(".so") or name.startswith("tests/")]


def test_dtypes_are_those_of_the_c_interface():
    header = (PYTHON.parent / "include/folio/c/base.h").read_text()
    enumeration = re.search(r"enum \{  // dtype(.*?)\};", header, re.DOTALL)
    assert enumeration
    names = [name.lower() for name in re.findall(r"FOLIO_(\w+) = [1-9]", enumeration[1])]
    assert len(names) == 18
    for name in names:
        given = {"dtype": "i8", "scale_dtype": name} if name == "f8_e8m0" else {"dtype": name}
        pages = folio_kv.KVCache(1, 1, kv_heads=1, head_size=32, **given)[0]
        assert pages.dtype == given["dtype"]


def test_options_are_those_of_the_c_interface():
    header = (PYTHON.parent / "include/folio/c/base.h").read_text()
    enumeration = re.search(r"enum \{  // options of a problem(.*?)\};", header, re.DOTALL)
    assert enumeration
    options = {name.lower() for name in re.findall(r"FOLIO_(\w+) = [1-9]", enumeration[1])}
    of_kinds = {
        "v_in_key": "value_in_key",
        "bf16_operands": "bf16_operands",
        "int8_operands": "int8_operands",
        "q_is_turned": "q_is_turned",
    }
    of_calls = {
        "sinks": "sink_logits", "alibi": "alibi", "bias": "bias", "intervals": "intervals",
        "tree": "tree", "selected": "selection", "sinks_per_query": "sink_per_query",
        "bias_per_sequence": "bias_per_sequence", "alibi_positions": "alibi_positions",
            "selected_per_head": "selection_per_head",
    }  # fmt: skip
    assert options == {*of_kinds.values(), *of_calls.values()}
    assert all(f"{name}: " in str(_core.Kind.__init__.__doc__) for name in of_kinds)
    for signature in (_core.Attention.__init__.__doc__, _core.why_not.__doc__):
        assert all(f"{name}: bool = False" in str(signature) for name in of_calls)
