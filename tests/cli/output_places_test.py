# SPDX-License-Identifier: Apache-2.0
"""tests/cli/output_places_test.py TOOL: no output takes the place of an input, of a tier's file or of another output."""

import os
import subprocess

import outputs
import tool


class Places(outputs.Outputs):
    def setUp(self):
        super().setUp()
        self.call = [TOOLS[0], "replay", self.trace, *self.blocks]

    def all_files(self):
        found = {}
        for folder, _, names in os.walk(self.root):
            for name in names:
                path = os.path.join(folder, name)
                if os.path.exists(path):
                    found[path] = self.read(path)
        return found

    def expect_refused(self, call, *words, redirection=""):
        before = self.all_files()
        self.expect(outputs.in_shell(redirection, call), 2, *words)
        self.assertEqual(self.all_files(), before)

    def names_of(self, path):
        """Other ways to say it."""
        folder, name = os.path.split(path)
        os.symlink(path, self.path("soft"))
        os.link(path, self.path("hard"))
        os.symlink(folder, self.path("folder"))
        return path, f"{folder}/./{name}", f"{folder}/../{os.path.basename(folder)}/{name}", *map(self.path, ("soft", "hard", "folder/" + name))

    def test_the_trace_is_kept(self):
        for path in self.names_of(self.trace):
            for command in ("replay", "plan-capacity"):
                for option in outputs.FILE_OPTIONS[: 3 if command == "replay" else 2]:
                    with self.subTest(command=command, option=option, path=path):
                        call = [TOOLS[0], command, self.trace, *(self.blocks if command == "replay" else ()), option, path]
                        self.expect_refused(call, f"{option}: {path} is the trace, expected another file")
        self.expect_refused(self.call, "standard output: /dev/fd/1 is the trace", redirection=f'>> "{self.trace}"')

    def test_two_outputs_are_two_files(self):
        pairs = (("--json", "--report"), ("--report", "--metrics"), ("--json", "--metrics"))
        for path in self.names_of(self.put("file")):
            for one, other in pairs:
                with self.subTest(one=one, other=other, path=path):
                    self.expect_refused([*self.call, one, self.path("file"), other, path], f"{other}: {path} is the file of {one}")

    def test_so_are_two_that_are_not_there(self):
        os.symlink("new", self.path("link"))
        os.symlink(self.folder, self.path("folder"))
        for name in ("new", "./new", "../folder/new", "link", "folder/link", "folder/folder/new"):
            with self.subTest(name=name):
                path = self.path(name)
                self.expect_refused([*self.call, "--report", path, "--json", self.path("new")], f"--report: {path} is the file of --json")
        self.expect(outputs.run([*self.call, "--json", self.path("new")]), 0)

    def test_the_file_of_a_stream_is_no_other_output(self):
        file = self.put("file")
        for number, name in ((1, "standard output"), (2, "standard error")):
            call = [*self.call, "--json", file]
            done = outputs.in_shell(f'{number}>> "{file}"', call)
            self.assertEqual(done.returncode, 2)
            reason = f"--json: {file} is the file of {name}, expected another file"
            self.assertIn(reason, done.stderr if number == 1 else self.read(file).decode())
            self.assertTrue(self.read(file).startswith(outputs.OLDER))

    def test_devices_may_be_several_outputs(self):
        self.expect(outputs.run([*self.call, "--json", os.devnull, "--metrics", os.devnull], subprocess.DEVNULL), 0)

    def test_the_directory_of_a_tier_is_the_tiers(self):
        os.symlink(self.disk, self.path("link"))
        segment = os.path.join(self.disk, "1.pages")
        hard = self.path("hard")
        os.link(segment, hard)
        for path in (segment, os.path.join(self.disk, "figures"), self.path("link/format"), self.path("link")):
            with self.subTest(path=path):
                self.expect_refused([*self.call, *self.tier, "--json", path], f"--json: got '{path}', where --disk has its directory")
                for command in ("ls", "check", "compact"):
                    self.expect_refused([TOOLS[0], "cache", command, self.disk, "--json", path], f"--json: got '{path}', where the tier has")

    def test_a_directory_that_is_yet_to_be_made_is_too(self):
        new = self.path("a/b")
        for disk, path in ((new, new), (new, self.path("a")), (new + "/", self.path("./a/../a/b")), (new, new + "/c")):
            with self.subTest(disk=disk, path=path):
                call = [*self.call, "--disk", disk, "--disk-bytes", "200GiB", "--report", path]
                self.expect_refused(call, f"--report: got '{path}', where --disk has its directory '{disk}'")
                self.assertEqual(os.listdir(self.folder), [])
        self.expect(outputs.run([*self.call, "--disk", new, "--disk-bytes", "200GiB", "--json", self.path("ab")]), 0)

    def test_a_library_is_no_place_for_figures(self):
        library = self.put("library")
        self.expect_refused([TOOLS[0], "transfer-bench", "--nixl-library", library, "--json", library],
                            f"--json: {library} is the library of --nixl-library")


if __name__ == "__main__":
    tool.main()
