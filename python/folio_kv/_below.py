# SPDX-License-Identifier: Apache-2.0
"""Tiers as one place for an engine that goes on meanwhile: the fastest that has a page gives it, and
what is stored goes to all of them. (`_stores` is that of an engine whose calls wait.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from folio_kv import tiers
from folio_kv.errors import Error

__all__ = ["Below", "Load", "Part", "Store", "new_counts"]


@dataclass
class Part:
    """Pages of one kind that a call moves."""

    arrays: tiers.PageArrays
    names: list[bytes]
    pages: list[int]
    parents: list[bytes | None] | None = None


class Load:
    """Pages that come, each from the first tier that has it. By layers for who works with them as
    they come: then what one tier loses is lost, else the next one is asked for it."""

    def __init__(
        self, below: Below, parts: Sequence[Part], places: Sequence[Sequence[int]], by_layers: bool
    ) -> None:
        self._below = below
        self._parts = parts
        self._by_layers = by_layers
        self._under_way: list[tuple[tiers.Transfer, int, int, list[int]]] = []
        self.failed: list[tuple[int, int]] = []
        """(part, index in it) of pages that did not come; whole once the load is done."""
        self.transfers: list[tuple[int, tiers.Transfer]] = []
        """(part, transfer) of the first call for each, for who asks how far it is."""
        for number, (part, at) in enumerate(zip(parts, places, strict=True)):
            for tier in sorted(set(at)):
                self._begin(number, tier, [i for i in range(len(part.names)) if at[i] == tier])
        self.transfers = [(part, transfer) for transfer, part, _, _ in self._under_way]

    def _begin(self, number: int, tier: int, wanted: list[int]) -> None:
        part = self._parts[number]
        if not 0 <= tier < len(self._below.tiers):
            self.failed += [(number, i) for i in wanted]
            return
        try:
            transfer = self._below.tiers[tier][1].load(
                [part.names[i] for i in wanted],
                part.arrays,
                [part.pages[i] for i in wanted],
                deadline_ms=self._below.load_timeout_ms,
                order="extents" if self._by_layers else "pages",
            )
        except Error:
            self._begin(number, tier + 1, wanted)
            return
        self._under_way.append((transfer, number, tier, wanted))

    @property
    def is_done(self) -> bool:
        """All pages have come, or nobody has them."""
        for call in list(self._under_way):
            transfer, number, tier, wanted = call
            if not transfer.is_done:
                continue
            self._under_way.remove(call)
            lost = [i for i, o in zip(wanted, transfer.outcomes, strict=True) if o != "done"]
            self._below.counts["loaded_pages"] += len(wanted) - len(lost)
            self._below.counts["lost_pages"] += len(lost)
            if self._by_layers:
                self.failed += [(number, i) for i in lost]
            elif lost:
                self._begin(number, tier + 1, lost)
        return not self._under_way

    def wait(self) -> None:
        """Until it is done; tiers end each page by its deadline."""
        while not self.is_done:
            self._under_way[0][0].wait(1000)

    def cancel(self) -> None:
        """What has not come is not waited for; is_done says when nothing is written any more."""
        for transfer, *_ in self._under_way:
            transfer.cancel()


class Store:
    """Pages on their way to tiers."""

    def __init__(self, below: Below, parts: Sequence[Part]) -> None:
        self._below = below
        self._under_way: list[tiers.Transfer] = []
        for tier in below.stores_to:
            for part in parts:
                self._begin(tier, part)

    def _begin(self, tier: tiers.Tier, part: Part) -> None:
        there = tier.find_each(part.names)
        new = [i for i, is_there in enumerate(there) if not is_there]
        if not new:
            return
        parents = part.parents
        try:
            self._under_way.append(
                tier.store(
                    [part.names[i] for i in new],
                    part.arrays,
                    [part.pages[i] for i in new],
                    parents=None if parents is None else [parents[i] for i in new],
                )
            )
        except Error:
            self._below.counts["unstored_pages"] += len(new)

    @property
    def is_done(self) -> bool:
        """Nothing reads the pages any more."""
        for transfer in [t for t in self._under_way if t.is_done]:
            self._under_way.remove(transfer)
            done = transfer.outcomes.count("done")
            self._below.counts["stored_pages"] += done
            self._below.counts["unstored_pages"] += len(transfer.names) - done
        return not self._under_way

    def wait(self, timeout_ms: int) -> bool:
        """Until it is done, or about so long; returns is_done."""
        for transfer in self._under_way:
            transfer.wait(timeout_ms)
        return self.is_done

    def cancel(self) -> None:
        """What has not been written is not."""
        for transfer in self._under_way:
            transfer.cancel()


def new_counts() -> dict[str, int]:
    """Of pages that were to be moved."""
    return dict(stored_pages=0, unstored_pages=0, loaded_pages=0, lost_pages=0)


class Below:
    """Tiers, the fastest first, as one place. One thread calls."""

    def __init__(self, opened: Mapping[str, tiers.Tier], load_timeout_ms: int) -> None:
        self.tiers = list(opened.items())
        self.stores_to = list(opened.values())
        self.load_timeout_ms = load_timeout_ms
        self.counts = new_counts()

    def find_each(self, names: Sequence[bytes]) -> list[int]:
        """Of each the first tier that has it, or -1."""
        places = [-1] * len(names)
        left = list(range(len(names)))
        for number, (_, tier) in enumerate(self.tiers):
            if not left:
                break
            there = tier.find_each([names[i] for i in left])
            for i, is_there in zip(left, there, strict=True):
                if is_there:
                    places[i] = number
            left = [i for i in left if places[i] < 0]
        return places

    def has_all(self, names: Sequence[bytes]) -> list[bool]:
        """Of each whether every tier has it that takes stores."""
        everywhere = [True] * len(names)
        for tier in self.stores_to:
            for i, is_there in enumerate(tier.find_each(names)):
                everywhere[i] = everywhere[i] and is_there
        return everywhere

    def load(
        self, parts: Sequence[Part], places: Sequence[Sequence[int]], by_layers: bool = False
    ) -> Load:
        """Begins to load; `places` is what find_each said of each part's names."""
        return Load(self, parts, places, by_layers)

    def store(self, parts: Sequence[Part]) -> Store:
        """Begins to store what tiers do not have."""
        return Store(self, parts)

    def drop_all(self) -> None:
        """Nothing of what the tiers know can be found any more."""
        for tier in self.stores_to:
            tier.drop(tier.names())

    def close(self, timeout_ms: int) -> None:
        """Waits for stores under way, so long at most, and ends the tiers."""
        for _, tier in self.tiers:
            tier.close(timeout_ms)
