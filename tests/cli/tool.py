# SPDX-License-Identifier: Apache-2.0
"""tests/cli/tool.py: runs `folio replay`, writes traces, and makes random ones.

Each test program takes the path of the tool as its last argument (test builds of the tool: all of them, in a fixed order).
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

TOKENS_PER_BLOCK = 512
DEADLY_SIGNALS_AND_SANITIZERS = (66, 77)  # exit codes of TSan; ASan uses 1 and prints, see Outcome


class Outcome:
    def __init__(self, code, out, err, figures):
        self.code, self.out, self.err, self.figures = code, out, err, figures

    def crashed(self):
        return self.code < 0 or self.code in DEADLY_SIGNALS_AND_SANITIZERS or "Sanitizer" in self.err or "runtime error" in self.err


def replay(tool, trace, *options, json_path=None, user=None):
    """Runs the tool, as another user if one is given; figures is the JSON it wrote, or None."""
    with tempfile.TemporaryDirectory() as folder:
        path = json_path or os.path.join(folder, "figures.json")
        command = [tool, "replay", str(trace), "--quiet", "--json", path, *map(str, options)]
        # Waiting threads sleep: where other tests want the cores too, spinning ones cost far more than the tiny steps of a test.
        environment = dict(os.environ, OMP_WAIT_POLICY="passive")
        done = subprocess.run(command, capture_output=True, text=True, timeout=800, check=False, env=environment, user=user)
        figures = None
        if done.returncode in (0, 1) and os.path.isfile(path) and os.path.getsize(path) > 0:
            with open(path, encoding="utf-8") as file:
                figures = json.load(file)
        return Outcome(done.returncode, done.stdout, done.stderr, figures)


def write_trace(path, requests):
    with open(path, "w", encoding="utf-8") as file:
        for request in requests:
            file.write(json.dumps(request) + "\n")
    return path


def request(ids, input_length, output_length=1, timestamp=0):
    return {"timestamp": timestamp, "input_length": input_length, "output_length": output_length, "hash_ids": ids}


def random_trace(rng, requests, most_blocks=12, most_outputs=8):
    """Requests that share prefixes: an id stands for all that is in front of it, so each id has one parent."""
    children, made, trace = {}, 0, []
    for timestamp in range(requests):
        ids = []
        for _ in range(rng.randint(1, most_blocks)):
            siblings = children.setdefault(ids[-1] if ids else None, [])
            if not siblings or rng.random() < 0.4:
                siblings.append(made)
                made += 1
            ids.append(rng.choice(siblings))
        # A partial last block is another block than the full one, so its length follows from its id.
        last = random.Random(ids[-1]).choice([1, 100, 511, 512, 512, 512])
        length = (len(ids) - 1) * TOKENS_PER_BLOCK + last
        trace.append(request(ids, length, rng.randint(0, most_outputs), timestamp))
    return trace


def main(number_of_tools=1):
    """Runs the tests of the calling module with the tools from the command line."""
    tools = sys.argv[-number_of_tools:]
    del sys.argv[-number_of_tools:]
    sys.modules["__main__"].TOOLS = tools
    unittest.main(verbosity=2)
