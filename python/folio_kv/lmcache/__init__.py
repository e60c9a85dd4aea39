# SPDX-License-Identifier: Apache-2.0
"""folio behind LMCache: a connector for its L2 adapter `native_plugin`.

`--l2-adapter '{"type": "native_plugin", "module_path": "folio_kv.lmcache", "class_name":
"Connector", "adapter_params": {"model": ..., "dtype": ..., "disk": ..., "disk_bytes": ...}}'`.
Importing this needs no LMCache.
"""

from .connector import Connector
from .versions import ENGINE

__all__ = ["Connector", "capabilities"]

capabilities = ENGINE.refusals
