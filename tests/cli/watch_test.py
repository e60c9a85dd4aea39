# SPDX-License-Identifier: Apache-2.0
"""tests/cli/watch_test.py ENGINE PUBLISHER TOOL: `folio watch` follows engines and says what they have, whatever comes.

ENGINE plays recordings of vLLM and SGLang, PUBLISHER (tests/tier/events/event_program.cpp) is folio's own.
"""

import fcntl
import http.client
import json
import os
import pathlib
import pty
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import time
import urllib.parse

import tool
import watched
from watched import counters, recording, removed, stored


class Streams(watched.WatchTest):
    def expect_same(self, figures, oracle):
        self.assertEqual(figures["names"], len(oracle.names()))
        self.assertGreater(figures["names"], 2)
        self.assertEqual({medium["name"]: medium["names"] for medium in figures["media"] if medium["names"]}, dict(oracle.in_media()))
        for group in figures["groups"]:
            self.assertEqual(group["names"], sum(of == group["group"] for _, of in oracle.names()))
            self.assertEqual(group["tokens"], group["names"] * group["block_size"])
        prefixes = figures["prefixes"]
        self.assertEqual((prefixes["trees"], prefixes["endings"], prefixes["longest"]), oracle.prefixes(prefixes["group"]))
        self.assertEqual(figures["stream"]["refused_events"] + figures["stream"]["malformed"], 0)

    def test_recorded_engines_have_what_a_count_by_hand_has(self):
        for name in ("vllm_plain", "vllm_gemma2", "vllm_gemma3", "vllm_mamba", "vllm_sizes", "sglang"):
            with self.subTest(engine=name):
                oracle, engine = watched.Oracle(name), self.engine()
                engine.tell("play", recording(name), oracle.batches)
                figures = self.once(engine.endpoint, "--replay", engine.replay)
                self.expect_same(figures, oracle)
                self.assertEqual(figures["stream"]["link"], "current")
                self.assertEqual(figures["stream"]["next_batch"], oracle.batches)
                self.assertEqual(figures["warnings"], [])

    def test_what_comes_later_and_what_was_missed_is_shown(self):
        engine = self.engine()
        engine.tell("play", recording("vllm_plain"), 3)
        watching = self.watching(engine.endpoint, "--replay", engine.replay, "--json-lines")
        figures = watching.until(lambda figures: figures["stream"]["next_batch"] == 3)
        self.assertEqual(figures["stream"]["stored_a_second"], 0, "that was before")
        engine.tell("miss", recording("vllm_plain"), 2)
        engine.tell("play", recording("vllm_plain"), 2)
        figures = watching.until(lambda figures: figures["stream"]["next_batch"] == 7 and figures["stream"]["link"] == "current")
        self.assertEqual(figures["stream"]["gaps"], 1)
        self.assertEqual(figures["stream"]["lost_batches"], 0)
        self.expect_same(figures, watched.Oracle("vllm_plain", 7))
        engine.tell("skip", 3)
        engine.tell("play", recording("vllm_plain"), 1)
        figures = watching.until(lambda figures: figures["stream"]["next_batch"] == 11 and figures["stream"]["link"] == "current")
        self.assertEqual(figures["stream"]["lost_batches"], 3)
        self.assertIn("3 batches were lost: names may be missing, or be gone", figures["warnings"])

    def test_who_comes_late_says_what_is_not_shown(self):
        engine = self.engine()
        engine.tell("play", recording("vllm_plain"), 4)
        for replay in ((), ("--replay", engine.replay)):
            engine.tell("forget")
            watching = self.watching(engine.endpoint, *replay, "--json-lines")
            figures = watching.until(lambda figures: figures["stream"]["link"] == "waiting")
            self.assertIsNone(figures["stream"]["silent_s"])
            engine.tell("play", recording("vllm_plain"), 1)
            figures = watching.until(lambda figures: figures["stream"]["next_batch"] > 4)
            first = figures["stream"]["next_batch"] - 1
            self.assertGreaterEqual(first, 4)
            self.assertEqual(figures["stream"]["earlier_batches"], first)
            self.assertIn("batches came before the first one", figures["warnings"][0])
            self.assertEqual("--replay" in figures["warnings"][0], not replay)

    def test_an_engine_that_goes_and_comes_again_is_followed(self):
        engine = self.engine()
        watching = self.watching(engine.endpoint, "--json-lines")
        watching.until(lambda figures: figures["stream"]["link"] == "waiting")
        engine.tell("play", recording("sglang"), 5)
        watching.until(lambda figures: figures["stream"]["next_batch"] == 5)
        engine.close()
        figures = watching.until(lambda figures: figures["stream"]["link"] == "gone")
        self.assertRegex(figures["stream"]["state"], r"gone for \d+ s, trying again")
        self.assertGreater(figures["names"], 0, "what was known is shown, and said to be old")
        again = self.engine(engine.endpoint, engine.replay)
        watching.until(lambda figures: figures["stream"]["link"] == "current")
        again.tell("play", recording("vllm_plain"), 2)
        figures = watching.until(lambda figures: figures["stream"]["restarts"] == 1)
        self.expect_same(figures, watched.Oracle("vllm_plain", 2))
        self.assertIn("the engine began anew, 1 times so far", figures["warnings"])

    def test_folios_own_publisher_is_followed(self):
        if PUBLISHER.startswith("--"):
            self.skipTest("this build has no publisher's program")
        with subprocess.Popen([PUBLISHER, "publish", "maps", "bytes"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as publisher:
            self.addCleanup(publisher.kill)
            endpoint, replay = publisher.stdout.readline().strip(), publisher.stdout.readline().strip()
            watching = self.watching(endpoint, "--replay", replay, "--json-lines", "--topic", "kv@pod")
            watching.until(lambda figures: figures["stream"]["link"] in ("current", "waiting"))
            for line in ("go", "go", "tier"):
                publisher.stdin.write(line + "\n")
                publisher.stdin.flush()
                self.assertEqual(publisher.stdout.readline(), "done\n")
            figures = watching.until(lambda figures: len(figures["media"]) == 2)
            self.assertEqual([medium["name"] for medium in figures["media"]], ["GPU", "CPU"])
            self.assertEqual(figures["media"][1]["names"], 1)
            self.assertGreater(figures["media"][0]["names"], 1)
            self.assertEqual(figures["prefixes"]["block_size"], 4)
            publisher.stdin.close()

    def test_another_topic_is_not_followed(self):
        engine = self.engine()
        watching = self.watching(engine.endpoint, "--topic", "kv@other", "--json-lines")
        watching.until(lambda figures: figures["stream"]["link"] == "waiting")
        engine.tell("play", recording("vllm_plain"), 5)
        other = self.watching(engine.endpoint, "--topic", "kv@te", "--json-lines")
        other.until(lambda figures: figures["stream"]["link"] == "waiting")
        engine.tell("play", recording("vllm_plain"), 5)
        other.until(lambda figures: figures["stream"]["next_batch"] == 10)
        figures = watching.until(lambda figures: True)
        self.assertEqual(figures["stream"]["batches"], 0)

    def test_what_is_no_batch_is_counted_and_names_are_bounded(self):
        engine = self.engine()
        watching = self.watching(engine.endpoint, "--json-lines", "--max-names", 100)
        watching.until(lambda figures: figures["stream"]["link"] == "waiting")
        engine.tell("payload", "c1")
        engine.payload([{"type": "BlockStored"}, {"type": "Other"}, stored(1)])
        for first in range(0, 1000, 50):
            engine.payload([stored(name + 1, name or None) for name in range(first, first + 50)])
        figures = watching.until(lambda figures: figures["stream"]["batches"] == 21)
        self.assertEqual([figures["stream"][name] for name in ("malformed", "refused_events", "ignored_events")], [1, 1, 1])
        self.assertEqual(figures["names"], 100)
        self.assertEqual(figures["stream"]["untaken_names"], 900)
        self.assertIn("900 names were not taken: more than --max-names, or media", figures["warnings"])

    def test_what_goes_is_not_shown(self):
        engine = self.engine()
        watching = self.watching(engine.endpoint, "--json-lines")
        watching.until(lambda figures: figures["stream"]["link"] == "waiting")
        engine.payload([stored(1), stored(2, 1), stored(1, None, "CPU")])
        figures = watching.until(lambda figures: figures["stream"]["stored_a_second"] > 0)
        self.assertEqual((figures["names"], figures["stream"]["removed_a_second"]), (2, 0))
        engine.payload([removed(1), removed(2)])
        watching.until(lambda figures: figures["stream"]["removed_a_second"] > 0)
        figures = watching.until(lambda figures: figures["names"] == 1)
        self.assertEqual([medium["names"] for medium in figures["media"]], [0, 1])
        self.assertEqual([figures["stream"][name] for name in ("stored_copies", "removed_copies")], [3, 2])
        engine.payload([{"type": "AllBlocksCleared"}])
        watching.until(lambda figures: figures["names"] == 0 and figures["prefixes"]["trees"] == 0)


class Metrics(watched.WatchTest):
    def test_hits_are_those_since_the_watch_began(self):
        server = self.metrics(counters(90, 100))
        watching = self.watching("--metrics", server.url, "--json-lines")
        figures = watching.until(lambda figures: figures["metrics"]["caches"])
        self.assertEqual(figures["stream"]["link"], "none")
        self.assertIsNone(figures["metrics"]["caches"][0]["rate"])
        server.body = counters(91, 104)
        figures = watching.until(lambda figures: figures["metrics"]["caches"][0]["queries"] == 104)
        self.assertEqual(figures["metrics"]["caches"][0]["rate"], 0.25)
        server.body = counters(1, 4)  # began anew
        figures = watching.until(lambda figures: figures["metrics"]["caches"][0]["queries"] == 4)
        self.assertEqual(figures["metrics"]["caches"][0]["rate"], 0.25)
        self.assertEqual(figures["warnings"], [])

    def test_what_is_no_metrics_is_said_and_asked_again(self):
        server = self.metrics("<html>\x1b[31m</html>")
        watching = self.watching("--metrics", server.url, "--json-lines")
        figures = watching.until(lambda figures: figures["metrics"]["fault"])
        self.assertEqual(figures["metrics"]["fault"], "no Prometheus text: line 1 is '<html>?[31m</html>', expected a metric's name")
        server.status, server.body = 404, ""
        watching.until(lambda figures: figures["metrics"]["fault"] == "the server answers with status 404, expected 200")
        server.status, server.body = 302, ""
        watching.until(lambda figures: "302" in figures["metrics"]["fault"])
        server.status, server.body = 200, "# " + "x" * (17 << 20)
        watching.until(lambda figures: figures["metrics"]["fault"] == "the answer has more than 16 MiB, expected a Prometheus text")
        server.body = "up 1\n"
        figures = watching.until(lambda figures: not figures["metrics"]["fault"])
        self.assertEqual(figures["warnings"], ["--metrics: none of 1 samples is of a known cache"])
        server.close()
        watching.until(lambda figures: "connect" in figures["metrics"]["fault"])

    def test_a_login_is_used_and_not_shown(self):
        server = self.metrics(counters(1, 2))
        url = server.url.replace("://", "://user:secret@")
        figures = self.once("--metrics", url)
        self.assertEqual(figures["metrics"]["url"], server.url)
        self.assertNotIn("secret", json.dumps(figures))

    def test_events_and_metrics_are_watched_together(self):
        engine, server = self.engine(), self.metrics(counters(1, 2) + "vllm:num_requests_running 3\n")
        engine.tell("play", recording("vllm_plain"), 5)
        figures = self.once(engine.endpoint, "--replay", engine.replay, "--metrics", server.url)
        self.assertGreater(figures["names"], 0)
        self.assertEqual(figures["metrics"]["caches"][0]["hits"], 1)
        self.assertEqual(figures["metrics"]["readings"], [{"name": "requests running", "metric": "vllm:num_requests_running",
                                                           "is_share": False, "value": 3}])


class CommandLine(watched.WatchTest):
    def run_watch(self, *arguments):
        return subprocess.run([TOOLS[0], "watch", *map(str, arguments)], capture_output=True, text=True, check=False, timeout=watched.LONG)

    def test_what_cannot_be_is_refused_by_name(self):
        here = "tcp://127.0.0.1:1"
        for arguments, reason in (
            ((), "expected ENDPOINT or --metrics URL, got neither"),
            (("x",), "endpoint is x, expected tcp://HOST:PORT"),
            (("tcp://127.0.0.1:99999",), "PORT 0 .. 65535"),
            (("http://127.0.0.1:5557",), "endpoint is http://127.0.0.1:5557"),
            (("",), "endpoint"),
            ((here, "--replay", "x"), "replay_endpoint is x"),
            ((here, "--topic", "x" * 1025), "topic has 1025 bytes"),
            (("--replay", here, "--metrics", "http://127.0.0.1:1/"), "--replay and --topic are of ENDPOINT, got none"),
            ((here, "--metrics", "ftp://x"), "got 'ftp://x', expected http://HOST:PORT/metrics"),
            ((here, "--metrics", "http://a b"), "--metrics"),
            ((here, "--interval-ms", "99"), "--interval-ms"),
            ((here, "--max-names", "0"), "--max-names"),
            ((here, "--page", "65536"), "--page"),
            ((here, "--page", "--once"), "expected one of them"),
            ((here, "--json", "/no/such/file"), "--json: cannot write /no/such/file"),
        ):
            with self.subTest(arguments=arguments):
                done = self.run_watch(*arguments)
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                self.assertIn(reason, done.stderr)
                self.assertNotIn("\x1b", done.stderr)

    def test_where_nobody_is_once_says_so(self):
        port = watched.free_port()
        done = self.run_watch(f"tcp://127.0.0.1:{port}", "--once", "--wait-ms", 100)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr, f"folio watch: nobody answers at tcp://127.0.0.1:{port} (waited 100 ms)\n")
        done = self.run_watch("--metrics", f"http://127.0.0.1:{port}/metrics", "--once", "--wait-ms", 100)
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, f"nobody answers at http://127.0.0.1:{port}/metrics(: .*)? \\(waited 100 ms\\)\n$")
        watching = self.watching(f"tcp://127.0.0.1:{port}", "--json-lines")
        watching.until(lambda figures: figures["stream"]["state"] == "nobody answers, trying again")
        engine = self.engine(f"tcp://127.0.0.1:{port}")
        watching.until(lambda figures: figures["stream"]["link"] == "waiting")
        engine.tell("play", recording("vllm_plain"), 1)
        watching.until(lambda figures: figures["names"] > 0)

    def test_once_shows_a_screen_and_writes_a_file(self):
        engine = self.engine()
        engine.tell("play", recording("vllm_gemma3"), 10**6)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "figures.json")
            done = self.run_watch(engine.endpoint, "--replay", engine.replay, "--once", "--wait-ms", 1000 * watched.LONG, "--json", path)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(path, encoding="utf-8") as file:
                figures = json.load(file)
        for word in ("events    current", f"names     {figures['names']:,}", "prefixes", "window", figures["prefixes"]["largest"][0]["root"]):
            self.assertIn(word, done.stdout)
        self.assertNotIn("\x1b", done.stdout)

    def test_lines_go_on_until_a_signal_and_the_file_has_the_last(self):
        engine = self.engine()
        with tempfile.TemporaryDirectory() as folder:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                path = os.path.join(folder, str(number))
                watching = self.watching(engine.endpoint, "--json", path)
                self.assertRegex(watching.process.stdout.readline(), r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC  \w")
                code, _, err = watching.end(number)
                self.assertEqual((code, err), (-number, ""))
                with open(path, encoding="utf-8") as file:
                    self.assertIn("stream", json.load(file))

    def test_it_ends_where_nobody_reads(self):
        engine = self.engine()
        watching = self.watching(engine.endpoint)
        watching.process.stdout.readline()
        watching.process.stdout.close()
        self.assertEqual(watching.process.wait(watched.LONG), 2)
        self.assertIn("standard output: cannot write", watching.process.stderr.read())


class Terminal(watched.WatchTest):
    def setUp(self):
        self.engine_ = self.engine()
        self.main, side = pty.openpty()
        self.addCleanup(os.close, self.main)
        environment = dict(os.environ, TERM="xterm", LC_ALL="C.UTF-8")
        self.process = subprocess.Popen([TOOLS[0], "watch", self.engine_.endpoint, "--interval-ms", "100"], stdin=side, stdout=side, stderr=side,
                                        start_new_session=True, env=environment, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.addCleanup(self.process.wait)
        self.addCleanup(self.process.kill)
        os.close(side)
        self.text = ""

    def read(self):
        try:
            self.text += os.read(self.main, 1 << 16).decode("utf-8", "replace")
        except OSError:  # the other side is closed
            return False
        return True

    def read_until(self, word, begin=0):
        deadline = time.monotonic() + watched.LONG
        while word not in self.text[begin:]:
            self.assertTrue(self.read(), self.text[-2000:])
            self.assertLess(time.monotonic(), deadline, self.text[-2000:])

    def test_control_c_leaves_the_terminal_as_it_was(self):
        self.read_until("nothing told yet")
        self.engine_.payload([stored(1, None, "\x1b]0;owned\x07"), stored(2, 1)])
        self.read_until("?]0;owned?")
        self.read_until("▁")
        self.assertNotIn("\x1b]0;", self.text)
        self.assertIn("\x1b[?1049h\x1b[?25l", self.text)
        os.write(self.main, b"\x03")
        self.assertEqual(self.process.wait(watched.LONG), -signal.SIGINT)
        while self.read():
            pass
        head, _, tail = self.text.rpartition("\x1b[?25h\x1b[?1049l")
        self.assertTrue(head)
        self.assertIn("names     2", tail, "what was last seen stays to be read")
        self.assertNotIn("\x1b", tail)

    def test_control_z_gives_the_terminal_back_for_a_while(self):
        self.read_until("nothing told yet")
        os.write(self.main, b"\x1a")
        self.read_until("\x1b[?1049l")
        status = pathlib.Path(f"/proc/{self.process.pid}/stat")
        watched.comes_true(lambda: status.read_text(encoding="utf-8").split(") ")[1][0] == "T", "stopping")
        begin = len(self.text)
        self.process.send_signal(signal.SIGCONT)
        self.read_until("\x1b[?1049h", begin)
        self.read_until("nothing told yet", begin)


class Server(watched.WatchTest):
    def setUp(self):
        self.engine_ = self.engine()
        self.watching_ = self.watching(self.engine_.endpoint, "--page", "--quiet")
        self.address = watched.page_address(self.watching_.process)
        self.port = urllib.parse.urlparse(self.address).port

    def ask(self, method="GET", path="/", host=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=watched.LONG)
        connection.putrequest(method, path, skip_host=True)
        for one in [f"127.0.0.1:{self.port}"] if host is None else host:
            connection.putheader("Host", one)
        connection.endheaders()
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer, text

    def test_page_and_data_are_served_to_this_machine_alone(self):
        answer, page = self.ask()
        self.assertEqual((answer.status, answer.headers["Content-Type"]), (200, "text/html; charset=utf-8"))
        self.assertIn("<title>folio watch tcp://127.0.0.1:", page)
        self.assertIn("connect-src 'self'", page)
        for host in ("localhost", f"localhost:{self.port}", "LOCALHOST:9", "127.0.0.1"):
            answer, text = self.ask(path="/data", host=[host])
            self.assertEqual(answer.status, 200, host)
        self.assertIn("stream", json.loads(text))
        self.assertEqual(answer.headers["Cache-Control"], "no-store")
        self.assertIsNone(answer.headers["Access-Control-Allow-Origin"])
        for host in ("evil.example", f"evil.example:{self.port}", "127.0.0.1.evil.example", "localhost.", "", "127.0.0.1:80@evil", "[::1]"):
            answer, text = self.ask(path="/data", host=[host])
            self.assertIn(answer.status, (400, 403), host)
            self.assertNotIn("stream", text)
        self.assertIn(self.ask(host=[])[0].status, (400, 403))
        with self.assertRaises(OSError):
            socket.create_connection(("127.0.0.2", self.port), timeout=5)

    def test_nothing_else_is_served(self):
        for path in ("/data/", "/etc/passwd", "/../etc/passwd", "/%2e%2e/etc/passwd", "/page", "/x" * 4000):
            answer, text = self.ask(path=path)
            self.assertIn(answer.status, (400, 404, 414), path[:20])
            self.assertNotIn("root:", text)
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "PROPFIND"):
            self.assertIn(self.ask(method)[0].status, (400, 405, 501), method)
        answer, text = self.ask("HEAD")
        self.assertEqual((answer.status, text), (200, ""))
        self.assertGreater(int(answer.headers["Content-Length"]), 1000)

    def test_garbage_and_silence_stop_nobody_else(self):
        silent = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(3)]
        for garbage in (b"\x00" * 100, b"GET " + b"x" * 100_000, b"\x16\x03\x01", b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 5000):
            with socket.create_connection(("127.0.0.1", self.port)) as one:
                try:
                    one.sendall(garbage)
                except OSError:
                    pass  # has had enough
        self.assertEqual(self.ask(path="/data")[0].status, 200)
        for one in silent:
            one.close()
        self.assertIsNone(self.watching_.process.poll())

    def test_a_port_that_is_taken_is_said(self):
        done = subprocess.run([TOOLS[0], "watch", self.engine_.endpoint, "--page", str(self.port)], capture_output=True, text=True, check=False,
                              timeout=watched.LONG)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr, f"folio watch: --page: cannot serve at 127.0.0.1:{self.port}: the port is taken\n")

    def test_the_port_that_was_asked_for_is_used(self):
        port = watched.free_port()
        watching = self.watching(self.engine_.endpoint, "--page", port, "--quiet")
        self.assertEqual(watched.page_address(watching.process), f"http://127.0.0.1:{port}/")


if __name__ == "__main__":
    ENGINE, PUBLISHER = sys.argv[1:3]
    del sys.argv[1:3]
    tool.main()
