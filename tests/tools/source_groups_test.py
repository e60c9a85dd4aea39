# SPDX-License-Identifier: Apache-2.0
"""tests/tools/source_groups_test.py: tools/source_groups.py puts every source into one group, and none beside another that has a name of
its own."""

import itertools
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import source_groups  # noqa: E402

SOURCE = "// A source.\n\nnamespace folio {{\nnamespace {{\n\n{}\n\n}}  // namespace\n\nvoid shared() {{}}\n\n}}  // namespace folio\n"
# Declarations of an unnamed namespace, and the names that they have.
FORMS = (
    ("int f(int a, int b) { return a, b; }", "f"),
    ("void f() {\n  int local = 0, other = 1;\n}", "f"),
    ("std::map<int, Entry> f(const std::vector<int>& all = {}, int last = 0);", "f"),
    ("folio::Result<std::vector<int>>\na_name_behind_its_type(int a) {\n}", "a_name_behind_its_type"),
    ("::testing::AssertionResult f(int a) {\n}", "f"),
    ("[[noreturn]] void f(const std::string& what) { throw what; }", "f"),
    ("[[maybe_unused]] const bool told = (use(), true);", "told"),
    ("template <class T = int, size_t N = 3>\nauto f(T t) -> decltype(t) {\n}", "f"),
    ("template <template <DType, bool> class Kernel> constexpr int rows = 3;", "rows"),
    ("template <class T> concept Tiled = requires(T t) { t.tiles(); };", "Tiled"),
    ("struct A;", "A"),
    ("struct A {\n  int b = 1, c = 2;\n  void d();\n};", "A"),
    ("template <class T> struct A : B<T> {};", "A"),
    ("class A final : public B {\n};", "A"),
    ("class A : public B,\n          public C {\n};", "A"),
    ("class A\n    : public ::testing::Test, public B<C> {\n};", "A"),
    ("struct alignas(64) A {\n};", "A"),
    ("struct {\n  int a;\n} rows[] = {{1}, {2}};", "rows"),
    ("enum class Kind : uint8_t { a, b };", "Kind"),
    ("enum Kind : int { first, second = 7, third };", "Kind first second third"),
    ("enum { first,\n       second };", "first second"),
    ("union Word {\n};", "Word"),
    ("using Clock = std::chrono::steady_clock;", "Clock"),
    ("namespace fs = std::filesystem;", "fs"),
    ("constexpr int32_t heads = 8, q_heads = f(1, 2), pages = 64;", "heads q_heads pages"),
    ("constexpr size_t a = sizeof(int),\n                 b = 10'000, c = ',', d = 1;", "a b c d"),
    ("constexpr Limits small{2, 8}, large{8, 64};", "small large"),
    ("int *a, *b;", "a b"),
    ("constexpr std::array<int, 3> table = {1, 2, 3};", "table"),
    ('constexpr const char* names[] = {\n    "a, b = 1", "c",\n};', "names"),
    ('constexpr const char* names[][2] = {{"a", "b"}};', "names"),
    ("constexpr Instance large[rows + 1][2] = {};", "large"),
    ("std::function<void(int)> hook;", "hook"),
    ("void (*hook)(int) = nullptr;", "hook"),
    ('const std::string text = R"(\nint no_name = 1;\n}  // namespace\n)";\nint behind = 1;', "text behind"),
    ("// int f();\n/*\nint g();\n*/\nint h();  // { int i();", "h"),
    ("TEST(Suite, name) {\n  f();\n}", "Suite_name"),
    ("TYPED_TEST_P(Suite,\n             name) {\n}", "Suite_name"),
    ("RC_GTEST_PROP(Suite, name, (const int& a, int b)) {\n}", "Suite_name"),
    ("INSTANTIATE_TEST_SUITE_P(Kinds, Suite, ::testing::Values(1, 2),\n                         f);", "Kinds_Suite"),
    ("static_assert(sizeof(int) == 4);\nint f();", "f"),
    ("constexpr char open = '{', quote = '\\'', more = 1;\nint behind;", "open quote more behind"),
)


class Groups(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def sources(self, *texts):
        """Files with these texts."""
        paths = [self.root / f"{i}.cpp" for i in range(len(texts))]
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text)
        return [str(path) for path in paths]

    def groups(self, *texts):
        """The indices of these texts, as they are grouped."""
        sources = self.sources(*texts)
        return [[sources.index(source) for source in group] for group in source_groups.without_clashes(sources)]

    def run_it(self, *words):
        return subprocess.run([sys.executable, ROOT / "tools/source_groups.py", *words], capture_output=True, text=True, check=False)

    def test_names_of_every_form_are_found_and_no_others(self):
        for text, expected in FORMS:
            with self.subTest(text):
                self.assertEqual(set(source_groups.names(self.sources(SOURCE.format(text))[0])), set(expected.split()))

    def test_every_unnamed_namespace_counts_and_no_other(self):
        two = SOURCE.format("int a();") + SOURCE.format("int b();") + "namespace detail {\nint c();\n}\n"
        self.assertEqual(set(source_groups.names(self.sources(two)[0])), {"a", "b"})

    def test_sources_with_a_name_in_common_are_apart(self):
        for (text, own), other in itertools.product(FORMS, ("int alone;", "int {};")):
            with self.subTest(text=text, other=other):
                clashes = "{}" in other
                pair = SOURCE.format(text), SOURCE.format(other.format(own.split()[-1]))
                self.assertEqual(self.groups(*pair), [[0], [1]] if clashes else [[0, 1]])

    def test_two_mains_are_apart(self):
        mains = "int main() {\n}\n", "int main(int argc, char** argv) {\n}\n", "BENCHMARK_MAIN();\n"
        self.assertEqual(self.groups(*mains, SOURCE.format("int f();")), [[0, 3], [1], [2]])
        self.assertEqual(self.groups("// int main() {\n}\n", mains[0], "  int main();\n"), [[0, 1, 2]])

    def test_aliases_of_whole_files_clash_with_each_other_and_with_names(self):
        alias, space = "using Clock = A;\n", "namespace Clock = b;\n"
        self.assertEqual(self.groups(alias, space, SOURCE.format("struct Clock {};"), "using Watch = A;\n"), [[0, 3], [1], [2]])

    def test_using_declarations_clash_with_others_of_the_name(self):
        of_a, of_b, own = SOURCE.format("using a::Clock;"), SOURCE.format("using ::b::Clock;"), SOURCE.format("struct Clock {};")
        self.assertEqual(self.groups(of_a, of_b, own, of_a, own, of_b, of_a), [[0, 3, 6], [1, 5], [2], [4]])
        self.assertEqual(self.groups(of_a, "using a::Clock;\n"), [[0, 1]])

    def test_names_of_headers_beside_it_clash_with_those_that_others_have_for_themselves(self):
        (self.root / "first.h").write_text('#include "second.h"\n\nnamespace folio::test {\n\ninline int f() { return 1; }\n\n}\n')
        (self.root / "second.h").write_text("namespace folio::test {\n\nint g(int a);\nstruct H;\n\n}\n")
        user, other_user = '#include "first.h"\n', '#include "second.h"\n'
        for name, expected in (("f", [[0, 1], [2]]), ("g", [[0, 1], [2]]), ("H", [[0, 1], [2]]), ("i", [[0, 1, 2]])):
            self.assertEqual(self.groups(user, other_user, SOURCE.format(f"int {name};")), expected, name)
        self.assertEqual(self.groups('#include "support/random.h"\n', SOURCE.format("class Rng {\n};")), [[0], [1]])
        overload = user + SOURCE.format("int g(long a);")
        self.assertEqual(self.groups(overload, user, '#include "gone.h"\n#include <vector>\n'), [[0, 2], [1]])

    def test_a_source_goes_to_the_first_group_that_has_room(self):
        f, g = SOURCE.format("int f();"), SOURCE.format("int g();")
        self.assertEqual(self.groups(f, f, g, g, g), [[0, 2], [1, 3], [4]])

    def test_groups_have_at_most_so_many_sources(self):
        most = source_groups.AT_ONCE
        self.assertEqual(self.groups(*[""] * (2 * most + 1)), [[*range(most)], [*range(most, 2 * most)], [2 * most]])

    def test_sources_of_this_project_are_in_one_group_each(self):
        for folder in ("src/tier/transfer", "src/pool", "cli"):
            sources = [str(path) for path in sorted((ROOT / folder).glob("*.cpp"))]
            groups = source_groups.without_clashes(sources)
            self.assertEqual(sorted(itertools.chain(*groups)), sources)
            self.assertLess(len(groups), len(sources))
            for group in groups:
                names = [source_groups.names(source) for source in group]
                own = [name for source, all_names in zip(group, names, strict=True) for name, of in all_names.items() if of == source]
                self.assertEqual(len(own), len(set(own)), group)

    def test_a_line_is_a_group(self):
        sources = self.sources(*[SOURCE.format("int f();")] * 2, "")
        done = self.run_it(*sources)
        self.assertEqual((done.returncode, done.stdout), (0, f"{sources[0]};{sources[2]}\n{sources[1]}\n"), done.stderr)
        for nothing in ([], ["--"]):
            done = self.run_it(*nothing)
            self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_programs_share_no_group(self):
        a, b, c = self.sources(SOURCE.format("int f();"), "", "")
        for words in ([a, b, "--", c, a], ["--", a, b, "--", c, a, "--"]):
            done = self.run_it(*words)
            self.assertEqual((done.returncode, done.stdout), (0, f"{a};{b}\n--\n{c};{a}\n"), done.stderr)

    def test_what_cannot_be_read_is_refused_by_name(self):
        for path, reason in ((self.root / "gone.cpp", "No such file"), (self.root, "directory")):
            done = self.run_it(path)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertRegex(done.stderr, f"^tools/source_groups.py: expected sources that can be read, got .*{reason}.*{path}'\n$")

    def test_tables_of_numbers_name_nothing_however_long(self):
        rows = "0x2f,0x2f,0x20,0x53,\n" * 20_000
        self.assertEqual(source_groups.names(*self.sources(SOURCE.format("constexpr unsigned char bytes[] = {\n" + rows + "};"))).keys(), {"bytes"})

    def test_bytes_of_no_encoding_are_read_over(self):
        (self.root / "bytes.cpp").write_bytes(SOURCE.format("// %\nint f();").replace("%", "\0").encode() + b"\xff\xfe")
        self.assertEqual(source_groups.names(self.root / "bytes.cpp").keys(), {"f"})


if __name__ == "__main__":
    unittest.main(verbosity=2)
