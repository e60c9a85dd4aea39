# SPDX-License-Identifier: Apache-2.0
"""What was found of one type of cache."""

from __future__ import annotations

import dataclasses

__all__ = ["Outcome"]


@dataclasses.dataclass
class Outcome:
    """Figures, or why there are none. engine: as CacheType has it."""

    name: str
    engine: str
    figures: dict[str, float] = dataclasses.field(default_factory=dict)
    refused: str = ""
