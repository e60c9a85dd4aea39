# SPDX-License-Identifier: Apache-2.0
"""tests/cli/redis_test.py TRACE TOOL: replays over a Redis server that the test starts, and that ends with it."""

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import oracle
import tool

BLOCKS = ("--sequential", "--page-per-block", "--pages", "300")
PR_SET_PDEATHSIG = 1
DEADLINE_S = 600  # only for what hangs


class Server:
    def __init__(self, folder, *options):
        self.socket = os.path.join(folder, "redis.socket")
        libc = ctypes.CDLL(None)
        self.process = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", self.socket, "--save", "", "--dir", folder, *options],
                                        stdout=subprocess.DEVNULL, preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
        end = time.monotonic() + DEADLINE_S
        while not os.path.exists(self.socket):
            assert time.monotonic() < end and self.process.poll() is None, "redis-server does not start"
            time.sleep(0.01)

    def keys(self):
        done = subprocess.run(["redis-cli", "-s", self.socket, "DBSIZE"], capture_output=True, text=True, check=False)
        return int(done.stdout.split()[-1])

    def end(self):
        self.process.kill()
        self.process.wait()


class DyingWay:
    """A way to a server that ends, with the server, when so many bytes have come along it."""

    def __init__(self, path, server, bytes_left):
        self.socket, self.server, self.bytes_left = path, server, bytes_left
        self.lock = threading.Lock()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                there = socket.socket(socket.AF_UNIX)
                there.connect(self.server.socket)
                for pair in ((client, there), (there, client)):
                    threading.Thread(target=self.pass_on, args=pair, daemon=True).start()

    def pass_on(self, source, target):
        with contextlib.suppress(OSError):
            while (data := source.recv(1 << 16)) and self.lives(len(data)):
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def lives(self, count):
        with self.lock:
            self.bytes_left -= count
            if self.bytes_left < 0:
                self.server.end()
                self.close()
        return self.bytes_left >= 0

    def close(self):
        """Nobody comes along it any more."""
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)


@unittest.skipUnless(shutil.which("redis-server") and shutil.which("redis-cli"), "no redis-server (Debian: redis-server)")
class Redis(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def start(self, *options):
        server = Server(self.folder.name, *options)
        self.addCleanup(server.end)
        return server

    def replay(self, *options, code=0):
        outcome = tool.replay(TOOLS[0], SHIPPED_TRACE, *BLOCKS, *options)
        self.assertFalse(outcome.crashed(), outcome.err)
        self.assertEqual(outcome.code, code, outcome.err)
        return outcome

    def test_what_a_server_keeps_is_found_by_this_replay_and_the_next(self):
        server = self.start()
        url = "unix://" + server.socket
        endless = oracle.replay(oracle.read(SHIPPED_TRACE))["hit_tokens"]
        first = self.replay("--redis", url, "--host-bytes", "16GiB").figures["tiers"]
        self.assertEqual([tier["name"] for tier in first["below"]], ["host", "redis"])
        self.assertEqual(first["memory_tokens"] + sum(tier["hit_tokens"] for tier in first["below"]), endless)
        self.assertGreater(first["below"][1]["hit_tokens"], 0)
        self.assertEqual(server.keys(), first["below"][1]["stored_pages"])
        second = self.replay("--redis", url).figures["tiers"]
        self.assertEqual((second["computed_tokens"], second["below"][0]["stored_pages"]), (0, 0))

    def test_a_password_is_asked_for_and_shown_nowhere(self):
        server = self.start("--requirepass", "secret-word")
        self.assertIn("--redis: no answer: ", self.replay("--redis", "unix://" + server.socket, code=2).err)
        page = os.path.join(self.folder.name, "page.html")
        url = f"unix://:secret-word@{server.socket}"
        outcome = self.replay("--redis", url, "--limit", 100, "--report", page)
        self.assertGreater(outcome.figures["tiers"]["below"][0]["stored_pages"], 0)
        with open(page, encoding="utf-8") as file:
            self.assertNotIn("secret", file.read() + str(outcome.figures))

    def test_a_server_that_dies_makes_misses(self):
        server = self.start()
        way = DyingWay(os.path.join(self.folder.name, "way.socket"), server, 1 << 20)
        self.addCleanup(way.close)
        command = [TOOLS[0], "replay", SHIPPED_TRACE, *BLOCKS, "--redis", "unix://" + way.socket]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE_S)
        self.assertLess(way.bytes_left, 0)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("last fault: ", done.stdout)
        self.assertRegex(done.stdout, r"stores? failed|resting")


if __name__ == "__main__":
    SHIPPED_TRACE = sys.argv.pop(1)
    tool.main()
