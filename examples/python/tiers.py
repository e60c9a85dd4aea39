# SPDX-License-Identifier: Apache-2.0
"""An engine that is started again and finds its prompts: their pages lie in a directory.

python tiers.py [DIRECTORY]

Runs the same engine in two processes, one after the other. The first computes a prompt; its pages
go down to a DiskTier. The second loads them, computes the last page alone, and gets the same
output, bit for bit. The "model" has random weights, the same in both processes.
"""

import subprocess
import sys
import tempfile
import time

import numpy as np

import folio_kv
from folio_kv import tiers

PAGES, PAGE_SIZE, LAYERS, HEADS, KV_HEADS, HEAD_SIZE = 128, 16, 4, 8, 2, 64
WIDTH = HEADS * HEAD_SIZE
SYSTEM_PROMPT = [7 * token % 1009 for token in range(1000)]  # what many requests begin with


class Model:
    """Attention after attention over projections of the rows; no more is needed here."""

    def __init__(self):
        rng = np.random.default_rng(0)
        widths = (HEADS + 2 * KV_HEADS) * HEAD_SIZE
        self.embeddings = rng.standard_normal((1009, WIDTH), np.float32)
        self.weights = rng.standard_normal((LAYERS, WIDTH, widths), np.float32) / WIDTH**0.5
        self.kind = folio_kv.Kind(q_heads=HEADS)

    def run(self, step, cache, tokens):
        """Writes K and V of the tokens; the last one's output."""
        x = self.embeddings[tokens]
        for layer in range(LAYERS):
            rows = np.concatenate([row[None] @ self.weights[layer] for row in x])
            q, k, v = np.split(rows.reshape(len(x), -1, HEAD_SIZE), [HEADS, HEADS + KV_HEADS], 1)
            x = x + step(self.kind, cache[layer], q, k, v).reshape(len(x), WIDTH)
        return x[-1]


class Engine:
    """Serves one request at a time. Everything but the tier is as without one."""

    def __init__(self, directory):
        self.model = Model()
        self.pool = folio_kv.PagePool(
            PAGES, PAGE_SIZE, name=folio_kv.Sha256Names(), max_io_pins=PAGES
        )
        self.cache = folio_kv.KVCache(
            LAYERS, PAGES, PAGE_SIZE, kv_heads=KV_HEADS, head_size=HEAD_SIZE, dtype="bf16"
        )
        # Stands for all that the bytes depend on: another model's pages are never served.
        fingerprint = b"example 1: seed 0, bf16, HND"
        self.disk = tiers.DiskTier(
            directory, 64 << 20, segment_bytes=4 << 20, fingerprint=fingerprint
        )
        self.manager = tiers.CacheManager(self.pool, self.cache, [self.disk])

    def serve(self, prompt):
        """The output behind the prompt, and how many of its tokens were found."""
        sequence = self.manager.admit(prompt).id
        while self.manager.load_state(sequence) == "loading":  # an engine steps others meanwhile
            self.manager.wait(timeout_ms=100)
            self.manager.poll()
        found = self.pool.length(sequence)  # loaded, or as far as that went: the rest is computed
        self.pool.reserve(sequence, len(prompt) - found)
        step = self.pool.step([sequence], [len(prompt) - found])
        output = self.model.run(step, self.cache, prompt[found:])
        self.manager.commit(sequence, prompt[found:])
        self.manager.release(sequence)  # its full pages go down to the tier
        self.manager.poll()
        return output, found

    def close(self):
        self.manager.close()  # waits for pages that are being stored
        self.disk.close()


def serve_once(directory, name):
    engine = Engine(directory)
    begin = time.monotonic()
    output, found = engine.serve([*SYSTEM_PROMPT, 1, 2, 3])
    milliseconds = 1000 * (time.monotonic() - begin)
    engine.close()
    print(f"{name}: {found} of {len(SYSTEM_PROMPT) + 3} tokens found, {milliseconds:.0f} ms")
    print(output.tobytes().hex(), file=sys.stderr)


def main(directory):
    outputs = []
    for name in ("first process", "second process"):
        run = subprocess.run(
            [sys.executable, __file__, directory, name], check=True, capture_output=True, text=True
        )
        print(run.stdout, end="")
        outputs.append(run.stderr.split()[-1])
    assert outputs[0] == outputs[1], "what was loaded is what was computed"
    print("the outputs are equal, bit for bit")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        serve_once(*sys.argv[1:])
    elif len(sys.argv) == 2:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(folder)
