# SPDX-License-Identifier: Apache-2.0
"""`Connector`: a tier of folio's as a native client of LMCache.

The calls are C++ (`folio_kv._core.LMCacheConnector`); what stands here reads the options, makes the
tier, and names objects: SHA-256 of LMCache's key and of what the bytes depend on beside it.
"""

from __future__ import annotations

import hashlib
import json
import logging

from folio_kv._core import LMCacheConnector
from folio_kv._identity import model_digest
from folio_kv._open_tiers import open_tiers
from folio_kv._options import Options

from .versions import ENGINE

__all__ = ["Connector"]

_FORMAT = "folio lmcache 1"
_logger = logging.getLogger("folio_kv.lmcache")


class Connector(LMCacheConnector):
    """The objects of LMCache in one tier: a directory, a Redis, or memory.

    options: adapter_params, docs/python_lmcache.md. Raises Error, in one line that names the key.
    """

    def __init__(self, **given: object) -> None:
        ENGINE.expect("Connector", _logger)
        import lmcache

        options = Options("Connector", given)
        # LMCache's keys have the model's name; that of its next revision is the same.
        model, dtype = options.text("model"), options.text("dtype")
        load_timeout_ms = options.whole("load_timeout_ms", 10_000, 1, 3_600_000)
        if not model:
            expected = "the model's folder, its name on the Hub, or a text that stands for it"
            raise options.wrong("model", expected, None)
        if not dtype:
            raise options.wrong("dtype", 'the type of the cache, such as "bfloat16"', None)
        version = getattr(lmcache, "__version__", "")  # objects are as this one lays them out
        identity = [_FORMAT, version, model_digest(model) or model, dtype]
        fingerprint = hashlib.sha256(json.dumps(identity).encode()).digest()
        opened = open_tiers(options, fingerprint, most=1)
        (tier,) = opened.tiers.values()
        root = hashlib.sha256(b"folio lmcache object\0" + fingerprint)

        def name_of(key: str) -> bytes:
            name = root.copy()
            name.update(key.encode())
            return name.digest()

        _logger.info("folio: Connector keeps objects in %s", opened.describe())
        super().__init__(tier, name_of, load_timeout_ms)
