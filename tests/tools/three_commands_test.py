#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/tools/three_commands_test.py: tools/three_commands.py runs what a document says, and lets
no engine pass that forgets, answers otherwise, does not end or does not start. The engines are made
up.
"""

import contextlib
import io
import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import three_commands  # noqa: E402

# Says what llama.cpp's server says of prompts that it has found. FAULT is one of the test's.
ENGINE = """
import http.server, json, os, pathlib, signal, sys, zlib
fault, kept, model = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
if fault == "start":
    sys.exit("no such option")
if fault == "end":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("model", model, file=sys.stderr, flush=True)
kept.mkdir(exist_ok=True)

class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_): pass
    def say(self, what):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(what).encode())
    def do_GET(self):
        self.say({"data": [{"id": "m"}]})
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = str(zlib.crc32(body["prompt"].encode()))
        file = kept / name
        if file.exists():
            print("folio_llama_cpp: restored 5 of 9 tokens in 1 ms", file=sys.stderr, flush=True)
        text = name + ("!" if fault == "answer" and file.exists() else "")
        if fault != "forget":
            file.touch()
        self.say({"choices": [{"text": text}]})

http.server.HTTPServer(("127.0.0.1", int(sys.argv[5])), Handler).serve_forever()
"""
DOCUMENT = """# A page

```sh
git clone <this repository> copy && cd copy
sh make.sh      # says the third
python3 engine.py {fault} PROMPTS \\
  MODEL.gguf --port {port}
```
"""


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


class ThreeCommands(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.port = free_port()

    def repository(self, printed):
        """A repository with an engine, a model, and make.sh, which prints a command."""
        files = {
            "engine.py": ENGINE,
            "make.sh": f"cat <<'END'\n{printed}\nEND\n",
            "tools/real_weights.py": "print('/models')\n",
        }
        path = self.folder / "repository"
        for name, text in files.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_text(text)
        git = ["git", "-C", path, "-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run([*git, "init", "-q"], check=True)
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "-qm", "all"], check=True)
        return path

    def outcome(self, fault, printed=None, text=None):
        """(exit status, what is said) of the tool over a document."""
        document = self.folder / "page.md"
        document.write_text(text or DOCUMENT.format(fault=fault, port=self.port))
        command = f"python3 engine.py {fault} PROMPTS MODEL.gguf --port {self.port}"
        repository, said = self.repository(printed or f"now:\n  {command}"), io.StringIO()
        words = ["three_commands.py", str(self.folder), str(repository), str(document), "--", "env"]
        with (
            mock.patch.object(sys, "argv", words),
            mock.patch.object(three_commands, "QUIET_SECONDS", 0.2),
            mock.patch.object(three_commands, "END_SECONDS", 2),
            contextlib.redirect_stdout(said),
        ):
            try:
                three_commands.main()
            except SystemExit as end:
                return 1, said.getvalue() + str(end.code)
        return 0, said.getvalue()

    def test_an_engine_that_finds_its_prompts_passes(self):
        status, said = self.outcome("none")
        self.assertEqual(status, 0, said)
        self.assertEqual(said.count(", 5 tokens found"), 2, said)
        self.assertEqual(said.count(", 0 tokens found"), 2, said)

    def test_what_an_engine_does_wrong_is_said(self):
        for fault, words in (
            ("forget", "expected tokens found after SIGTERM, got none"),
            ("answer", "expected the answer "),
            ("end", "it runs on 2 s after SIGTERM"),
            ("start", "it ended with status 1: no such option"),
        ):
            with self.subTest(fault), tempfile.TemporaryDirectory(dir=self.folder) as folder:
                before, self.folder = self.folder, pathlib.Path(folder)
                status, said = self.outcome(fault)
                self.folder = before
                self.assertEqual(status, 1, said)
                self.assertIn(words, said)

    def test_a_port_of_another_process_is_refused(self):
        with socket.create_server(("127.0.0.1", self.port)):
            status, said = self.outcome("none")
        self.assertEqual(status, 1, said)
        self.assertIn(f"port {self.port} is another process's", said)

    def test_the_second_command_prints_the_third(self):
        status, said = self.outcome("none", printed="python3 engine.py other")
        self.assertEqual(status, 1, said)
        self.assertIn("sh make.sh does not print the third command: python3 engine.py none", said)

    def test_a_document_without_commands_is_refused(self):
        status, said = self.outcome("none", text="```sh\ngit clone https://x y\n```\n")
        self.assertEqual(status, 1, said)
        self.assertIn("page.md has no commands that begin with `git clone <this repository>`", said)

    def test_the_projects_documents_have_commands_for_each_engine(self):
        wanted = {
            "engines": ["make vllm", "make llama-cpp"],
            "python_vllm": ["make vllm"],
            "llama_cpp": ["make llama-cpp"],
        }
        for name, makes in wanted.items():
            found = three_commands.blocks(ROOT / f"docs/{name}.md")
            kept = [block.make.partition("#")[0].strip() for block in found if block.is_kept]
            self.assertEqual(kept, makes, name)


if __name__ == "__main__":
    unittest.main()
