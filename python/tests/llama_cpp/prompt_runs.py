# SPDX-License-Identifier: Apache-2.0
"""Processes of llama-cpp-python that keep prompts (prompts_run.py), and what they say, compared.

The models have random float32 weights; logits of a prompt that is computed in other batches differ
in their last bits.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import subprocess
import sys
from typing import Any

import numpy as np

import folio_kv

PROGRAM = pathlib.Path(__file__).with_name("prompts_run.py")
PAGE = 64
COUNT = 12  # tokens that are generated behind a prompt
NEAR = 5e-3  # of the largest logit; another token in the prompt's last page makes 0.1 or more
Logits = list[dict[str, Any]]
Models = str | list[tuple[str, dict[str, Any]]]  # a path, or several with options of each
COMPUTED: dict[str, Logits] = {}
# What stands in a context: whole caches, windows and whole ones, a recurrent state, MLA.
KINDS = ("llama", "gemma3", "lfm2", "deepseek2")


def tokens(count: int, seed: int) -> list[int]:
    """Bytes as tokens; the same from one process to the next."""
    return [3 + random.Random(seed * 1000 + i).randrange(256) for i in range(count)]


SYSTEM, FIRST, SECOND = tokens(300, 1), tokens(410, 2), tokens(150, 3)
PROMPT, OTHER = SYSTEM + FIRST, SYSTEM + SECOND


class Runs:
    def __init__(self, sites: dict[str, pathlib.Path], folder: pathlib.Path) -> None:
        kv = pathlib.Path(folio_kv.__file__).parents[1]
        self.path = os.pathsep.join(str(site) for site in (*sites.values(), kv))
        self.folder, self.cache = folder, str(folder / "cache")

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("FOLIO_", "GGML_"))}
        environment |= {"PYTHONPATH": self.path, "XDG_CACHE_HOME": str(self.folder / "xdg")}
        return subprocess.Popen(
            [sys.executable, "-X", "faulthandler", *arguments],
            env=environment,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, models: Models, do: list[Any], **more: Any) -> tuple[Logits, str]:
        """What the steps wrote, and the log. more: of prompts_run.py, its cache among them."""
        return self.end(self.begin(models, do, **{"cache": self.cache, "bytes": "1GiB", **more}))

    def computed(self, models: Models, do: list[Any], **more: Any) -> Logits:
        """What the steps write without a cache: computed once in a session."""
        key = json.dumps([models, do, more])
        if key not in COMPUTED:
            COMPUTED[key], _ = self.end(self.begin(models, do, **more))
        return COMPUTED[key]

    def begin(self, models: Models, do: list[Any], **more: Any) -> subprocess.Popen[str]:
        models = [(models, {})] if isinstance(models, str) else models
        return self.start(str(PROGRAM), json.dumps({"models": models, "do": do, **more}))

    def end(self, process: subprocess.Popen[str]) -> tuple[Logits, str]:
        out, log = process.communicate(timeout=900)
        assert process.returncode == 0, log
        return [json.loads(line) for line in out.splitlines()], log


def same(found: Logits, expected: Logits) -> None:
    """Equal logits, as far as the greedy tokens go together: they part at ties alone."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        a, b = np.array(one["logits"]), np.array(other["logits"])
        assert a.shape == b.shape
        for row, (p, q) in enumerate(zip(a, b, strict=True)):
            assert np.abs(p - q).max() <= NEAR * np.abs(q).max(), row
            if one["tokens"][row] != other["tokens"][row]:
                top = np.sort(q)[-2:]
                assert top[1] - top[0] <= NEAR * np.abs(q).max()
                break


def restored(results: Logits) -> list[int]:
    """Of each step, how many tokens came from the store."""
    counts = [0] + [int(result["figures"]["restored_tokens"]) for result in results]
    return [b - a for a, b in zip(counts, counts[1:], strict=False)]
