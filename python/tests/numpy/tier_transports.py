# SPDX-License-Identifier: Apache-2.0
"""python/tests/numpy/tier_transports.py: transports, as a test and the processes it starts make them.

NIXL's library is FOLIO_TEST_NIXL, or the one that tools/nixl.sh has installed.
"""

import os
from pathlib import Path

from folio_kv import tiers

KINDS = ["shared_memory", "ucx", "nixl"]
INSTALLED = ".nixl_cu13.mesonpy.libs/libnixl_capi.so"
NIXL = os.environ.get("FOLIO_TEST_NIXL") or Path(__file__).parents[3] / "build/nixl" / INSTALLED


def transport_of(kind, **options):
    if kind == "shared_memory":
        return tiers.SharedMemoryTransport(same_user=True, **options)
    if kind == "ucx":
        return tiers.UcxTransport("tcp", **options)
    return tiers.NixlTransport(library=str(NIXL), transports="tcp", **options)
