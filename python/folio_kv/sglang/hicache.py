# SPDX-License-Identifier: Apache-2.0
"""`HiCache`: SGLang's third level of pages (`HiCacheStorage`) on folio's tiers.

SGLang names a page by a SHA-256 of its tokens and all before them, and moves it between its host
pools and the storage by calls that wait, in threads of its own. A page is one record of a tier for
each pool: its name is the digest of SGLang's, of the pool and of all on which the bytes depend.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from sglang.srt.mem_cache.hicache_storage import (
    HiCacheStorage,
    HiCacheStorageConfig,
    HiCacheStorageExtraInfo,
    PoolHitPolicy,
    PoolName,
    PoolTransfer,
    PoolTransferResult,
)

from folio_kv import tiers
from folio_kv._open_tiers import open_tiers
from folio_kv._options import Options
from folio_kv._stores import Stores
from folio_kv.errors import Unsupported

from .host_pool import HostPool
from .identity import identity_of

__all__ = ["HiCache"]

_SGLANGS = ("backend_name", "module_path", "class_name", "interface_v1")
_logger = logging.getLogger("folio_kv.sglang")


class HiCache(HiCacheStorage):
    """Pages of SGLang's host pools in the tiers that the configuration names. Threads: any.

    storage_config.extra_config: the options (docs/python_sglang.md). Raises Error, in one line that
    names the key, for options that mean nothing; nothing is left open then.
    """

    def __init__(self, storage_config: HiCacheStorageConfig, kwargs: object = None) -> None:
        config = storage_config
        given = {} if config.extra_config is None else config.extra_config
        options = Options("HiCache", given, ignored=_SGLANGS)
        # 1, SGLang's own key: pages go by batch_get_v1 and batch_set_v1, in place.
        in_place = given.setdefault("interface_v1", 1)
        if in_place not in (0, 1):
            raise options.wrong("interface_v1", "0 or 1", in_place)
        identity = identity_of(config, options.text("model"))
        if identity is None:
            raise options.wrong(
                "model",
                "a text that stands for the weights, which lie at no path here",
                None,
            )
        if config.dcp_size != 1:
            raise Unsupported(f"HiCache: dcp_size: expected 1, got {config.dcp_size}")
        is_split_mla = config.is_mla_model and config.tp_size > 1
        if is_split_mla and options.has("disk") and not options.has("redis"):
            raise options.wrong(
                "redis",
                "a URL beside disk: one rank of an MLA model stores for all, and a directory "
                "belongs to one process",
                None,
            )
        fingerprint = hashlib.sha256(_text_of(identity)).digest()
        self._config = config
        self._root = fingerprint
        self._pools: dict[str, HostPool] = {}
        self._prefixes: dict[str, Any] = {}
        self._kv = str(PoolName.KV) if in_place else "value"
        self._stats = _Stats(config.enable_storage_metrics)
        timeouts = {
            "load_timeout_ms": options.whole("load_timeout_ms", 10_000, 1, 3_600_000),
            "store_timeout_ms": options.whole("store_timeout_ms", 30_000, 1, 3_600_000),
        }
        opened = open_tiers(
            options,
            fingerprint,
            folder=lambda folder: folder + _folder_of_rank(config),
            has_disk=config.is_storage_writer or not is_split_mla,
        )
        self._segment_bytes = opened.segment_bytes
        self._stores = Stores(opened, **timeouts, logger=_logger)
        self._prefixes["value"] = self._prefix({"pool": "value"}, False)
        _logger.info("folio: HiCache keeps pages in %s", opened.describe())

    # ---- Host pools

    def register_mem_pool_host(self, mem_pool_host: Any) -> None:
        super().register_mem_pool_host(mem_pool_host)
        self._register(str(PoolName.KV), mem_pool_host)

    def register_mem_host_pool_v2(self, host_pool: Any, host_pool_name: Any) -> None:
        super().register_mem_host_pool_v2(host_pool, host_pool_name)
        self._register(str(host_pool_name), host_pool)

    def _register(self, name: str, pool: Any) -> None:
        known = HostPool(name, pool, self._config.is_mla_model)
        segment = self._segment_bytes
        if known.page_bytes and segment:
            record = tiers.record_bytes("disk", known.page_bytes)
            if record > segment:
                raise Unsupported(
                    f"HiCache: segment_bytes: expected {record} or more for a page of pool {name}, "
                    f"got {segment}"
                )
        self._prefixes[name] = self._prefix(known.geometry, known.is_replicated)
        self._pools[name] = known
        if name == str(PoolName.KV):
            of_values = {**known.geometry, "pool": "value"}
            self._prefixes["value"] = self._prefix(of_values, known.is_replicated)

    def _prefix(self, geometry: dict[str, Any], is_replicated: bool) -> Any:
        """Of the names of a pool's pages: a hash that has seen all but the page's own name."""
        config = self._config
        ranks = [config.pp_rank, config.pp_size, config.attn_cp_rank, config.attn_cp_size]
        if not is_replicated:
            ranks += [config.tp_rank, config.tp_size]
        return hashlib.sha256(self._root + _text_of({"ranks": ranks, **geometry}) + b"\0")

    def _names(self, pool: str, keys: Sequence[str]) -> list[bytes]:
        prefix = self._prefixes[pool]
        names = []
        for key in keys:
            name = prefix.copy()
            name.update(key.encode())
            names.append(name.digest())
        return names

    # ---- What is there

    def _there(self, pool: str, keys: Sequence[str]) -> list[bool]:
        return self._stores.find_each(self._names(pool, keys))

    def exists(self, key: str) -> bool:
        there = self._kv in self._prefixes and self._there(self._kv, [key])[0]
        return there or self._there("value", [key])[0]

    def batch_exists(
        self, keys: list[str], extra_info: HiCacheStorageExtraInfo | None = None
    ) -> int:
        known = self._pools.get(self._kv)
        if self._kv not in self._prefixes or (known is not None and known.is_logical):
            return 0
        return _leading(self._there(self._kv, keys))

    def batch_exists_v2(
        self,
        keys: list[str],
        pool_transfers: list[PoolTransfer] | None = None,
        extra_info: HiCacheStorageExtraInfo | None = None,
    ) -> PoolTransferResult:
        anchor = self._pools.get(str(PoolName.KV))
        is_logical = anchor is not None and anchor.is_logical
        kv = len(keys) if is_logical and pool_transfers else self.batch_exists(keys, extra_info)
        hits: dict[str, int] = {PoolName.KV: kv} if kv else {}
        restorable = set(range(1, kv + 1))
        for transfer in pool_transfers or ():
            if not restorable:
                break
            pool = str(transfer.name)
            there = self._there(pool, keys[:kv]) if pool in self._pools else [False] * kv
            ends = _ends(there, transfer)
            if ends:
                hits[transfer.name] = max(ends)
            restorable &= ends
        return PoolTransferResult(max(restorable, default=0), hits, sorted(restorable))

    # ---- Pages

    def batch_get_v1(
        self,
        keys: list[str],
        host_indices: torch.Tensor,
        extra_info: HiCacheStorageExtraInfo | None = None,
    ) -> list[bool]:
        return self._get(str(PoolName.KV), keys, host_indices)

    def batch_set_v1(
        self,
        keys: list[str],
        host_indices: torch.Tensor,
        extra_info: HiCacheStorageExtraInfo | None = None,
    ) -> list[bool]:
        return self._set(str(PoolName.KV), keys, host_indices, extra_info)

    def batch_get_v2(
        self,
        transfers: list[PoolTransfer],
        extra_info: HiCacheStorageExtraInfo | None = None,
    ) -> dict[str, list[bool]]:
        return {t.name: self._get(str(t.name), t.keys or [], t.host_indices) for t in transfers}

    def batch_set_v2(
        self,
        transfers: list[PoolTransfer],
        extra_info: HiCacheStorageExtraInfo | None = None,
    ) -> dict[str, list[bool]]:
        return {
            t.name: self._set(str(t.name), t.keys or [], t.host_indices, extra_info)
            for t in transfers
        }

    def _get(self, pool: str, keys: list[str], host_indices: torch.Tensor | None) -> list[bool]:
        def load(known: HostPool, pages: list[int]) -> list[bool]:
            names = self._names(pool, keys)
            return known.load(pages, lambda where, at: self._stores.load(names, where, at))

        return self._move("prefetch", pool, keys, host_indices, load)

    def _set(
        self,
        pool: str,
        keys: list[str],
        host_indices: torch.Tensor | None,
        extra_info: HiCacheStorageExtraInfo | None,
    ) -> list[bool]:
        def store(known: HostPool, pages: list[int]) -> list[bool]:
            names = self._names(pool, keys)
            parents: list[bytes | None] | None = None
            if pool == str(PoolName.KV):  # keys of others lie apart
                before = getattr(extra_info, "prefix_keys", None) or []
                parents = [*(self._names(pool, before[-1:]) or [None]), *names[:-1]]
            return known.store(
                pages, lambda where, at: self._stores.store(names, where, at, parents)
            )

        return self._move("backup", pool, keys, host_indices, store)

    def _move(
        self,
        kind: str,
        pool: str,
        keys: list[str],
        host_indices: torch.Tensor | None,
        move: Callable[[HostPool, list[int]], list[bool]],
    ) -> list[bool]:
        """What `move` did for each key."""
        known = self._pools.get(pool)
        if not keys or known is None:
            return [False] * len(keys)
        began = time.perf_counter()
        try:
            done = move(known, known.pages_of(host_indices, len(keys)))
        except ValueError as error:
            _logger.error("folio: %s: the pages count as missing", error)
            return [False] * len(keys)
        self._stats.note(kind, began, done, known.page_bytes)
        return done

    # ---- Values: what SGLang moves by copies, where interface_v1 is 0

    def get(
        self, key: str, target_location: Any | None = None, target_sizes: Any | None = None
    ) -> torch.Tensor | None:
        return self.batch_get([key], [target_location], target_sizes)[0]

    def batch_get(
        self,
        keys: list[str],
        target_locations: Any | None = None,
        target_sizes: Any | None = None,
    ) -> list[torch.Tensor | None]:
        targets = target_locations or [None] * len(keys)
        _expect_tensors("target_locations", targets, len(keys))
        places = [target.contiguous() for target in targets]
        there = self._stores.load(self._names("value", keys), [_bytes_of(p) for p in places])
        for target, place, is_there in zip(targets, places, there):
            if is_there and place is not target:
                target.copy_(place)
        return [target if is_there else None for target, is_there in zip(targets, there)]

    def set(
        self,
        key: str,
        value: Any | None = None,
        target_location: Any | None = None,
        target_sizes: Any | None = None,
    ) -> bool:
        return self.batch_set([key], [value])

    def batch_set(
        self,
        keys: list[str],
        values: Any | None = None,
        target_locations: Any | None = None,
        target_sizes: Any | None = None,
    ) -> bool:
        given = values or [None] * len(keys)
        _expect_tensors("values", given, len(keys))
        arrays = [_bytes_of(value.contiguous()) for value in given]
        return all(self._stores.store(self._names("value", keys), arrays))

    # ---- The rest

    def clear(self) -> None:
        """Drops all pages that the tiers know of, those of other models in the directory too."""
        self._stores.drop_all()

    def get_stats(self) -> Any:
        """SGLang's StorageMetrics since the last call; None without --enable-metrics."""
        return self._stats.take()

    def figures(self) -> dict[str, dict[str, Any]]:
        """Of each tier, as `folio_kv.tiers.Tier.figures` has them."""
        return self._stores.figures()

    def close(self) -> None:
        """Ends the tiers; pages are missing from then on."""
        self._stores.close()


class _Stats:
    """Pages and GB/s of each call, as SGLang's StorageMetrics wants them."""

    def __init__(self, is_wanted: bool) -> None:
        self._is_wanted = is_wanted
        self._calls: dict[str, list[tuple[int, float]]] = {"prefetch": [], "backup": []}

    def note(self, kind: str, began: float, done: list[bool], page_bytes: int) -> None:
        if self._is_wanted:
            seconds = max(time.perf_counter() - began, 1e-9)
            self._calls[kind].append((len(done), sum(done) * page_bytes / seconds / 1e9))

    def take(self) -> Any:
        if not self._is_wanted:
            return None
        from sglang.srt.observability.metrics_collector import StorageMetrics

        metrics = StorageMetrics()
        for kind, calls in self._calls.items():
            taken, self._calls[kind] = calls, []
            getattr(metrics, f"{kind}_pgs").extend(pages for pages, _ in taken)
            getattr(metrics, f"{kind}_bandwidth").extend(rate for _, rate in taken)
        return metrics


def _leading(there: Sequence[bool]) -> int:
    return next((i for i, is_there in enumerate(there) if not is_there), len(there))


def _ends(there: Sequence[bool], transfer: PoolTransfer) -> set[int]:
    """Lengths of prefixes that have what the pool needs of them, by its hit policy."""
    if transfer.hit_policy == PoolHitPolicy.ALL_PAGES:
        return set(range(1, _leading(there) + 1))
    if transfer.hit_policy == PoolHitPolicy.TRAILING_PAGES:
        window = max(1, len(transfer.keys or ()))
        return {end for end in range(1, len(there) + 1) if all(there[max(0, end - window) : end])}
    came = transfer.hit_policy
    raise Unsupported(f"HiCache: hit_policy: expected all_pages or trailing_pages, got {came}")


def _expect_tensors(argument: str, came: Sequence[Any], count: int) -> None:
    if len(came) != count or not all(isinstance(tensor, torch.Tensor) for tensor in came):
        raise Unsupported(f"HiCache: {argument}: expected {count} tensors, got {came!r:.80}")


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(-1).view(torch.uint8)


def _text_of(identity: dict[str, Any]) -> bytes:
    return json.dumps(identity, sort_keys=True).encode()


def _folder_of_rank(config: HiCacheStorageConfig) -> str:
    """Of the directory: a process of several has one of its own."""
    parts = [("dp", config.dp_rank, 1)]
    parts += [("pp", config.pp_rank, config.pp_size), ("tp", config.tp_rank, config.tp_size)]
    parts += [("cp", config.attn_cp_rank, config.attn_cp_size)]
    named = [f"{part}{rank}" for part, rank, size in parts if rank or size > 1]
    return "/" + "-".join(named) if named else ""
