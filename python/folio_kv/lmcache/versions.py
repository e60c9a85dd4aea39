# SPDX-License-Identifier: Apache-2.0
"""What folio leans on in LMCache: how its L2 adapter calls a native client."""

from __future__ import annotations

from folio_kv._engine import Engine, names, parameters

__all__ = ["ENGINE"]

_PLUGIN = "lmcache.v1.distributed.l2_adapters.native_plugin_l2_adapter"
_NATIVE = "lmcache.v1.distributed.l2_adapters.native_connector_l2_adapter"

ENGINE = Engine(
    "LMCache",
    oldest=(0, 5),
    newest=(0, 5),
    capabilities={
        "Connector": (
            names(_PLUGIN, "NativePluginL2AdapterConfig"),
            names(_NATIVE, "NativeConnectorL2Adapter"),
            parameters(
                _PLUGIN,
                "NativePluginL2AdapterConfig.__init__",
                "module_path class_name adapter_params max_capacity_gb",
            ),
        ),
    },
)
