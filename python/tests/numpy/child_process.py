# SPDX-License-Identifier: Apache-2.0
"""python/tests/numpy/child_process.py: another process of a test, which runs a program."""

import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent

COMMON = """
import sys
import numpy as np
import folio_kv
from folio_kv import tiers
from tier_pages import MIB, PAGE_BYTES, name_of, page_of, say
"""


class Child:
    """A process that runs a program of COMMON and what is given, and is killed at the end."""

    def __init__(self, program, *arguments, before=()):
        command = [*before, sys.executable, "-c", COMMON + program, *map(str, arguments)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True, cwd=HERE
        )

    def line(self):
        words = self.process.stdout.readline().split()
        assert words, f"the process ended with {self.process.wait(20)}"
        return words

    def say(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(20)

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.kill()
        self.process.stdout.close()
        self.process.stdin.close()
