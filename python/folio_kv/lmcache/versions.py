# SPDX-License-Identifier: Apache-2.0
"""What folio leans on in LMCache: how its L2 adapter calls a native client."""

from __future__ import annotations

import logging

from folio_kv._engine import Engine, names, parameters, version_of

__all__ = ["ENGINE", "capabilities", "refuse_unknown"]

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


def capabilities() -> dict[str, str]:
    """What of folio the installed LMCache can have, with "" or the reason why it is refused."""
    import lmcache

    return ENGINE.refusals(version_of(lmcache))


def refuse_unknown() -> None:
    """Raises Unsupported where Connector's hooks are not the known ones; warns of a newer version."""
    import lmcache

    ENGINE.expect("Connector", version_of(lmcache), logging.getLogger("folio_kv.lmcache"))
