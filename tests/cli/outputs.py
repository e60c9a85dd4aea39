# SPDX-License-Identifier: Apache-2.0
"""tests/cli/outputs.py: every command of the tool, as its own help lists them, with a call that shows and writes something."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

import tool
import watched

OLDER = b"what was there before"
FILE_OPTIONS = ("--json", "--report", "--metrics")
INPUTS = {("watch",): ("--metrics",)}  # commands that read what others write


def tool_path():
    return sys.modules["__main__"].TOOLS[0]


def run(command, stdout=subprocess.PIPE, **how):
    environment = dict(os.environ, OMP_WAIT_POLICY="passive")
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, timeout=600, env=environment, **how)


def in_shell(redirection, command, **how):
    return run(["sh", "-c", f'exec "$@" {redirection}', "sh", *command], **how)


class Outputs(unittest.TestCase):
    """A folder with a trace, and a disk tier's directory beside it."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root, self.folder = folder.name, os.path.join(folder.name, "folder")
        os.mkdir(self.folder)
        self.trace = tool.write_trace(os.path.join(self.root, "trace"), [tool.request([i, i + 1], 1024, 0) for i in range(0, 20, 2)])
        self.disk = os.path.join(self.root, "disk")
        self.blocks = ("--sequential", "--page-per-block", "--compute", "none", "--pages", "4")
        self.tier = ("--disk", self.disk, "--disk-bytes", "200GiB")
        done = run([tool_path(), "replay", self.trace, *self.blocks, *self.tier])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.calls = {
            ("replay",): (self.trace, *self.blocks),
            ("plan-capacity",): (self.trace, "--pages", "4"),
            ("cache", "ls"): (self.disk, "--names"),
            ("cache", "check"): (self.disk,),
            ("cache", "compact"): (self.disk,),
            ("watch",): ("--metrics", self.engine_metrics(), "--once"),
            ("transfer-bench",): ("--pages", "1", "--rounds", "1", "--page-bytes", "8"),
        }

    def engine_metrics(self):
        server = watched.MetricsServer(watched.counters(1, 2))
        self.addCleanup(server.close)
        return server.url

    def help_of(self, path):
        return run([tool_path(), *path, "--help"]).stdout

    def commands(self, path=()):
        """All of them, those of others too, as words."""
        listed = self.help_of(path).partition("\nSubcommands:\n")[2]
        below = [path + (name,) for name in re.findall(r"^  (\S+)", listed, re.MULTILINE)]
        return [path, *(command for found in below for command in self.commands(found))]

    def each_call(self):
        """(command, call) of all commands that do something by themselves."""
        commands = self.commands()
        for command in commands:
            if any(other[:-1] == command for other in commands):
                continue
            self.assertIn(command, self.calls, "a command without a call in this test")
            call = [tool_path(), *command, *self.calls[command]]
            if command in INPUTS and "this build has no" in run(call).stderr:
                continue
            yield command, call

    def path(self, name):
        return os.path.join(self.folder, name)

    def put(self, name):
        with open(self.path(name), "wb") as file:
            file.write(OLDER)
        return self.path(name)

    def read(self, path):
        with open(path, "rb") as file:
            return file.read()

    def expect(self, done, code, *words):
        self.assertEqual(done.returncode, code, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def options_of(self, command, call):
        """The files that a command can write here: by its help, and by what this build has."""
        for option in FILE_OPTIONS:
            if option not in re.findall(r"--\w+", self.help_of(command)) or option in INPUTS.get(command, ()):
                continue
            done = run([*call, option, os.devnull])
            if done.returncode == 0:
                yield option
                continue
            self.expect(done, 2, option)
            self.assertRegex(done.stderr, "this build has no|was built without")
