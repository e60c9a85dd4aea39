# SPDX-License-Identifier: Apache-2.0
"""kv_connector_extra_config, read and checked; the keys of tiers are `open_tiers`',
those of pages that are lent `Lending`'s."""

from __future__ import annotations

from dataclasses import dataclass

from folio_kv._options import Options

LOADS = ("auto", "layers", "between_steps")


@dataclass
class Configuration:
    """What FolioConnector is told beside tiers and lending."""

    load: str = "auto"
    """"layers": within the step that needs it, layer by layer; "between_steps": others run on;
    "auto": the first for a request that is alone, the second else."""
    load_timeout_ms: int = 10_000
    min_load_tokens: int = 1
    """A hit of fewer tokens is computed."""
    hit_interval: int = 2048
    """Of windows: what hits of multiples of so many tokens need is stored; 0: what hits at the end
    of a prompt and of a request need."""
    max_store_bytes: int = 1 << 30
    """Of blocks that wait to be stored."""
    model: str = ""
    """Stands for weights that lie at no path here."""

    @classmethod
    def read(cls, options: Options) -> Configuration:
        """Raises Error that names the key, what was expected and what came."""
        read = cls(
            load=options.text("load", cls.load),
            load_timeout_ms=options.whole("load_timeout_ms", cls.load_timeout_ms, 1, 3_600_000),
            min_load_tokens=options.whole("min_load_tokens", cls.min_load_tokens, 1, 1 << 31),
            hit_interval=options.whole("hit_interval", cls.hit_interval, 0, 1 << 31),
            max_store_bytes=options.size("max_store_bytes", cls.max_store_bytes),
            model=options.text("model"),
        )
        if read.load not in LOADS:
            raise options.wrong("load", f"one of {', '.join(LOADS)}", read.load)
        return read
