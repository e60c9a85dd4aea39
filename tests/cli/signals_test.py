# SPDX-License-Identifier: Apache-2.0
"""tests/cli/signals_test.py TOOL: a command that is ended by a signal leaves what was there, and nothing else."""

import os
import signal
import subprocess
import time

import outputs
import tool

SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGXCPU)


class Signals(outputs.Outputs):
    def start(self, *arguments, **how):
        """A command that takes days."""
        process = subprocess.Popen([TOOLS[0], *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **how)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def replay(self, *options, **how):
        """16 requests of a million tokens."""
        ids = list(range(2048))
        trace = tool.write_trace(os.path.join(self.root, "endless"), [tool.request(ids, 2048 * 512)] * 16)
        return self.start("replay", trace, "--layers", "1", "--q-heads", "1", "--kv-heads", "1", "--head-size", "8", *options, **how)

    def wait_for_parts(self, process, count):
        for _ in range(3000):
            if sum(name.endswith(".part") for name in os.listdir(self.folder)) == count:
                return
            self.assertIsNone(process.poll(), "it has ended")
            time.sleep(0.1)
        self.fail(f"{count} parts were expected, there are {os.listdir(self.folder)}")

    def expect_death(self, process, number):
        process.send_signal(number)
        self.assertEqual(process.wait(300), -number)

    def test_a_replay_leaves_old_files_and_no_parts(self):
        call = [TOOLS[0], "replay", self.trace, *self.blocks]
        options = list(self.options_of(("replay",), call))
        files = [word for option in options for word in (option, self.put(option))]
        for number in SIGNALS:
            with self.subTest(signal=number):
                process = self.replay(*files)
                self.wait_for_parts(process, len(options))
                self.expect_death(process, number)
                self.assertEqual(sorted(os.listdir(self.folder)), sorted(options))
                self.assertEqual({self.read(self.path(option)) for option in options}, {outputs.OLDER})

    def test_so_does_a_command_of_two_processes(self):
        process = self.start("transfer-bench", "--rounds", 2**20, "--json", self.path("new"))
        self.wait_for_parts(process, 1)
        self.expect_death(process, signal.SIGTERM)
        self.assertEqual(os.listdir(self.folder), [])

    def test_what_is_ignored_stays_ignored(self):
        process = self.replay("--json", self.put("file"), preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.wait_for_parts(process, 1)
        process.send_signal(signal.SIGHUP)  # would be taken first
        self.expect_death(process, signal.SIGTERM)
        self.assertEqual(os.listdir(self.folder), ["file"])


if __name__ == "__main__":
    tool.main()
