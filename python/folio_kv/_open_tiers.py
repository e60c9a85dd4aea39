# SPDX-License-Identifier: Apache-2.0
"""The tiers that a configuration names, by the keys that all of folio's plug-ins share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from folio_kv import tiers
from folio_kv._options import Options
from folio_kv.errors import Error

__all__ = ["Opened", "open_tiers"]

_MIB = 1 << 20
_BELONG = (
    ("disk_bytes", "disk", "a directory"),
    ("segment_bytes", "disk", "a directory"),
    ("redis_bytes", "redis", "a URL"),
    ("ttl_s", "redis", "a URL"),
)
# Engines bound what is under way themselves: a plug-in's call waits, or its engine counts memory.
_QUEUE = {"max_queued_bytes": 1 << 50, "max_queued_pages": 1 << 18}


@dataclass
class Opened:
    """Tiers by name, in the order in which they are asked: host, disk, redis.

    find_wait_ms: how long a find may wait for the answers of a Redis; 0 without one.
    """

    tiers: dict[str, tiers.Tier] = field(default_factory=dict)
    find_wait_ms: int = 0

    @property
    def segment_bytes(self) -> int:
        """What a page of a directory must fit; 0 without one."""
        disk = self.tiers.get("disk")
        return disk.segment_bytes if isinstance(disk, tiers.DiskTier) else 0

    def describe(self) -> str:
        """What there is, for a line of a log."""
        said = []
        for name, tier in self.tiers.items():
            pages = tier.figures()["pages"]
            said.append(name if name == "redis" else f"{name} ({pages} pages there)")
        return ", ".join(said)


def open_tiers(
    options: Options,
    fingerprint: bytes,
    *,
    least: int = 1,
    most: int = 3,
    folder: Callable[[str], str] = str,
    has_disk: bool = True,
) -> Opened:
    """Reads the keys of tiers, the last that `options` may have, and opens those that they name.

    least, most: tiers that there may be. folder: from the directory given to the one that this process
    has. has_disk: false where a directory is given and is not for this process. Raises Error,
    nothing left open then.
    """
    host_bytes = options.size("host_bytes", 0, 0)
    disk, redis = options.text("disk"), options.text("redis")
    disk_bytes = options.size("disk_bytes", 0, 2 * _MIB)
    segment = options.size("segment_bytes", 0, _MIB)
    redis_bytes = options.size("redis_bytes", 1 << 40)
    ttl_s = options.whole("ttl_s", 0, 0, 2**31 - 1)
    find_wait_ms = options.whole("find_wait_ms", 100, 0, 10_000)
    threads = options.whole("threads", 2, 1, 64)
    options.end()
    wanted = {"disk": disk, "redis": redis, "host_bytes": host_bytes}
    given = [key for key, value in wanted.items() if value]
    for key, of, place in _BELONG:
        if options.has(key) and not options.has(of):
            raise options.wrong(of, f"{place}, as {key} is given", None)
    if len(given) < least:
        raise options.wrong("disk", "a directory, or one of the keys redis and host_bytes", None)
    if len(given) > most:
        raise options.wrong(given[1], f"{most} of disk, redis and host_bytes", " and ".join(given))
    if disk and not disk_bytes:
        raise options.wrong("disk_bytes", 'the bytes of the directory, such as "100GiB"', None)
    if disk and 2 * segment > disk_bytes:
        raise options.wrong("segment_bytes", f"at most half of disk_bytes {disk_bytes}", segment)
    common: dict[str, Any] = dict(fingerprint=fingerprint, threads=threads, **_QUEUE)
    makers: dict[str, Callable[[], tiers.Tier]] = {}
    if host_bytes:
        makers["host_bytes"] = functools.partial(tiers.HostTier, host_bytes, **common)
    if disk and has_disk:
        of_disk = dict(common, segment_bytes=segment)
        makers["disk"] = functools.partial(tiers.DiskTier, folder(disk), disk_bytes, **of_disk)
    if redis:
        of_redis = dict(common, ttl_s=ttl_s, unknown="asked", ask_wait_ms=find_wait_ms)
        makers["redis"] = functools.partial(tiers.RedisTier, redis, redis_bytes, **of_redis)
    return _open(options.face, makers, find_wait_ms if redis else 0)


def _open(face: str, makers: dict[str, Callable[[], tiers.Tier]], find_wait_ms: int) -> Opened:
    opened = Opened(find_wait_ms=find_wait_ms)
    for key, make in makers.items():
        try:
            opened.tiers[key.removesuffix("_bytes")] = make()
        except Error as error:
            for tier in opened.tiers.values():
                tier.close()
            again = type(error)(f"{face}: {key}: {' '.join(str(error).split())}")
            again.code = error.code
            raise again from None
    return opened
