# SPDX-License-Identifier: Apache-2.0
"""Calls of `Connector`: as a native client, each waited for, and below LMCache's L2 adapter."""

from __future__ import annotations

import select
import time
from typing import Any

from lmcache.v1.distributed.l2_adapters import create_l2_adapter
from lmcache.v1.distributed.l2_adapters.native_plugin_l2_adapter import (
    NativePluginL2AdapterConfig,
)

MIB = 1 << 20
WAIT_S = 30


class Client:
    """The calls of a native client, each waited for."""

    def __init__(self, native: Any) -> None:
        self.native = native
        self.poller = select.poll()
        self.poller.register(native.event_fd(), select.POLLIN)

    def ended(self, *wanted: int) -> dict[int, tuple[bool, str, list[bool] | None]]:
        found: dict[int, tuple[bool, str, list[bool] | None]] = {}
        end = time.monotonic() + WAIT_S
        while not set(wanted) <= found.keys():
            assert time.monotonic() < end, f"{wanted} have not ended"
            self.poller.poll(1000)
            for number, is_ok, error, results in self.native.drain_completions():
                assert number not in found
                found[number] = is_ok, error, results
        return found

    def set(self, keys: list[str], contents: list[bytes]) -> bool:
        views = [memoryview(bytearray(content)) for content in contents]
        number = self.native.submit_batch_set(keys, views)
        is_ok, _, results = self.ended(number)[number]
        assert results is None
        return is_ok

    def get(self, keys: list[str], sizes: list[int]) -> list[bytes | None]:
        buffers = [bytearray(size) for size in sizes]
        number = self.native.submit_batch_get(keys, [memoryview(b) for b in buffers])
        _, _, results = self.ended(number)[number]
        assert results is not None and len(results) == len(keys)
        return [bytes(b) if is_there else None for b, is_there in zip(buffers, results)]

    def exists(self, keys: list[str]) -> list[bool]:
        number = self.native.submit_batch_exists(keys)
        is_ok, _, results = self.ended(number)[number]
        assert is_ok and results is not None
        return results

    def delete(self, keys: list[str]) -> list[bool]:
        number = self.native.submit_batch_delete(keys)
        is_ok, _, results = self.ended(number)[number]
        assert is_ok and results is not None
        return results


def config_of(params: dict[str, Any]) -> NativePluginL2AdapterConfig:
    return NativePluginL2AdapterConfig.from_dict(
        {
            "type": "native_plugin",
            "module_path": "folio_kv.lmcache",
            "class_name": "Connector",
            "adapter_params": params,
        }
    )


def open_adapter(params: dict[str, Any]) -> Any:
    return create_l2_adapter(config_of(params), None)
