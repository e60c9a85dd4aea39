# SPDX-License-Identifier: Apache-2.0
"""python/tests/numpy/tier_kinds.py: tiers that need nothing beside them."""

from tier_pages import MIB

from folio_kv import tiers

KINDS = ["host", "disk"]


def tier_of(kind, folder, max_bytes=64 * MIB, **options):
    if kind == "host":
        return tiers.HostTier(max_bytes, **options)
    return tiers.DiskTier(str(folder), max_bytes, **{"segment_bytes": MIB, **options})
