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
# Bits of an element, where K and V differ the fewer -> the most that is right, as relative RMS
# against double of the given numbers, which caches of 8 and 4 bits quantise on the way.
MOST_RIGHT = {16: 3e-2, 8: 0.12, 4: 0.2}


class Refused(Exception):
    """A library cannot do what is asked; the reason."""


@dataclasses.dataclass(frozen=True)
class Entry:
    module: str
    name: str  # of the class
    kinds: tuple[str, ...]
    options: dict[str, object] = dataclasses.field(default_factory=dict)
    feature: str = ""  # flag of /proc/cpuinfo without which it is left out
    bits: int = 16  # of an element of its cache

    def make(self, problem, threads: int):
        module = importlib.import_module(f"contenders.{self.module}")
        return getattr(module, self.name)(problem, threads, **self.options)

    def is_wrong(self, relative_rms: float) -> bool:
        """Numbers that are none are wrong, too."""
        return not relative_rms <= MOST_RIGHT[self.bits]


def _folio() -> dict[str, Entry]:
    entries = {}
    for word, order in ("hm", "HND"), ("tm", "NHD"):
        kinds = (*ATTENTION, "four_bit", "append")
        entries[f"folio {word}"] = Entry("folio", "Folio", kinds, {"order": order})
        for name, dtype, calibrated in (
            ("i8", "i8", False), ("e4m3", "f8_e4m3", False), ("e4m3 one scale", "f8_e4m3", True),
        ):  # fmt: skip
            kinds = ("eight_bit",) if calibrated else ("eight_bit", "append")
            options = {"order": order, "dtype": dtype, "calibrated": calibrated}
            entries[f"folio {word} {name}"] = Entry("folio", "Folio", kinds, options, bits=8)
        for name in "i4", "nvfp4", "kv4":
            options = {"order": order, "formats": name}
            entries[f"folio {word} {name}"] = Entry(
                "folio", "Folio", ("four_bit",), options, bits=4
            )
    return entries


def _vllm() -> dict[str, Entry]:
    entries = {}
    for isa, feature in ("amx", "amx_bf16"), ("vec", "avx512f"):
        kinds, options = ("decode", "prefill", "append"), {"isa": isa}
        entries[f"vLLM {isa}"] = Entry("vllm_cpu", "Vllm", kinds, options, feature)
        options = options | {"fp8": True}
        entries[f"vLLM {isa} fp8"] = Entry(
            "vllm_cpu", "Vllm", ("eight_bit",), options, feature, bits=8
        )
    return entries


def _ggml() -> dict[str, Entry]:
    entries = {}
    for word, kinds, bits, options in (
        ("fa", (*ATTENTION, "four_bit"), 16, {}),
        ("fa-off", ("decode", "four_bit"), 16, {"flash": False}),
        ("fa q8_0", ("eight_bit",), 8, {"dtype": "q8_0"}),
        ("fa q4_0", ("four_bit",), 4, {"dtype": "q4_0"}),
        ("fa q4_0 hm", ("four_bit",), 4, {"dtype": "q4_0", "head_major": True}),
    ):
        options = {"flash": True} | options
        entries[f"llama.cpp {word}"] = Entry("ggml", "Ggml", kinds, options, bits=bits)
    return entries


ENTRIES = {
    **_folio(),
    "torch gqa": Entry("torch_sdpa", "Sdpa", ("decode", "prefill"), {"fold": False}),
    "torch fold": Entry("torch_sdpa", "Sdpa", ("decode", "latent"), {"fold": True}),
    "torch index_put": Entry("torch_sdpa", "Sdpa", ("append",), {"fold": False}),
    **_vllm(),
    "vLLM mla": Entry("vllm_cpu", "VllmLatent", ("latent",)),
    "SGLang": Entry("sglang", "SgLang", ATTENTION, feature="avx512f"),
    "OpenVINO": Entry("openvino_pa", "OpenVino", ATTENTION, {"cache": "bf16"}),
    "OpenVINO u8": Entry("openvino_pa", "OpenVino", ("eight_bit",), {"cache": "u8"}, bits=8),
    "OpenVINO u4": Entry("openvino_pa", "OpenVino", ("four_bit",), {"cache": "u4"}, bits=4),
    **_ggml(),
    "MAX f32": Entry("max_ragged", "Max", ("decode", "prefill", "append"), {"dtype": "f32"}),
    # of prefill its bf16 takes half a minute a call
    "MAX bf16": Entry("max_ragged", "Max", ("decode",), {"dtype": "bf16"}),
}


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
