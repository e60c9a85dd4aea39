# SPDX-License-Identifier: Apache-2.0
"""folio's attention under an installed llama-cpp-python.

    import folio_llama_cpp
    folio_llama_cpp.enable()

    from llama_cpp import Llama
    model = Llama("model.gguf")

`enable` loads libggml-folio.so, a device of ggml, into the libraries of llama-cpp-python. Contexts
made from then on compute attention with it; everything else stays llama.cpp's own.

    folio_llama_cpp.enable(cache="DIR", bytes="20GiB")

also keeps prompts: models that are loaded from then on find the prompts of earlier requests and of
earlier processes in a directory, or in a Redis server.

    folio_llama_cpp.enable(dtype="q4_0")

keeps keys and values in four bits, which llama.cpp turns by Hadamard matrices before it rounds them.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.metadata
import os
import pathlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

__all__ = [
    "BadCache",
    "Installed",
    "NotEnabled",
    "enable",
    "installed",
    "is_enabled",
    "library",
    "prompt_figures",
]

from folio_llama_cpp.errors import BadCache

_DEVICE = b"folio"
_DEFAULT_BYTES = "10GiB"
# Types of llama.cpp's caches that folio serves, and their numbers in ggml.
_TYPES = {
    **{"f16": 1, "bf16": 30, "q8_0": 8, "q4_0": 2, "q4_1": 3},
    **{"q5_0": 6, "q5_1": 7, "iq4_nl": 20},
}
_defaults: dict[str, int] = {}  # options of `Llama` that are these unless it is told otherwise
_hooks: list[tuple[tuple[str, int], Any]] = []  # of the prompts' store, once there is one


class NotEnabled(RuntimeError):
    """Why llama-cpp-python cannot run on folio; it goes on without."""


@dataclass(frozen=True)
class Installed:
    """The llama-cpp-python of this process."""

    version: str  # of llama-cpp-python
    ggml_version: str
    folder: pathlib.Path  # of its libraries


def library() -> pathlib.Path:
    """Where libggml-folio.so lies: programs of llama.cpp load it by GGML_BACKEND_PATH."""
    return pathlib.Path(__file__).parent / "lib" / "libggml-folio.so"


def installed() -> Installed:
    """What `enable` finds. Raises NotEnabled where there is no llama-cpp-python, or one whose
    libraries cannot be loaded."""
    llama_cpp, folder, ggml = _llama_cpp()
    return Installed(llama_cpp.__version__, _version(ggml), folder)


def is_enabled() -> bool:
    """Whether the device is loaded. Raises as `installed`."""
    return bool(_function(_llama_cpp()[2], "ggml_backend_reg_by_name")(_DEVICE))


def enable(
    *,
    cache: str | os.PathLike[str] | None = None,
    bytes: int | str | None = None,
    dtype: str | None = None,
    v_dtype: str | None = None,
) -> None:
    """Gives attention to folio in every context that is made from now on. A second call does
    nothing but what its `dtype` says; contexts that were there before stay as they are.

    folio serves flash attention, which `llama_cpp.Llama` leaves off unless told otherwise: from now
    on it is on unless told otherwise. A model that is loaded with `flash_attn=False` runs without
    folio, and a RuntimeWarning says so.

    cache: where prompts are kept, a directory of this process alone or a redis:// URL that several
    share; asks for the package folio-kv. bytes: how much of it, 10 GiB unless told otherwise, a
    number or a text such as "20GiB"; prompts used longest ago go. Logger: "folio_llama_cpp".

    dtype: what keys and values are stored as in models that are loaded from now on, unless `Llama` is
    given type_k or type_v: "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1" or "iq4_nl"; v_dtype:
    values alone, dtype unless given. llama.cpp turns the rows of quantised ones before it rounds
    them, where head sizes are multiples of 64, unless LLAMA_ATTN_ROT_DISABLE=1.

    Raises NotEnabled, with the reason, and leaves llama-cpp-python as it was; BadCache for `cache`,
    `bytes` or a dtype, with what was expected and what came.
    """
    types = _types_of(dtype, v_dtype)
    keep_prompts = _prompts_keeper(cache, bytes)
    llama_cpp, folder, ggml = _llama_cpp()
    if not is_enabled():
        path = library()
        if not path.is_file():
            raise NotEnabled(
                f"{path} is missing: folio-llama-cpp has to be installed from its wheel"
            )
        if not _function(ggml, "ggml_backend_load")(os.fsencode(path)):
            raise NotEnabled(
                f"the ggml {_version(ggml)} of llama-cpp-python {llama_cpp.__version__} ({folder}) does not "
                f"load {path}; it has written the reason to stderr"
            )
    _defaults.update(types)
    _change_defaults(llama_cpp.Llama)
    keep_prompts(llama_cpp)


def prompt_figures(model: Any) -> dict[str, float]:
    """Counters of a loaded model's prompts, and the seconds that keeping and restoring them took;
    empty where they are not kept."""
    from folio_llama_cpp.hooks import prompts_of

    prompts = prompts_of(model)
    return {} if prompts is None else prompts.all_figures()


def _types_of(dtype: str | None, v_dtype: str | None) -> dict[str, int]:
    """What `Llama` is given for a cache's dtypes."""
    if dtype is None and v_dtype is not None:
        raise BadCache(f"v_dtype: expected a dtype beside it, got {v_dtype!r} and no dtype")
    for name, given in ("dtype", dtype), ("v_dtype", v_dtype):
        if given is not None and given not in _TYPES:
            raise BadCache(f"{name}: expected one of {', '.join(_TYPES)}, got {given!r}")
    if dtype is None:
        return {}
    return {"type_k": _TYPES[dtype], "type_v": _TYPES[v_dtype or dtype]}


def _prompts_keeper(
    cache: str | os.PathLike[str] | None, size: int | str | None
) -> Callable[[ModuleType], None]:
    """Opens the prompts' store; what is returned puts it behind llama-cpp-python's models."""
    if cache is None:
        if size is not None:
            raise BadCache(f"bytes: expected a cache for them, got {size!r} and no cache")
        return lambda llama_cpp: None
    from folio_llama_cpp.store import bytes_of, open_store

    place, count = os.fspath(cache), bytes_of(_DEFAULT_BYTES if size is None else size, "bytes")
    if _hooks:
        if _hooks[0][0] != (place, count):
            raise BadCache(f"cache: expected {_hooks[0][0][0]!r} as before, got {place!r}")
        return lambda llama_cpp: None
    store = open_store(place, count, "cache")

    def keep_prompts(llama_cpp: ModuleType) -> None:
        from folio_llama_cpp.hooks import Hooks
        from folio_llama_cpp.states import Unknown

        try:
            _hooks.append(((place, count), Hooks(llama_cpp, store)))
        except Unknown as reason:
            store.close()
            raise NotEnabled(f"prompts cannot be kept: {reason}") from None

    return keep_prompts


def _llama_cpp() -> tuple[ModuleType, pathlib.Path, ctypes.CDLL]:
    """The package, the folder of its libraries, and ggml's functions.

    They are looked up through libllama.so, in the libggml that it was loaded with: an installed
    package holds each library under several names that are copies, and each copy that is loaded
    has devices of its own."""
    try:
        llama_cpp = importlib.import_module("llama_cpp")
    except ModuleNotFoundError as error:
        if error.name != "llama_cpp":
            raise NotEnabled(f"llama-cpp-python cannot be imported: {error}") from error
        known = importlib.metadata.metadata("folio-llama-cpp").get_all("Requires-Dist") or []
        wanted = next(iter(known), "llama-cpp-python").split(";")[0].strip()
        raise NotEnabled(f"llama-cpp-python is not installed: pip install '{wanted}'") from error
    except (OSError, RuntimeError) as error:  # its libraries do not load
        raise NotEnabled(f"llama-cpp-python cannot be imported: {error}") from error
    own = pathlib.Path(llama_cpp.__file__).parent / "lib"
    folder = pathlib.Path(os.environ.get("LLAMA_CPP_LIB_PATH") or own)
    try:
        return llama_cpp, folder, ctypes.CDLL(str(folder / "libllama.so"))
    except OSError as error:
        raise NotEnabled(f"the libraries of llama-cpp-python cannot be loaded: {error}") from error


def _function(ggml: ctypes.CDLL, name: str) -> Any:
    """A function of ggml that takes a text and gives a pointer."""
    try:
        function = getattr(ggml, name)
    except AttributeError:
        raise NotEnabled(
            f"this llama-cpp-python has no {name}: it is older than any that folio knows"
        ) from None
    function.restype, function.argtypes = ctypes.c_void_p, [ctypes.c_char_p]
    return function


def _version(ggml: ctypes.CDLL) -> str:
    try:
        function = ggml.ggml_version
    except AttributeError:
        return "of an unknown version"
    function.restype, function.argtypes = ctypes.c_char_p, []
    return function().decode(errors="replace")


def _change_defaults(model: type) -> None:
    original = model.__init__
    if hasattr(original, "_folio_llama_cpp"):
        return

    @functools.wraps(original)
    def init(self: Any, *args: Any, **options: Any) -> None:
        if not options.setdefault("flash_attn", True):
            warnings.warn(
                "flash_attn=False: attention of this model runs without folio, which serves flash attention",
                RuntimeWarning,
                stacklevel=2,
            )
        for name, value in _defaults.items():
            if options.get(name) is None:  # the server names all options
                options[name] = value
        original(self, *args, **options)

    init._folio_llama_cpp = True  # type: ignore[attr-defined]
    model.__init__ = init  # type: ignore[misc]
