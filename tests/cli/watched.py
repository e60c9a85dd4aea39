# SPDX-License-Identifier: Apache-2.0
"""tests/cli/watched.py: engines and metrics for `folio watch` to follow, and what recordings of engines say, by other means."""

import collections
import http.server
import json
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest

STREAMS = pathlib.Path(__file__).parent.parent / "tier" / "events" / "streams"
LONG = 60  # seconds until a test has failed

# What is ignored where tests run, as under nohup, would be ignored by what they start.
for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP):
    if signal.getsignal(ending) == signal.SIG_IGN:
        signal.signal(ending, signal.SIG_DFL)


def recording(name):
    return str(STREAMS / f"streams_{name}.jsonl")


class Engine:
    """tests/cli/watch/engine.cpp, at endpoints that are given, or free ones."""

    def __init__(self, program, endpoints=()):
        self.process = subprocess.Popen([program, *endpoints], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.endpoint = self.process.stdout.readline().strip()
        self.replay = self.process.stdout.readline().strip()

    def tell(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def payload(self, events):
        self.tell("payload", pack([1.5, events, 0]).hex())

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def pack(value):
    """msgpack of the few kinds that tests need."""
    if value is None:
        return b"\xc0"
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, int):
        return b"\xcf" + value.to_bytes(8, "big")
    if isinstance(value, (str, bytes)):
        raw = value.encode() if isinstance(value, str) else value
        return b"\xdb" + len(raw).to_bytes(4, "big") + raw
    if isinstance(value, dict):
        return b"\xdf" + len(value).to_bytes(4, "big") + b"".join(pack(k) + pack(v) for k, v in value.items())
    return b"\xdd" + len(value).to_bytes(4, "big") + b"".join(map(pack, value))


def stored(name, parent=None, medium="GPU", tokens=16):
    return {"type": "BlockStored", "block_hashes": [name], "parent_block_hash": parent, "token_ids": [1] * tokens, "block_size": tokens,
            "medium": medium}


def removed(name, medium="GPU"):
    return {"type": "BlockRemoved", "block_hashes": [name], "medium": medium}


class Oracle:
    """What is where after the first `most` batches of a recording: copies of names, and parents."""

    def __init__(self, name, most=None):
        self.copies, self.parents, self.batches = collections.Counter(), {}, 0
        with open(recording(name), encoding="utf-8") as file:
            for line in map(json.loads, file):
                if "batch" not in line or self.batches == most:
                    continue
                self.batches += 1
                for event in line["batch"]:
                    self.take(event)

    def take(self, event):
        if event["type"] == "AllBlocksCleared":
            self.copies.clear()
            self.parents.clear()
            return
        group, medium = event.get("group_idx") or 0, event.get("medium") or "GPU"
        names = [name % 2**64 for name in event["block_hashes"]]
        if event["type"] == "BlockRemoved":
            for name in names:
                key = (name, group, medium)
                if self.copies[key] > 0:
                    self.copies[key] -= 1
            return
        before = event["parent_block_hash"]
        is_whole = len(names) * event["block_size"] == event["token_ids"]
        for name in names:
            if not any(self.copies[(name, group, other)] for other in self.media()):
                self.parents.pop((name, group), None)
            self.copies[(name, group, medium)] += 1
            if is_whole and before is not None:
                self.parents[(name, group)] = before % 2**64
            before = name

    def media(self):
        return {medium for _, _, medium in self.copies}

    def there(self):
        return {key for key, copies in self.copies.items() if copies > 0}

    def names(self):
        return {(name, group) for name, group, _ in self.there()}

    def in_media(self):
        return collections.Counter(medium for _, _, medium in self.there())

    def prefixes(self, group):
        """(trees, endings, longest) of a group."""
        names = {name for name, of in self.names() if of == group}
        parent = {name: self.parents.get((name, group)) for name in names}
        inner = {parent[name] for name in names if parent[name] in names}

        def depth(name):
            count = 1
            while parent[name] in names:
                name, count = parent[name], count + 1
            return count

        return sum(parent[name] not in names for name in names), len(names - inner), max(map(depth, names), default=0)


class MetricsServer:
    """Answers every request with `status` and `body`."""

    def __init__(self, body="", status=200):
        self.body, self.status, self.asked = body, status, 0
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked += 1
                body = outer.body.encode() if isinstance(outer.body, str) else outer.body
                self.send_response(outer.status)
                self.end_headers()
                try:
                    self.wfile.write(body)
                except OSError:
                    pass  # the reader has had enough

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/metrics"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def counters(hits, queries):
    return f'vllm:prefix_cache_queries_total{{engine="0"}} {queries}\nvllm:prefix_cache_hits_total{{engine="0"}} {hits}\n'


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def comes_true(condition, what="it"):
    deadline = time.monotonic() + LONG
    while time.monotonic() < deadline:
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError(f"{what} did not come true")


class Watching:
    """`folio watch` that runs on: its JSON lines, read as they come."""

    def __init__(self, tool, *arguments, **how):
        command = [tool, "watch", *map(str, arguments), "--interval-ms", "100"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **how)

    def until(self, condition):
        """The first line for which it holds."""
        deadline = time.monotonic() + LONG
        line = ""
        while time.monotonic() < deadline:
            line = self.process.stdout.readline()
            if not line:
                raise AssertionError(f"ended: {self.process.stderr.read()}")
            figures = json.loads(line)
            if condition(figures):
                return figures
        raise AssertionError(f"not within {LONG} s: {line}")

    def end(self, number=signal.SIGINT):
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=LONG)
        return self.process.returncode, out, err


class WatchTest(unittest.TestCase):
    """With ENGINE, the program, and TOOLS in the calling module."""

    def engine(self, *endpoints):
        engine = Engine(sys.modules["__main__"].ENGINE, endpoints)
        self.addCleanup(engine.close)
        return engine

    def metrics(self, *arguments):
        server = MetricsServer(*arguments)
        self.addCleanup(server.close)
        return server

    def watching(self, *arguments, **how):
        watching = Watching(sys.modules["__main__"].TOOLS[0], *arguments, **how)

        def close():
            watching.process.kill()
            watching.process.wait()
            watching.process.stdout.close()
            watching.process.stderr.close()

        self.addCleanup(close)
        return watching

    def once(self, *arguments, code=0):
        tool = sys.modules["__main__"].TOOLS[0]
        command = [tool, "watch", *map(str, arguments), "--once", "--json-lines", "--wait-ms", str(1000 * LONG)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=2 * LONG)
        self.assertEqual(done.returncode, code, done.stderr)
        return json.loads(done.stdout) if code == 0 else done.stderr


def page_address(process):
    """Where a page is served, by what the tool says on standard error."""
    line = process.stderr.readline()
    assert "the page is at http://127.0.0.1:" in line, line
    return line.split()[-1]
