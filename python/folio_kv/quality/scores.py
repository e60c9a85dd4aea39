# SPDX-License-Identifier: Apache-2.0
"""What is counted over the scored tokens of a text, beside a reference."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

__all__ = ["Tally"]


@dataclasses.dataclass
class Tally:
    """Sums over rows of logits, of a type of cache and of the reference at the same positions."""

    nll: list[np.ndarray] = dataclasses.field(default_factory=list)
    change: list[np.ndarray] = dataclasses.field(default_factory=list)
    kl: list[np.ndarray] = dataclasses.field(default_factory=list)
    flips: list[np.ndarray] = dataclasses.field(default_factory=list)

    def add(self, logits: np.ndarray, reference: np.ndarray, targets: np.ndarray) -> None:
        """logits, reference: [rows, vocabulary], float32; targets: [rows], the tokens that follow."""
        own, exact = log_probabilities(logits), log_probabilities(reference)
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
    shifted = logits - logits.max(-1, keepdims=True)
    sums = np.exp(shifted).sum(-1, keepdims=True, dtype=np.float64)
    shifted -= np.log(sums).astype(np.float32)
    return shifted


def _error(x: np.ndarray) -> float:
    return float(x.std(ddof=1) / len(x) ** 0.5) if len(x) > 1 else math.nan
