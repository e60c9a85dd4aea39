# SPDX-License-Identifier: Apache-2.0
"""What is counted over the scored tokens of a text, beside a reference."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

__all__ = ["Tally", "log_probabilities"]

ROWS = 16  # at once: what is computed of them stays in a processor's cache


@dataclasses.dataclass
class Tally:
    """Sums over rows of logits, of a type of cache and of the reference at the same positions."""

    nll: list[np.ndarray] = dataclasses.field(default_factory=list)
    change: list[np.ndarray] = dataclasses.field(default_factory=list)
    kl: list[np.ndarray] = dataclasses.field(default_factory=list)
    flips: list[np.ndarray] = dataclasses.field(default_factory=list)

    def add(self, logits: np.ndarray, exact: np.ndarray, targets: np.ndarray) -> None:
        """logits: [rows, vocabulary], float32; exact: log probabilities, the reference's; targets:
        [rows], the tokens that follow."""
        for at in range(0, len(targets), ROWS):
            part = slice(at, at + ROWS)
            self._add(log_probabilities(logits[part]), exact[part], targets[part])

    def _add(self, own: np.ndarray, exact: np.ndarray, targets: np.ndarray) -> None:
        at = np.arange(len(targets)), targets
        self.nll.append(-own[at].astype(np.float64))
        self.change.append(-own[at].astype(np.float64) + exact[at])
        self.flips.append(own.argmax(-1) != exact.argmax(-1))
        np.subtract(exact, own, out=own)
        self.kl.append(np.einsum("ij,ij->i", np.exp(exact), own, dtype=np.float64))

    def figures(self) -> dict[str, float]:
        """Means; errors are the standard errors of means of differences at the same tokens."""
        if not self.nll:
            return {}
        nll, change, kl, flips = (
            np.concatenate(x) for x in (self.nll, self.change, self.kl, self.flips)
        )
        return {
            "scored": len(nll),
            "perplexity": math.exp(nll.mean()),
            "change": float(change.mean()),
            "change_error": _error(change),
            "kl": float(kl.mean()),
            "kl_error": _error(kl),
            "flips": float(flips.mean()),
        }


def log_probabilities(logits: np.ndarray) -> np.ndarray:
    """Of each row; sums in double."""
    logs = np.empty_like(logits)
    for at in range(0, len(logits), ROWS):
        part = logs[at : at + ROWS]
        np.subtract(logits[at : at + ROWS], logits[at : at + ROWS].max(-1, keepdims=True), out=part)
        part -= np.log(np.exp(part).sum(-1, keepdims=True, dtype=np.float64)).astype(np.float32)
    return logs


def _error(x: np.ndarray) -> float:
    return float(x.std(ddof=1) / len(x) ** 0.5) if len(x) > 1 else math.nan
