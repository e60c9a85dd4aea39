# SPDX-License-Identifier: Apache-2.0
"""tests/cli/watch_page_test.py ENGINE TOOL: the page of `folio watch --page` in a browser.

FOLIO_PICTURES=FOLDER keeps a picture of each page that was looked at. Without a browser the tests skip themselves, counted as the C++
ones are.
"""

import os
import sys
import unittest

import browser
import tool
import watched
from report_page_test import OVERFLOW, OVERLAPS, PIXELS
from watched import counters, recording, removed, stored

WIDTHS = (360, 768, 1440)
# What a screen reader has nothing to say of: pictures, buttons and tables without a name.
NAMELESS = """return [...document.querySelectorAll('canvas, svg, button, table, section.table-card .scroll')].filter((one) =>
  one.getClientRects().length && !(one.getAttribute('aria-label') || one.innerText || one.querySelector('caption'))).map((one) => one.outerHTML.slice(0, 80));"""
LEVELS = "return [...document.querySelectorAll('h1, h2, h3')].map((one) => Number(one.tagName[1]));"


class Pages(watched.WatchTest):
    @classmethod
    def setUpClass(cls):
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        self.engine_, self.server = self.engine(), self.metrics(counters(0, 0))
        self.watching_ = self.watching(self.engine_.endpoint, "--replay", self.engine_.replay, "--metrics", self.server.url, "--page", "--quiet")
        self.address = watched.page_address(self.watching_.process)
        self.addCleanup(self.browser.open, "about:blank")  # or it would ask on, and complain in the next test

    def run_script(self, script, *arguments):
        return self.browser.run(script, *arguments)

    def tile(self, label):
        return self.run_script("""const term = [...document.querySelectorAll('#tiles dt')].find((one) => one.textContent === arguments[0]);
            return term.parentElement.querySelector('.value').textContent;""", label)

    def state(self):
        return self.run_script("const state = document.getElementById('state'); return [state.dataset.link || '', state.textContent];")

    def drawn(self):
        return set(self.run_script("return [...document.querySelectorAll('canvas')].map((canvas) => canvas.closest('figure').id);"))

    def wait_for(self, condition, what):
        watched.comes_true(condition, what)

    def play(self):
        """Two prompts with a common beginning, some of it in two media, and others; hits that change."""
        self.engine_.payload([stored(name + 1, name or None) for name in range(20)])
        self.engine_.payload([stored(100 + name, 99 + name if name else 10) for name in range(30)])
        self.engine_.payload([stored(name + 1, name or None, "CPU") for name in range(5)])
        self.engine_.payload([stored(1000 * tree) for tree in range(1, 40)])

    def test_it_is_whole_in_every_width_and_scheme(self):
        self.browser.open(self.address)
        self.wait_for(lambda: self.state()[0] == "waiting", "the first figures")
        self.play()
        self.server.body = counters(30, 40)
        for scheme in ("light", "dark"):
            for width in WIDTHS:
                with self.subTest(scheme=scheme, width=width):
                    self.browser.open(self.address, scheme, width)
                    self.server.body = counters(60 + width, 100 + width)
                    self.wait_for(lambda: self.tile("Names") == "89", "names")
                    self.wait_for(lambda: self.drawn() >= {"figure-names", "figure-changes", "figure-hits"}, "charts")
                    for name, drawn, colours in self.run_script(PIXELS):
                        self.assertGreater(drawn, 1000, name)
                        self.assertGreater(colours, 2, name)
                    self.assertEqual(self.run_script(OVERFLOW), [])
                    self.assertEqual(self.run_script(OVERLAPS), 0)
                    self.assertEqual(self.run_script("return [document.documentElement.scrollWidth <= innerWidth, innerWidth]"), [True, width])
                    self.assertEqual(self.run_script(NAMELESS), [])
                    self.assertEqual(self.browser.errors(), [])
                    for request in self.browser.requests():
                        self.assertTrue(request.startswith(self.address), request)
                    if os.environ.get("FOLIO_PICTURES"):
                        self.browser.picture(os.path.join(os.environ["FOLIO_PICTURES"], f"watch-{scheme}-{width}.png"))
        levels = self.run_script(LEVELS)
        self.assertEqual(levels[0], 1)
        self.assertEqual(levels.count(1), 1)
        self.assertTrue(all(after <= before + 1 for before, after in zip(levels, levels[1:])), levels)
        self.assertEqual(self.run_script("return document.documentElement.lang"), "en")
        text = self.run_script("return document.body.innerText")
        for word in ("NaN", "undefined", "Infinity", "null", "[object"):
            self.assertNotIn(word, text)

    def test_it_changes_without_being_loaded_again(self):
        self.browser.open(self.address, width=1440)
        self.wait_for(lambda: self.state()[0] in ("waiting", "current"), "the first figures")
        self.run_script("window.marker = 7; document.getElementById('pause').focus();")
        self.play()
        self.wait_for(lambda: self.tile("Names") == "89", "names")
        self.wait_for(lambda: self.state() == ["current", "Event stream: current"], "the state")
        self.assertEqual(self.tile("Prefixes"), "40")
        rows = "return [...document.querySelectorAll('section.table-card')].find((one) => one.innerText.includes(arguments[0])).innerText;"
        self.assertRegex(self.run_script(rows, "Media"), r"GPU\s+89\s+CPU\s+5")
        self.assertRegex(self.run_script(rows, "Largest prefixes"), r"0000000000000001\s+50\s+800\s+2\s+40\s+10\s+50\s+5")
        self.engine_.payload([removed(1000 * tree) for tree in range(1, 40)])
        self.wait_for(lambda: self.tile("Names") == "50" and self.tile("Prefixes") == "1", "fewer names")
        self.server.body = counters(3, 4)
        self.wait_for(lambda: self.tile("Hit rate") == "75.0 %", "hits")
        self.wait_for(lambda: "figure-hits" in self.drawn(), "the chart of hits")
        self.assertEqual(self.run_script("return [window.marker, document.activeElement.id]"), [7, "pause"])
        self.assertEqual(self.browser.errors(), [])

    def test_it_can_be_paused(self):
        self.browser.open(self.address)
        self.wait_for(lambda: self.state()[0] == "waiting", "the first figures")
        pressed = "document.getElementById('pause').click(); return document.getElementById('pause').getAttribute('aria-pressed');"
        self.assertEqual(self.run_script(pressed), "true")
        self.play()
        other = self.watching(self.engine_.endpoint, "--replay", self.engine_.replay, "--json-lines")
        other.until(lambda figures: figures["names"] == 89)
        self.assertNotEqual(self.tile("Names"), "89")
        self.assertEqual(self.run_script(pressed), "false")
        self.wait_for(lambda: self.tile("Names") == "89", "names")

    def test_it_says_who_is_gone(self):
        self.browser.open(self.address, width=360)
        self.play()
        self.wait_for(lambda: self.tile("Names") == "89", "names")
        self.engine_.close()
        self.wait_for(lambda: self.state() == ["gone", "Event stream: gone, trying again"], "the engine's end")
        self.assertRegex(self.tile("Last batch"), r"^\d+ s ago$")
        self.assertEqual(self.tile("Names"), "89")
        self.server.close()
        notes = "return document.getElementById('notes').hidden ? '' : document.getElementById('notes').innerText;"
        self.wait_for(lambda: "--metrics: " in self.run_script(notes), "the note")
        self.assertEqual(self.browser.errors(), [])
        self.watching_.end()
        self.wait_for(lambda: self.state()[0] == "lost" and "folio watch does not answer" in self.state()[1], "the tool's end")
        self.assertEqual(self.run_script(OVERFLOW), [])

    def test_keys_lead_through_what_is_drawn(self):
        self.browser.open(self.address)
        self.wait_for(lambda: self.state()[0] == "waiting", "the first figures")
        self.play()
        self.server.body = counters(3, 4)
        self.wait_for(lambda: self.drawn() >= {"figure-names", "figure-changes", "figure-hits"}, "charts")
        said = self.run_script("""return [...document.querySelectorAll('canvas, svg')].map((picture) => {
            picture.focus();
            for (const key of ['ArrowRight', 'ArrowRight', 'ArrowLeft', 'End', 'Home'])
              picture.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
            const text = picture.closest('figure').querySelector('[aria-live]').textContent;
            picture.blur();
            return [picture.tabIndex, picture.getAttribute('aria-label'), text];
        });""")
        self.assertEqual(len(said), 4)
        for tab_index, label, text in said:
            self.assertEqual(tab_index, 0)
            self.assertGreater(len(label), 20)
            self.assertRegex(text, r"\d")
        self.assertIn("tokens 1 to 80, in GPU, CPU; 50 names from here on, 2 endings", [text for _, _, text in said])
        tables = self.run_script("""const all = [...document.querySelectorAll('figure details')];
            all.forEach((details) => { details.open = true; details.dispatchEvent(new Event('toggle')); });
            return all.map((details) => details.querySelectorAll('tbody tr').length);""")
        self.assertEqual(len(tables), 3)
        self.assertTrue(all(tables), tables)
        self.assertEqual(self.browser.errors(), [])

    def test_names_from_engines_stay_text(self):
        names = ("<img src=x onerror=\"document.title='owned'\">", "</script><script>document.title='owned'//", "\u202e\x1b[31m\u0000'\"`${1}", b"\xff\xfe<b>")
        self.engine_.payload([stored(i + 1, None, name) for i, name in enumerate(names)])
        self.server.body = 'folio_tier_pages{tier="<img src=x onerror=\'document.title=1\'>"} 5\n' + counters(1, 2)
        self.browser.open(self.address, width=360)
        self.wait_for(lambda: self.tile("Names") == "4", "names")
        self.wait_for(lambda: "<img" in self.run_script("return document.body.innerText"), "text")
        self.assertEqual(self.run_script("return [document.title.slice(0, 11), document.querySelectorAll('img, b').length, document.scripts.length]"),
                         ["folio watch", 0, 3])
        self.assertNotRegex(self.run_script("return document.body.innerText"), "[\u202e\x1b\x00]")
        self.assertEqual(self.run_script(OVERFLOW), [])
        self.assertEqual(self.browser.errors(), [])
        for request in self.browser.requests():
            self.assertTrue(request.startswith(self.address), request)

    def test_metrics_alone_have_a_page(self):
        watching = self.watching("--metrics", self.server.url, "--page", "--quiet")
        self.browser.open(watched.page_address(watching.process), width=768)
        self.server.body = counters(1, 4)
        self.wait_for(lambda: self.tile("Hit rate") == "25.0 %", "hits")
        self.assertEqual(self.state(), ["current", "Metrics alone"])
        self.assertEqual(self.run_script(OVERFLOW), [])
        self.assertEqual(self.browser.errors(), [])


def skip_what_needs_a_browser(reason):
    for name in unittest.TestLoader().getTestCaseNames(Pages):
        print(f"{reason}\n[  SKIPPED ] Pages.{name} (0 ms)", flush=True)
        delattr(Pages, name)


if __name__ == "__main__":
    browser.use_debians_python()
    ENGINE = sys.argv.pop(1)
    if browser.Browser.why_not():
        skip_what_needs_a_browser(browser.Browser.why_not())
    tool.main()
