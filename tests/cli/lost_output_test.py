# SPDX-License-Identifier: Apache-2.0
"""tests/cli/lost_output_test.py TOOL: what a command shows or writes is there, or its exit status and standard error say that it is not."""

import contextlib
import json
import os
import resource
import subprocess

import outputs
import tool

LOST = "folio: standard output: cannot write: "


@contextlib.contextmanager
def lost_output(how):
    """Standard output, and what the reason says."""
    if how == "full":
        with open("/dev/full", "wb") as full:
            yield full, "No space left on device"
    else:
        reader, writer = os.pipe()
        os.close(reader)
        try:
            yield writer, "Broken pipe"
        finally:
            os.close(writer)


class StandardOutput(outputs.Outputs):
    def expect_lost(self, command):
        done = outputs.run(command)
        self.assertEqual((done.returncode, bool(done.stdout)), (0, True), done.stderr)
        for how in ("full", "gone"):
            with self.subTest(command=command[1:], how=how), lost_output(how) as (stdout, reason):
                self.expect(outputs.run(command, stdout), 2, LOST + reason)
        with self.subTest(command=command[1:], how="closed"):
            self.expect(outputs.in_shell(">&-", command), 2, LOST + "Bad file descriptor")

    def test_every_command_says_that_what_it_shows_is_lost(self):
        for _, call in self.each_call():
            self.expect_lost(call)

    def test_so_does_every_help(self):
        for command in self.commands():
            self.expect_lost([TOOLS[0], *command, "--help"])

    def test_so_do_the_other_replays_and_plans(self):
        groups = ("--model", "gemma-3-27b", "--kv-dtype", "bf16")
        self.expect_lost([TOOLS[0], "replay", self.trace, *groups])
        self.expect_lost([TOOLS[0], "plan-capacity", self.trace, *groups])
        self.expect_lost([TOOLS[0], "replay", self.trace, *self.blocks, "--policy", "all"])

    def test_files_are_written_though_the_summary_is_lost(self):
        for command, call in self.each_call():
            for option in self.options_of(command, call):
                with self.subTest(call=call[1:], option=option), lost_output("full") as (stdout, reason):
                    self.expect(outputs.run([*call, option, self.path("file")], stdout), 2, LOST + reason)
                    whole = self.read(self.path("file"))
                    self.assertGreater(len(whole), 100)
                    if option == "--json":
                        json.loads(whole)

    def test_what_is_not_shown_is_not_lost(self):
        self.expect(outputs.in_shell(">&-", [TOOLS[0], "replay", self.trace, *self.blocks, "--quiet"]), 0)

    def test_no_file_takes_the_place_of_a_closed_stream(self):
        call = [TOOLS[0], "replay", self.trace, *self.blocks, *self.tier, "--json", self.path("json")]
        for redirection, code in (("<&- >&-", 2), ("2>&-", 0), ("<&- >&- 2>&-", 2)):
            with self.subTest(redirection=redirection):
                self.expect(outputs.in_shell(redirection, call), code)
                self.assertEqual(json.loads(self.read(self.path("json")))["requests"], 10)
                self.assertEqual(outputs.run([TOOLS[0], "cache", "check", self.disk]).returncode, 0)

    def test_a_reason_that_nobody_reads_changes_no_status(self):
        for redirection in ("2>&-", "2>/dev/full"):
            for arguments in (["replay", "/no/such/trace"], ["play"], ["cache", "ls", self.folder]):
                with self.subTest(redirection=redirection, arguments=arguments):
                    self.expect(outputs.in_shell(redirection, [TOOLS[0], *arguments]), 2)
        with lost_output("gone") as (stderr, _):
            done = subprocess.run([TOOLS[0], "replay", "/no/such/trace"], stderr=stderr, check=False, timeout=100)
            self.assertEqual(done.returncode, 2)

    def test_a_failed_verification_stays_one(self):
        with open(os.path.join(self.disk, "1.pages"), "r+b") as file:
            file.seek(200)
            byte = file.read(1)[0]
            file.seek(200)
            file.write(bytes([byte ^ 1]))
        with lost_output("full") as (stdout, reason):
            call = [TOOLS[0], "cache", "check", self.disk, "--json", "/dev/full"]
            self.expect(outputs.run(call, stdout), 1, f"{self.disk} is damaged; --json: cannot write /dev/full", LOST + reason)


class Files(outputs.Outputs):
    def expect_kept(self, call, option, path, **how):
        """Refused or failed, and nothing has changed."""
        before = {name: self.read(self.path(name)) for name in os.listdir(self.folder)}
        self.expect(outputs.run([*call, option, path], **how), 2, f"{option}: cannot write {path}: ")
        self.assertEqual({name: self.read(self.path(name)) for name in os.listdir(self.folder)}, before)

    def test_a_path_that_cannot_be_written_is_named(self):
        older = self.put("older")
        folder = os.path.join(self.root, "another")
        os.mkdir(folder)
        paths = ["/no/such/folder/file", folder, older + "/below", self.path("new/"), "/proc/file", "/dev/full", "/dev/fd/99"]
        if os.geteuid() != 0:  # who may everything
            os.chmod(self.put("read_only"), 0o444)
            paths.append(self.path("read_only"))
        for command, call in self.each_call():
            for option in self.options_of(command, call):
                for path in paths:
                    with self.subTest(call=call[1:], option=option, path=path):
                        self.expect_kept(call, option, path)

    def test_a_file_that_may_not_grow_is_an_error_and_no_signal(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

        self.put("older")
        for command, call in self.each_call():
            if command in (("transfer-bench",), ("cache", "compact")):
                continue  # write more than that before they come to it
            for option in self.options_of(command, call):
                for name in ("older", "new"):
                    with self.subTest(call=call[1:], option=option, name=name):
                        self.expect_kept(call, option, self.path(name), preexec_fn=limit)
        with open(self.path("text"), "wb") as stdout:
            call = [TOOLS[0], "replay", self.trace, *self.blocks]
            self.expect(outputs.run(call, stdout, preexec_fn=limit), 2, LOST + "File too large")

    def test_one_that_fails_takes_no_other_with_it(self):
        call = [TOOLS[0], "replay", self.trace, *self.blocks]
        options = list(self.options_of(("replay",), call))
        for failing in options:
            with self.subTest(failing=failing):
                files = [word for option in options for word in (option, "/dev/full" if option == failing else self.path(option))]
                self.expect(outputs.run([*call, *files]), 2, f"{failing}: cannot write /dev/full")
                self.assertEqual(sorted(os.listdir(self.folder)), sorted(set(options) - {failing}))
                for name in os.listdir(self.folder):
                    os.remove(self.path(name))

    def test_permissions_and_links_stay(self):
        for command, call in self.each_call():
            for option in self.options_of(command, call):
                with self.subTest(call=call[1:], option=option):
                    os.chmod(self.put("file"), 0o640)
                    os.symlink("file", self.path("link"))
                    os.symlink("made", self.path("dangling"))
                    for name in ("link", "dangling"):
                        self.expect(outputs.run([*call, option, self.path(name)]), 0)
                        self.assertTrue(os.path.islink(self.path(name)))
                    self.assertNotEqual(self.read(self.path("file")), outputs.OLDER)
                    self.assertEqual(os.stat(self.path("file")).st_mode & 0o7777, 0o640)
                    umask = os.umask(0)
                    os.umask(umask)
                    self.assertEqual(os.stat(self.path("made")).st_mode & 0o7777, 0o666 & ~umask)
                    self.assertEqual(sorted(os.listdir(self.folder)), ["dangling", "file", "link", "made"])
                    for name in os.listdir(self.folder):
                        os.remove(self.path(name))

    def test_a_name_may_be_as_long_as_the_system_takes(self):
        call = [TOOLS[0], "replay", self.trace, *self.blocks]
        self.expect(outputs.run([*call, "--json", self.path("x" * 255)]), 0)

    def test_descriptors_are_written_behind_what_was_shown(self):
        call = [TOOLS[0], "replay", self.trace, *self.blocks, "--json"]
        for path in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
            with self.subTest(path=path), open(self.path("text"), "w+b") as stdout:
                self.expect(outputs.run([*call, path], stdout), 0)
                stdout.seek(0)
                summary, _, figures = stdout.read().partition(b"\n{")
                self.assertTrue(summary.startswith(b"replay "), summary)
                self.assertEqual(json.loads(b"{" + figures)["requests"], 10)
        self.expect(outputs.in_shell(">&-", [*call, "/dev/stdout", "--quiet"]), 2, "--json: cannot write /dev/stdout: Bad file descriptor")

    def test_a_pipe_is_written_as_it_is(self):
        os.mkfifo(self.path("pipe"))
        with subprocess.Popen(["cat", self.path("pipe")], stdout=subprocess.PIPE) as reader:
            self.expect(outputs.run([TOOLS[0], "replay", self.trace, *self.blocks, "--json", self.path("pipe")]), 0)
            self.assertEqual(json.loads(reader.stdout.read())["requests"], 10)
        self.assertEqual(os.listdir(self.folder), ["pipe"])


if __name__ == "__main__":
    tool.main()
