# SPDX-License-Identifier: Apache-2.0
"""Several tiers as one place, which an engine stores to and loads from by calls that wait.

The caller's memory is the engine's, which gives it to other pages when a call has returned: so a
call returns when nothing touches the memory any more, and not before.
"""

from __future__ import annotations

import functools
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from folio_kv import tiers
from folio_kv._open_tiers import Opened
from folio_kv.errors import Error

__all__ = ["Stores"]

_MOST_PAGES = 1 << 14  # of one call of a tier
_BETWEEN_FAULTS_S = 10.0


class Stores:
    """Tiers in the order in which they are asked: host, disk, Redis. Threads: any."""

    def __init__(
        self,
        opened: Opened,
        *,
        load_timeout_ms: int,
        store_timeout_ms: int,
        logger: logging.Logger,
    ) -> None:
        self._tiers = opened.tiers
        self._load_timeout_ms = load_timeout_ms
        self._store_timeout_ms = store_timeout_ms
        self._logger = logger
        self._faults: Counter[tuple[str, str]] = Counter()
        self._told = 0.0

    def close(self) -> None:
        """Ends the tiers; later calls find nothing."""
        for tier in self._tiers.values():
            tier.close()
        self._tiers.clear()

    def figures(self) -> dict[str, dict[str, Any]]:
        """Of each tier, as `Tier.figures` has them."""
        return {name: tier.figures() for name, tier in self._tiers.items()}

    def find_each(self, names: Sequence[bytes]) -> list[bool]:
        """Of each whether it is in one of the tiers. A Redis is asked what is not known: what it
        has not answered in `find_wait_ms` counts as not there."""
        there = [False] * len(names)
        for name, tier in list(self._tiers.items()):
            left = [i for i, is_there in enumerate(there) if not is_there]
            if not left:
                break
            asked = [names[i] for i in left]
            try:
                if name == "redis":
                    tier.find(asked)  # waits for the server's answers
                found = tier.find_each(asked)
            except Error:  # closed meanwhile
                continue
            for i, is_there in zip(left, found):
                there[i] = is_there
        return there

    def load(
        self, names: Sequence[bytes], where: object, pages: Sequence[int] | None = None
    ) -> list[bool]:
        """Of each whether its bytes are in the caller's memory now; of others anything may be there.
        where, pages: as of Tier.load."""
        there = [False] * len(names)
        end = time.monotonic() + self._load_timeout_ms / 1000
        for name, tier in list(self._tiers.items()):
            left = [i for i, is_there in enumerate(there) if not is_there]
            if not left:
                break
            for some in _pieces(left):
                left_ms = max(1, int(1000 * (end - time.monotonic())))
                asked = [names[i] for i in some], *_part(where, pages, some)
                start = functools.partial(tier.load, *asked, deadline_ms=left_ms)
                outcomes = self._wait(name, tier, start, len(some), -1)
                for i, outcome in zip(some, outcomes):
                    there[i] = outcome == "done"
        return there

    def store(
        self,
        names: Sequence[bytes],
        where: object,
        pages: Sequence[int] | None = None,
        parents: Sequence[bytes | None] | None = None,
    ) -> list[bool]:
        """Of each whether one of the tiers has it now. As `load`; parents: as of Tier.store."""
        done = [False] * len(names)
        for name, tier in list(self._tiers.items()):
            for some in _pieces(range(len(names))):
                asked = [names[i] for i in some], *_part(where, pages, some)
                before = None if parents is None else [parents[i] for i in some]
                start = functools.partial(tier.store, *asked, parents=before)
                outcomes = self._wait(name, tier, start, len(some), self._store_timeout_ms)
                for i, outcome in zip(some, outcomes):
                    done[i] = done[i] or outcome == "done"
        return done

    def drop_all(self) -> None:
        """Drops every page that the tiers know of."""
        for tier in list(self._tiers.values()):
            tier.drop(tier.names())

    def _wait(
        self,
        name: str,
        tier: tiers.Tier,
        start: Callable[[], tiers.Transfer],
        count: int,
        timeout_ms: int,
    ) -> list[str]:
        """The outcomes of a transfer, once nothing touches its memory."""
        try:
            transfer = start()
        except Error as error:
            self._tell(name, {"refused": count}, str(error))
            return ["failed"] * count
        try:
            if not transfer.wait(timeout_ms):
                transfer.cancel()
        finally:
            transfer.wait()  # also for KeyboardInterrupt: the memory is the engine's
        outcomes = transfer.outcomes
        bad = Counter(o for o in outcomes if o not in ("done", "missing"))
        if bad:
            self._tell(name, bad, tier.last_fault())
        return outcomes

    def _tell(self, name: str, bad: dict[str, int], why: str) -> None:
        """One line of the log at most in ten seconds, of all that went wrong meanwhile."""
        for outcome, count in bad.items():
            self._faults[name, outcome] += count
        if self._told and time.monotonic() - self._told < _BETWEEN_FAULTS_S:
            return
        self._told = time.monotonic()
        said = ", ".join(f"{n} pages {outcome} ({of})" for (of, outcome), n in self._faults.items())
        self._faults.clear()
        self._logger.warning("folio: %s%s", said, f": {why}" if why else "")


def _pieces(indices: Sequence[int]) -> list[Sequence[int]]:
    return [indices[i : i + _MOST_PAGES] for i in range(0, len(indices), _MOST_PAGES)]


def _part(where: Any, pages: Sequence[int] | None, some: Sequence[int]) -> tuple[Any, ...]:
    """`where` and `pages` of some of the names."""
    if pages is None:
        return ([where[i] for i in some],)
    return where, [pages[i] for i in some]
