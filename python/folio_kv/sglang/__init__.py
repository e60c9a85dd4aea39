# SPDX-License-Identifier: Apache-2.0
"""folio behind SGLang's HiCache: pages of prompts on disk, in Redis or in memory beside SGLang's.

`--hicache-storage-backend dynamic` with `"module_path": "folio_kv.sglang", "class_name": "HiCache"`
in `--hicache-storage-backend-extra-config`. Importing this needs no SGLang; `HiCache` does.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from .versions import ENGINE

if TYPE_CHECKING:
    from .hicache import HiCache

__all__ = ["HiCache", "capabilities"]

capabilities = ENGINE.refusals


def __getattr__(name: str) -> Any:
    if name != "HiCache":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    ENGINE.expect("HiCache", logging.getLogger(__name__))
    from .hicache import HiCache

    return HiCache
