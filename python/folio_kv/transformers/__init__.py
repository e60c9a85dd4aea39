# SPDX-License-Identifier: Apache-2.0
"""folio under Hugging Face transformers.

    import folio_kv.transformers as folio

    folio.register()
    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="folio_flash")
    # on pages of folio's; without past_key_values, on a cache of transformers' own
    model.generate(**inputs, past_key_values=folio.FolioCache(model.config))
    model.generate_batch(inputs, generation_config)  # on transformers' own pages
    print(folio.report(model))

`register` adds the attention function under the names "folio_flash" and "folio". `FolioCache` keeps
keys and values in pages, also quantised; with `SparsePages` a query reads only the pages that matter
most to it. `report` says which layers run on folio, and why not the others: those run the model's
own attention. `calibrate` measures by what keys of few bits are best divided. `capabilities` says
what of this the installed transformers can have.
"""

from __future__ import annotations

from typing import Any

from ..errors import Unsupported
from .hooks import ATTENTION, CACHE, NAMES, TESTED, capabilities, refused, register
from .reporting import LayerReport, Report, report

__all__ = [
    "NAMES",
    "TESTED",
    "FolioCache",
    "LayerReport",
    "Report",
    "SparsePages",
    "calibrate",
    "capabilities",
    "register",
    "report",
]


def __getattr__(name: str) -> Any:
    if name in ("FolioCache", "SparsePages"):
        if why := refused(CACHE):
            raise Unsupported(why)
        from .cache import FolioCache, SparsePages

        return FolioCache if name == "FolioCache" else SparsePages
    if name == "calibrate":
        if why := refused(ATTENTION):
            raise Unsupported(why)
        from .calibration import calibrate

        return calibrate
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
