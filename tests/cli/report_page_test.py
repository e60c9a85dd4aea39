# SPDX-License-Identifier: Apache-2.0
"""tests/cli/report_page_test.py TRACE TOOL: pages of --report in a browser, light and dark, narrow and wide, and the files they are in.

FOLIO_PICTURES=FOLDER keeps a picture of each page that was looked at. Without a browser those tests skip themselves, counted as the
C++ ones are.
"""

import os
import subprocess
import sys
import tempfile
import unittest

import browser
import policies_oracle
import tool

BLOCKS = ("--sequential", "--page-per-block", "--compute", "none", "--pages", "3000")
ALL = ("replay", *BLOCKS, "--policy", "all")
ONE = ("replay", *BLOCKS)
TIERS = ("replay", *BLOCKS, "--host-bytes", "256GiB")
STEPS = ("replay", "--limit", "60", "--compute", "none", "--pages", "9000")
PLAN = ("plan-capacity",)
# models whose layers differ
GROUPS = ("replay", "--limit", "40", "--model", "gemma-3-27b", "--gib", "80")
GROUPS_ALL = ("replay", "--limit", "40", "--model", "jamba-1.5-mini", "--gib", "12", "--policy", "all")
GROUPS_PLAN = ("plan-capacity", "--limit", "40", "--model", "gpt-oss-20b")
# what the pictures of each page are called
REPLAY = {"occupancy", "hit-rate", "hit-position", "evictions", "idle-seconds", "idle-requests", "finds", "step-time", "heat"}
OF_GROUPS = REPLAY - {"idle-seconds", "idle-requests", "finds"} | {"saved"}
FIGURES = {ALL: REPLAY | {"policies", "policies-time"}, ONE: REPLAY, TIERS: REPLAY | {"sources", "load-times"}, STEPS: REPLAY, PLAN: {"capacity-hits", "capacity-again"},
           GROUPS: OF_GROUPS, GROUPS_ALL: OF_GROUPS | {"policies", "policies-evicted"}, GROUPS_PLAN: {"capacity-hits", "capacity-evicted"}}

# Pixels of each canvas that are not see-through, and how many colours there are.
PIXELS = """return [...document.querySelectorAll('canvas')].map((canvas) => {
  const pixels = new Uint32Array(canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.buffer);
  let drawn = 0;
  const colours = new Set();
  for (const pixel of pixels) if (pixel >>> 24) { ++drawn; colours.add(pixel); }
  return [canvas.closest('figure').id, drawn, colours.size];
});"""
# What reaches beyond the page's sides; what scrolls by itself may hold wider things.
OVERFLOW = """return [...document.querySelectorAll('body *')].filter((element) => {
  const box = element.getBoundingClientRect();
  return (box.right > innerWidth + 0.5 || box.left < -0.5) && box.width > 0 && !element.closest('.scroll, .skip');
}).map((element) => element.tagName + '.' + element.className);"""
OVERLAPS = """const cards = [...document.querySelectorAll('figure, .tiles > div, .table-card')].map((card) => card.getBoundingClientRect());
return cards.filter((a, i) => cards.some((b, j) => j > i && a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 &&
  b.top < a.bottom - 1)).length;"""


def run(*arguments, folder=None):
    return subprocess.run([TOOLS[0], *map(str, arguments)], capture_output=True, text=True, check=False, cwd=folder)


def make_page(command, trace, path):
    done = run(command[0], trace, *command[1:], "--quiet", "--report", path)
    assert done.returncode == 0, done.stderr
    return path


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def test_bad_paths_are_refused_and_nothing_is_left(self):
        trace = tool.write_trace(self.path("trace.jsonl"), [tool.request([1, 2], 600)])
        for command in (("replay", "--compute", "none"), PLAN, ("replay", *GROUPS[3:]), GROUPS_PLAN):
            for bad in (self.path("no/such/page.html"), self.folder.name):
                with self.subTest(command=command, bad=bad):
                    done = run(command[0], trace, *command[1:], "--report", bad)
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertIn(f"--report: cannot write {bad}", done.stderr)
            done = run(command[0], trace, *command[1:], "--report", trace)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"--report: {trace} is the trace, expected another file", done.stderr)
            both = self.path("both")
            done = run(command[0], trace, *command[1:], "--report", both, "--json", both)
            self.assertEqual(done.returncode, 2)
            self.assertIn("--report: ", done.stderr)
            self.assertEqual(run(command[0], trace, *command[1:], "--report", "").returncode, 2)
        self.assertEqual(os.listdir(self.folder.name), ["trace.jsonl"])

    def test_an_error_leaves_the_older_page(self):
        with open(self.path("page.html"), "w", encoding="utf-8") as file:
            file.write("older")
        trace = tool.write_trace(self.path("trace.jsonl"), [tool.request([1, 2], 600)])
        for command in (("replay", *BLOCKS[:-1], 1), ("plan-capacity", "--pages", 1)):
            done = run(command[0], trace, *command[1:], "--report", self.path("page.html"))
            self.assertEqual(done.returncode, 2)
            self.assertIn("line 1", done.stderr)
            self.assertEqual(self.read("page.html"), "older")
        self.assertEqual(sorted(os.listdir(self.folder.name)), ["page.html", "trace.jsonl"])

    def test_a_long_trace_gives_no_larger_page(self):
        requests = [tool.request([i % 7, 7 + i % 50], 1000, timestamp=i) for i in range(40_000)]
        trace = tool.write_trace(self.path("long.jsonl"), requests)
        page = make_page(("replay", "--sequential", "--page-per-block", "--compute", "none", "--pages", 20), trace, self.path("page.html"))
        self.assertLess(os.path.getsize(page), 700_000)


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.close)
        cls.paths = {}
        for i, command in enumerate(FIGURES):
            cls.paths[command] = make_page(command, SHIPPED_TRACE, os.path.join(cls.folder.name, f"page{i}.html"))

    def check(self, path, figures):
        browser = self.browser
        self.assertEqual(browser.run("return document.documentElement.dataset.ready"), "yes", browser.errors())
        pixels = browser.run(PIXELS)
        self.assertEqual({name for name, _, _ in pixels}, {"figure-" + name for name in figures})
        for name, drawn, colours in pixels:
            self.assertGreater(drawn, 1000, name)
            self.assertGreater(colours, 2, name)
        self.assertEqual(browser.run(OVERFLOW), [])
        self.assertEqual(browser.run(OVERLAPS), 0)
        scroll, width = browser.run("return [document.documentElement.scrollWidth, innerWidth]")
        self.assertLessEqual(scroll, width)
        self.assertEqual(browser.errors(), [])
        self.assertEqual(browser.requests(), ["file://" + path])

    def test_every_chart_is_drawn_in_every_width_and_scheme(self):
        grounds = set()
        for i, (command, figures) in enumerate(FIGURES.items()):
            for scheme in ("light", "dark"):
                for width in (360, 768, 1600):
                    with self.subTest(command=command[0], page=i, scheme=scheme, width=width):
                        self.browser.open(self.paths[command], scheme, width)
                        self.check(self.paths[command], figures)
                        grounds.add((scheme, self.browser.run("return getComputedStyle(document.body).backgroundColor")))
                        if os.environ.get("FOLIO_PICTURES"):
                            self.browser.picture(os.path.join(os.environ["FOLIO_PICTURES"], f"page{i}-{scheme}-{width}.png"))
        self.assertEqual(len(grounds), 2, "two schemes that look the same")

    def test_a_policy_can_be_chosen_and_tables_opened(self):
        for command in (ALL, GROUPS_ALL):
            self.browser.open(self.paths[command])
            runs = self.browser.run("return document.querySelectorAll('input[name=choice-run]').length")
            self.assertEqual(runs, len(policies_oracle.POLICIES))
            for i in range(runs):
                self.browser.run("document.querySelectorAll('input[name=choice-run]')[arguments[0]].click()", i)
                self.browser.run("[...document.querySelectorAll('input[name=choice-heat]:not(:checked)')].forEach((radio) => radio.click())")
                self.check(self.paths[command], FIGURES[command]) if i == 0 else None
            rows = self.browser.run("""const all = [...document.querySelectorAll('figure details')];
                all.forEach((details) => { details.open = true; details.dispatchEvent(new Event('toggle')); });
                return all.map((details) => details.querySelectorAll('tbody tr').length);""")
            self.assertEqual(len(rows), len(FIGURES[command]))
            for count in rows:
                self.assertIn(count, range(1, 102))
            self.assertEqual(self.browser.errors(), [])

    def test_what_has_no_meaning_for_groups_is_said(self):
        self.browser.open(self.paths[GROUPS])
        self.assertIn("are left out", self.browser.run("return document.querySelector('.left-out').innerText"))
        self.browser.open(self.paths[GROUPS_ALL])
        self.assertIn("The offline optimum: none", self.browser.run("return document.querySelector('.lead').innerText"))
        self.browser.open(self.paths[ONE])
        self.assertIsNone(self.browser.run("return document.querySelector('.left-out')"))

    def test_a_page_says_where_tokens_came_from(self):
        if TIERS not in FIGURES:
            self.skipTest("this build has no tiers")
        self.browser.open(self.paths[TIERS])
        names = self.browser.run("return [...document.querySelectorAll('.table-card tbody th')].map((cell) => cell.innerText)")
        self.assertEqual(names, ["memory", "host", "computed", "asked"])
        self.assertIn("below", self.browser.run("return document.querySelector('#tiles .note').innerText"))
        self.assertIn("counts there as not found", self.browser.run("return document.querySelector('.left-out').innerText"))
        # Bars of one request stand on one another: the highest of them reach 100 %.
        tops = self.browser.run("""const chart = Object.values(Chart.instances).find((c) => c.canvas.closest('figure').id === 'figure-sources');
            return [chart.options.scales.y.stacked, chart.data.datasets.map((set) => set.data.length), chart.data.datasets[0].data.map((_, i) =>
                chart.data.datasets.reduce((sum, set) => sum + set.data[i], 0))];""")
        self.assertTrue(tops[0])
        self.assertEqual(len(set(tops[1])), 1)
        for top in tops[2]:
            self.assertAlmostEqual(top, 100, delta=0.1)

    def test_keys_say_what_they_reach(self):
        for command in [command for command in (ONE, TIERS, GROUPS) if command in FIGURES]:
            self.browser.open(self.paths[command])
            self.expect_keys_to_say()

    def expect_keys_to_say(self):
        said = self.browser.run("""return [...document.querySelectorAll('canvas')].map((canvas) => {
            canvas.focus();
            for (const key of ['ArrowRight', 'ArrowRight', 'ArrowDown', 'ArrowLeft'])
              canvas.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
            const text = canvas.closest('figure').querySelector('[aria-live]').textContent;
            canvas.blur();
            return [canvas.tabIndex, canvas.getAttribute('aria-label'), text];
        });""")
        for tab_index, label, text in said:
            self.assertEqual(tab_index, 0)
            self.assertGreater(len(label), 20)
            self.assertRegex(text, r"\d")
        self.assertEqual(self.browser.errors(), [])

    def test_names_from_outside_stay_text(self):
        name = "</script><script>document.title='owned'<!--<img src=x onerror=\"document.title='owned'\">&amp;.jsonl".replace("/", "\u2215")
        for i, hostile in enumerate((name, "<\x1b\u2028'\"`${1}.jsonl")):
            trace = tool.write_trace(os.path.join(self.folder.name, hostile), [tool.request([1, 2], 600), tool.request([1, 3], 900)])
            with open(trace, "a", encoding="utf-8") as file:
                file.write('{"model": "</script><script>document.title=1</script>", "timestamp": 9, "input_length": 5, "output_length": 1,'
                           ' "hash_ids": [9]}\n')
            path = os.path.join(self.folder.name, f"hostile{i}.html")
            for command in (("replay", *BLOCKS[:-1], 5), PLAN, GROUPS, GROUPS_PLAN):
                with self.subTest(command=command[0], name=hostile):
                    self.browser.open(make_page(command, trace, path))
                    self.assertEqual(self.browser.run("return document.documentElement.dataset.ready"), "yes")
                    self.assertTrue(self.browser.run("return document.title").startswith("folio " + command[0]))
                    self.assertEqual(self.browser.run("return document.querySelectorAll('img').length"), 0)
                    self.assertEqual(self.browser.run("return document.scripts.length"), 3)
                    self.assertIn(hostile.split("\x1b")[0], self.browser.run("return document.querySelector('h1').textContent"))
                    self.assertEqual(self.browser.errors(), [])
                    self.assertEqual(self.browser.requests(), ["file://" + path])

    def test_a_trace_without_hits_and_evictions_has_a_page(self):
        trace = tool.write_trace(os.path.join(self.folder.name, "tiny.jsonl"), [tool.request([1], 1)])
        for command in (("replay", "--compute", "none"), *([("replay", "--host-bytes", "1GiB")] if TIERS in FIGURES else []), PLAN, GROUPS, GROUPS_ALL, GROUPS_PLAN):
            self.browser.open(make_page(command, trace, os.path.join(self.folder.name, "tiny.html")))
            self.assertEqual(self.browser.run("return document.documentElement.dataset.ready"), "yes", self.browser.errors())
            self.assertEqual(self.browser.errors(), [])
            text = self.browser.run("return document.body.innerText")
            for word in ("NaN", "undefined", "Infinity"):
                self.assertNotIn(word, text)


def skip_what_needs_a_browser(reason):
    for name in unittest.TestLoader().getTestCaseNames(Pages):
        print(f"{reason}\n[  SKIPPED ] Pages.{name} (0 ms)", flush=True)
        delattr(Pages, name)


if __name__ == "__main__":
    browser.use_debians_python()
    SHIPPED_TRACE = sys.argv.pop(1)
    if "--without-tiers" in sys.argv:
        sys.argv.remove("--without-tiers")
        del FIGURES[TIERS]
    if browser.Browser.why_not():
        skip_what_needs_a_browser(browser.Browser.why_not())
    tool.main()
