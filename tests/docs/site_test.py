# SPDX-License-Identifier: Apache-2.0
"""tests/docs/site_test.py: the documents' site, built by `make docs`' command and opened in a browser, on a telephone and a screen.

FOLIO_PICTURES=FOLDER keeps a picture of each page that was looked at. Without a browser, or without the packages that make the site, all
tests skip themselves; in CI the latter fails.
"""

import functools
import http.server
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/cli"), str(ROOT / "tools/docs")]

import browser  # noqa: E402
import headers  # noqa: E402

SITE = ROOT / "build/docs/site"
WIDTHS = (360, 1440)
# Pages with what is hard to fit: wide tables, long names, drawings, pictures.
PAGES = (
    "",
    "docs/",
    "docs/replay/",
    "docs/performance_peers/",
    "docs/hybrid_replay/",
    "docs/style/",
    "docs/kernels/",
    "docs/generated/python_architectures/",
    "docs/generated/cuda_mutants/",
    "include/folio/pool/page_pool.h/",
    "include/folio/attention/kv_buffer/cp_async_loader.h/",
    "examples/engine.cpp/",
    "findings/",
)
# What reaches beyond the page's sides and is in nothing that scrolls or is cut off by itself, such as menus that are drawn in.
OVERFLOW = """const cut = (element) => {
  for (let parent = element.parentElement; parent && parent !== document.body; parent = parent.parentElement)
    if (getComputedStyle(parent).overflowX !== 'visible') return true;
  return false;
};
return [...document.querySelectorAll('.md-header *, .md-content *, .md-footer *')].filter((element) => {
  const box = element.getBoundingClientRect();
  return box.width > 0 && (box.right > innerWidth + 0.5 || box.left < -0.5) && !cut(element);
}).map((element) => element.tagName + '.' + element.className + ': ' + element.textContent.slice(0, 60));"""

BROKEN = "return [...document.images].filter((image) => !image.naturalWidth).map((image) => image.src)"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(SITE)))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        cls.addClassCleanup(server.server_close)
        cls.addClassCleanup(server.shutdown)
        cls.address = f"http://127.0.0.1:{server.server_address[1]}/"
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.close)

    def open(self, page, width=1440, scheme="light"):
        self.browser.open(self.address + page, scheme, width)

    def comes_true(self, script, *arguments):
        """The script's value, once it is true."""
        end = time.monotonic() + 60
        while not (value := self.browser.run(script, *arguments)):
            self.assertLess(time.monotonic(), end, f"never true: {script}")
            time.sleep(0.05)
        return value

    def test_pages_fit_their_window_are_whole_and_ask_no_other_server(self):
        for page in PAGES:
            for width in WIDTHS:
                with self.subTest(page=page, width=width):
                    self.open(page, width, "dark" if width == 360 else "light")
                    if folder := os.environ.get("FOLIO_PICTURES"):
                        self.browser.picture(os.path.join(folder, f"{page.strip('/').replace('/', '-') or 'home'}-{width}.png"))
                    scroll, inner = self.browser.run("return [document.documentElement.scrollWidth, innerWidth]")
                    self.assertEqual(inner, width)
                    self.assertLessEqual(scroll, width)
                    self.assertEqual(self.browser.run(OVERFLOW), [])
                    self.assertGreater(len(self.browser.run("return document.querySelector('.md-content').innerText")), 300)
                    self.assertEqual(self.browser.errors(), [])
                    self.assertEqual([address for address in self.browser.requests() if not address.startswith(self.address)], [])
                    self.assertEqual(self.browser.run(BROKEN), [])

    def test_search_finds_a_word_of_a_document_and_one_of_a_header(self):
        for word, page in (("preempted", "docs/"), ("max_retention_ms", "include/folio/pool/")):
            self.open("", 1440)
            self.browser.run(
                """const query = document.querySelector('.md-search__input');
                document.querySelector('#__search').click();
                query.focus(); query.value = arguments[0];
                query.dispatchEvent(new KeyboardEvent('keyup', {bubbles: true}));
                query.dispatchEvent(new Event('input', {bubbles: true}));""",
                word,
            )
            found = self.comes_true("return [...document.querySelectorAll('.md-search-result__link')].map((link) => link.href)")
            self.assertTrue([link for link in found if page in link], found)

    def test_a_header_shows_its_comments_and_declarations(self):
        self.open("include/folio/pool/page_pool.h/")
        text = self.browser.run("return document.querySelector('.md-content').innerText")
        for said in ("owns the page ids of a paged KV cache", "A page that a transfer reads or writes", "struct IoPin", "Thread safety:"):
            self.assertIn(said.lower(), text.lower())
        self.assertNotIn("///  ", text)
        self.assertEqual(self.browser.run("return document.querySelector('#stepticket').innerText.trim().slice(0, 10)"), "StepTicket")

    def test_a_telephone_reaches_every_part_by_the_menu(self):
        self.open("", 360)
        parts = self.browser.run("""return [...document.querySelectorAll('.md-nav--primary > .md-nav__list > .md-nav__item')]
            .map((part) => part.textContent)""")
        for part in ("Use it", "Extend it", "Operate it", "How it is made and measured", "Headers", "Examples"):
            self.assertTrue([one for one in parts if part in one], part)


class HeaderPages(unittest.TestCase):
    def page(self, *lines):
        head = [
            "// SPDX-License-Identifier: Apache-2.0",
            "/// folio/a.h: what it is.",
            "#pragma once",
            "",
            "namespace folio::inline v1 {",
            "",
        ]
        return headers.page("folio/a.h", "\n".join([*head, *lines, "", "}  // namespace folio::inline v1", ""]))

    def test_comments_are_prose_and_declarations_code(self):
        page = self.page(
            "/// Adds <a> to",
            "/// b * c.",
            "///",
            "/// Errors: none, but",
            "///         one",
            "FOLIO_EXPORT int add(int a, int b) noexcept;",
        )
        self.assertIn(
            "## add\n\nAdds &lt;a> to b \\* c.\n\n**Errors:** none, but one\n\n```cpp\nFOLIO_EXPORT int add(int a, int b) noexcept;\n```",
            page,
        )
        self.assertTrue(page.startswith("# folio/a.h\n\nWhat it is.\n"))
        self.assertNotIn("namespace", page)

    def test_what_is_drawn_stays_drawn(self):
        self.assertIn(
            "Lies so:\n\n```text\na   b\n  c\n```\n\nAnd ends.",
            self.page("/// Lies so:", "///", "///   a   b", "///     c", "///", "/// And ends.", "struct A {};"),
        )

    def test_each_declaration_has_its_name(self):
        page = self.page(
            "/// One.",
            "template <class T>",
            "struct [[nodiscard]] Box {",
            "  T value;",
            "};",
            "",
            "enum class Kind : int { a };",
            "",
            "/// Two.",
            "inline constexpr int limit = 3;",
            "",
            "/// Three.",
            "template <class T>",
            "concept Number = true;",
            "",
            "/// Four.",
            "bool operator==(Box<int> a, Box<int> b);",
            "",
            "/// Five.",
            "#define FOLIO_X(a) a",
        )
        titles = [line[3:] for line in page.splitlines() if line.startswith("## ")]
        self.assertEqual(titles, ["Box", "Kind", "limit", "Number", "operator==", "FOLIO\\_X"])


class Build(unittest.TestCase):
    def test_a_link_that_leads_nowhere_fails(self):
        python = (ROOT / "build/docs/python").read_text().strip()
        with tempfile.TemporaryDirectory() as folder:
            pages = pathlib.Path(folder, "pages")
            pages.mkdir()
            (pages / "index.md").write_text("# A\n\n## Here\n\n[b](b.md) [c](#there)\n")
            settings = (ROOT / "tools/docs/mkdocs.yml").read_text().replace("extra_css: [style.css]\n", "")
            pathlib.Path(folder, "mkdocs.yml").write_text(f"{settings}docs_dir: {pages}\nsite_dir: {folder}/site\n")
            done = subprocess.run(
                [python, "-m", "mkdocs", "build", "--strict", "--config-file", f"{folder}/mkdocs.yml"],
                capture_output=True,
                text=True,
                check=False,
            )
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("'b.md'", done.stderr)
        self.assertIn("'#there'", done.stderr)


def skip(case, reason):
    for name in unittest.TestLoader().getTestCaseNames(case):
        print(f"{reason}\n[  SKIPPED ] {case.__name__}.{name} (0 ms)", flush=True)
        delattr(case, name)


def build():
    """Makes the site; why there is none, or ''."""
    done = subprocess.run(
        [sys.executable, ROOT / "tools/docs/build.py"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode in (3, 4) and os.environ.get("CI") != "true":
        return done.stdout.strip().splitlines()[-1]
    if done.returncode != 0:
        sys.exit(done.stdout)
    return ""


if __name__ == "__main__":
    if not os.environ.get("FOLIO_BROWSER_TEST"):  # before Debian's Python takes over, whose environment would be another
        os.environ["FOLIO_NO_SITE"] = build()
    browser.use_debians_python()
    if reason := os.environ.get("FOLIO_NO_SITE"):
        skip(Site, reason)
        skip(Build, reason)
    elif browser.Browser.why_not():
        skip(Site, browser.Browser.why_not())
    unittest.main()
