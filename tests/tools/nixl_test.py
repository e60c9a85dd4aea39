# SPDX-License-Identifier: Apache-2.0
"""tests/tools/nixl_test.py: tools/nixl.sh lets pass what no machine can help, and fails for the rest; tools/engines.py tells the two apart
by pip's words, here about a package index of the test's own.
"""

import contextlib
import functools
import http.server
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
STAND_IN = "#!/bin/sh\n[ -z \"$FOLIO_STATUS\" ] || exit \"$FOLIO_STATUS\"\ncommand -v python3\n"
WHEEL = "nixl_cu13-1.5.1-{}.whl"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Tree(unittest.TestCase):
    """A folder with the script, and tools/engines.py or what stands in for it."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name in ("tools/nixl.sh", "tools/engines.py", "python/engines/nixl.txt"):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.root / name)
        self.link = self.root / "build/nixl"

    def run_script(self, *options, **environment):
        """(exit status, what it says)"""
        done = subprocess.run([self.root / "tools/nixl.sh", *options], env={**os.environ, "CI": "", **environment}, capture_output=True,
                              text=True, check=False)
        return done.returncode, done.stdout + done.stderr


class Script(Tree):
    def setUp(self):
        super().setUp()
        (self.root / "tools/engines.py").write_text(STAND_IN)

    def test_where_nixl_is_there_build_leads_to_it(self):
        self.assertEqual(self.run_script("--require", FOLIO_STATUS=""), (0, ""))
        self.assertTrue(self.link.is_dir())

    def test_no_package_and_no_index_skip_the_tests_unless_nixl_is_required(self):
        for status, why in (("3", "there is no package for this platform or Python"), ("4", "the package index cannot be reached")):
            self.link.parent.mkdir(exist_ok=True)
            self.link.symlink_to(self.root)  # of an earlier list
            self.assertEqual(self.run_script(FOLIO_STATUS=status), (0, f"tools/nixl.sh: no NIXL: {why}; its tests skip themselves\n"))
            self.assertFalse(self.link.is_symlink())
            required = (1, f"tools/nixl.sh: no NIXL: {why}, and it is required here\n")
            self.assertEqual(self.run_script("--require", FOLIO_STATUS=status), required)
            self.assertEqual(self.run_script(CI="true", FOLIO_STATUS=status), required)

    def test_any_other_failure_is_one(self):
        for status in ("1", "2", "77"):
            self.assertEqual(self.run_script(FOLIO_STATUS=status), (1, "tools/nixl.sh: NIXL could not be installed\n"))

    def test_another_option_is_refused(self):
        self.assertEqual(self.run_script("--require-it", FOLIO_STATUS="")[0], 2)


class Engines(Tree):
    """With the real tools/engines.py, and pip."""

    @contextlib.contextmanager
    def index(self, *wheels):
        """The address of one that has these files of the package, none of which is a wheel inside."""
        for project, files in (("pip", ["pip-1.0-py3-none-any.whl"]), ("nixl-cu13", wheels)):
            page = self.root / "index" / project / "index.html"
            page.parent.mkdir(parents=True)
            page.write_text("<!DOCTYPE html><html><body>" + "".join(f'<a href="{file}">{file}</a>' for file in files) + "</body></html>")
            for file in files:
                (page.parent / file).write_text("no archive")
        handler = functools.partial(Quiet, directory=self.root / "index")
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield f"http://127.0.0.1:{server.server_port}"
            server.shutdown()

    def said_of(self, index):
        return self.run_script(PIP_INDEX_URL=index, PIP_RETRIES="0", PIP_CONFIG_FILE=os.devnull, PIP_EXTRA_INDEX_URL="", PIP_NO_INDEX="",
                               PIP_FIND_LINKS="", NO_PROXY="127.0.0.1", XDG_CACHE_HOME=str(self.root / "cache"))

    def test_an_index_without_a_package_for_this_platform_is_told_from_none(self):
        with self.index(WHEEL.format("cp311-cp311-win32")) as address:
            code, said = self.said_of(address)
            self.assertEqual(code, 0, said)
            self.assertIn("no NIXL: there is no package for this platform or Python; its tests", said)
        code, said = self.said_of(address)  # where nobody answers any more
        self.assertEqual(code, 0, said)
        self.assertIn("no NIXL: the package index cannot be reached; its tests", said)

    def test_a_package_that_cannot_be_installed_is_a_failure(self):
        with self.index(WHEEL.format("py3-none-any")) as address:
            code, said = self.said_of(address)
        self.assertEqual(code, 1, said)
        self.assertIn("NIXL could not be installed", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
