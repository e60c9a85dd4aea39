# SPDX-License-Identifier: Apache-2.0
"""folio as the attention of stock vLLM on a CPU.

Installed with folio-kv, vLLM calls `register` through the entry-point group `vllm.general_plugins`
in each of its processes. folio then stands in for vLLM's back ends CPU_ATTN and CPU_MLA; blocks,
block tables and slots remain vLLM's and are used in place. `FOLIO_VLLM=0` leaves vLLM as it is.
Layers that folio cannot serve run on vLLM's own classes, and one line of the log says which and
why.
"""

from __future__ import annotations

import logging
import os

from .versions import ENGINE

__all__ = ["capabilities", "register"]

capabilities = ENGINE.refusals

_REPLACED = {
    "CPU_ATTN": "folio_kv.vllm.backend.FolioBackend",
    "CPU_MLA": "folio_kv.vllm.mla.FolioMLABackend",
}

# Below the logger "vllm", so that vLLM's handlers and its level apply.
_logger = logging.getLogger("vllm.folio_kv")


def register() -> None:
    """Puts folio in place of vLLM's CPU attention; vLLM calls it, perhaps several times.

    Does nothing under `FOLIO_VLLM=0` and on other platforms than the CPU. A back end whose hooks are
    not the known ones remains vLLM's own, and a warning says so; another one says once that a
    version was not tested.
    """
    switch = os.environ.get("FOLIO_VLLM", "1")
    if switch not in ("0", "1"):
        _logger.warning(
            "folio: FOLIO_VLLM: expected 0 or 1, got %r; vLLM runs without folio", switch
        )
    if switch != "1":
        return
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return
    told = capabilities()
    refused = {name: told[name] for name in _REPLACED if told[name]}
    for why in dict.fromkeys(refused.values()):
        of = ", ".join(name for name in refused if refused[name] == why)
        _logger.warning("folio: %s: %s; vLLM runs without folio there", of, why)
    served = [name for name in _REPLACED if name not in refused]
    if not served:
        return
    if (warning := ENGINE.warning()) is not None:
        _logger.warning("folio: %s", warning)
    from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

    for name in served:
        register_backend(AttentionBackendEnum[name], _REPLACED[name])
