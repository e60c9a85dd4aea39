# SPDX-License-Identifier: Apache-2.0
"""Who takes part: one file per library, one entry per way of calling it.

A contender is a class made from (problem, threads, **options). It fills its cache when it is made, by
its own library's means, and has

    bytes           of keys and values, scales included, that one call must read (append: write)
    versions        {package: version}
    attend(copy)    attention over a copy of the cache
    output()        what the last attend gave: [tokens, q_heads, v_head_size]
    append(copy)    writes the new tokens of a copy again; where entries name `append`

It raises Refused where its library cannot do what is asked.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
from pathlib import Path

ATTENTION = ("decode", "prefill", "latent")
# Relative RMS against double of given numbers: of 8-bit caches, quantised on the way, and of others.
WRONG = {"eight_bit": 0.12}
WRONG_BF16 = 3e-2


class Refused(Exception):
    """A library cannot do what is asked; the reason."""


@dataclasses.dataclass(frozen=True)
class Entry:
    module: str
    name: str  # of the class
    kinds: tuple[str, ...]
    options: dict[str, object] = dataclasses.field(default_factory=dict)
    feature: str = ""  # flag of /proc/cpuinfo without which it is left out

    def make(self, problem, threads: int):
        module = importlib.import_module(f"contenders.{self.module}")
        return getattr(module, self.name)(problem, threads, **self.options)


def _folio() -> dict[str, Entry]:
    entries = {}
    for word, order in ("hm", "HND"), ("tm", "NHD"):
        entries[f"folio {word}"] = Entry("folio", "Folio", (*ATTENTION, "append"), {"order": order})
        for name, dtype, calibrated in (
            ("i8", "i8", False), ("e4m3", "f8_e4m3", False), ("e4m3 one scale", "f8_e4m3", True),
        ):  # fmt: skip
            kinds = ("eight_bit",) if calibrated else ("eight_bit", "append")
            options = {"order": order, "dtype": dtype, "calibrated": calibrated}
            entries[f"folio {word} {name}"] = Entry("folio", "Folio", kinds, options)
    return entries


ENTRIES = {
    **_folio(),
    "torch gqa": Entry("torch_sdpa", "Sdpa", ("decode", "prefill"), {"fold": False}),
    "torch fold": Entry("torch_sdpa", "Sdpa", ("decode", "latent"), {"fold": True}),
    "torch index_put": Entry("torch_sdpa", "Sdpa", ("append",), {"fold": False}),
    "vLLM amx": Entry("vllm_cpu", "Vllm", ("decode", "prefill", "append"), {"isa": "amx"}, "amx_bf16"),
    "vLLM vec": Entry("vllm_cpu", "Vllm", ("decode", "prefill", "append"), {"isa": "vec"}, "avx512f"),
    "vLLM amx fp8": Entry("vllm_cpu", "Vllm", ("eight_bit",), {"isa": "amx", "fp8": True}, "amx_bf16"),
    "vLLM vec fp8": Entry("vllm_cpu", "Vllm", ("eight_bit",), {"isa": "vec", "fp8": True}, "avx512f"),
    "vLLM mla": Entry("vllm_cpu", "VllmLatent", ("latent",)),
    "SGLang": Entry("sglang", "SgLang", ATTENTION, feature="avx512f"),
    "OpenVINO": Entry("openvino_pa", "OpenVino", ATTENTION, {"cache": "bf16"}),
    "OpenVINO u8": Entry("openvino_pa", "OpenVino", ("eight_bit",), {"cache": "u8"}),
    "llama.cpp fa": Entry("ggml", "Ggml", ATTENTION, {"flash": True}),
    "llama.cpp fa-off": Entry("ggml", "Ggml", ("decode",), {"flash": False}),
    "llama.cpp fa q8_0": Entry("ggml", "Ggml", ("eight_bit",), {"flash": True, "dtype": "q8_0"}),
}  # fmt: skip


@functools.cache
def features() -> frozenset[str]:
    """Flags of the first processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    return frozenset(
        next((line.split(":")[1] for line in lines if line.startswith("flags")), "").split()
    )


def contenders_of(kind: str) -> list[str]:
    """Names of those that take part in shapes of a kind on this machine, in the order of the table."""
    return [
        name
        for name, entry in ENTRIES.items()
        if kind in entry.kinds and (not entry.feature or entry.feature in features())
    ]
