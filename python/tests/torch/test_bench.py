# SPDX-License-Identifier: Apache-2.0
"""The bench: contestants agree, numbers are what they say, the page names losses."""

import importlib.util
import json
import xml.etree.ElementTree

import pytest

from folio_kv.bench import __main__ as bench
from folio_kv.bench import attention, machine, model, report
from folio_kv.bench.figure import draw
from folio_kv.bench.timing import Row, medians


@pytest.mark.parametrize(
    "case",
    [
        attention.Case("decode", (1, 1, 1), (33, 33, 33), 64),
        attention.Case("decode, ragged", (1, 1), (40, 7), 64),
        attention.Case("prefill", (40,), (40,), 64),
        attention.Case("mixed", (17, 1, 1), (40, 33, 5), 64),
    ],
    ids=lambda case: case.name,
)
def test_all_contestants_give_the_same_numbers(case) -> None:
    calls = attention.Problem(case).contestants()
    assert len(calls) == (4 if set(case.new) == {1} else 3)
    want = calls["sdpa dense"]()
    for name, call in calls.items():
        assert (call() - want).abs().max() < 0.05, name


def test_a_median_is_of_one_call() -> None:
    times = medians({"a": lambda: None, "b": lambda: sum(range(20000))}, 0.05)
    assert 0 < times["a"] < times["b"] < 0.1


def test_a_ratio_is_how_many_times_faster_folio_is() -> None:
    assert Row("g", "n", "us", {"folio": 2.0, "sdpa": 6.0}).ratios() == {"sdpa": 3.0}
    assert Row("g", "n", "tokens/s", {"folio": 2.0, "sdpa": 8.0}).ratios() == {"sdpa": 0.25}
    assert Row("g", "n", "us", {"folio": None, "sdpa": 1.0}).ratios() == {}


def result() -> dict:
    rows = [
        Row("attention", "decode, 1 of 8", "us", {"folio": 10.0, "sdpa dense": 45.0}),
        Row("attention", "decode, 2 of 8", "us", {"folio": 10.0, "sdpa dense": 8.0}),
        Row("vllm", "prefill <1>", "tokens/s", {"folio": 1234.5, "vllm": 1000.0}),
    ]
    context = machine.describe("abc", quick=True) | {"head_size_of_engines": 64}
    return json.loads(json.dumps({"context": context, "rows": [row.as_json() for row in rows]}))


def test_the_page_has_every_row_and_names_the_losses() -> None:
    page = report.page([result()], ["figures/x.svg"])
    assert "| decode, 1 of 8 | 10 | 45 | 4.50 |" in page
    assert "| prefill <1> | 1,234 | 1,000 | 1.23 |" in page
    losses = page.split("### Where folio is slower")[1]
    assert losses.split() == "* attention, decode, 2 of 8: 0.80 of sdpa dense.".split()
    assert "heads of 64" in page and "](figures/x.svg)" in page and "abc" in page


def test_the_page_says_so_where_nothing_is_lost() -> None:
    won = result()
    won["rows"] = won["rows"][:1]
    assert "Nowhere in these rows." in report.page([won], ["x.svg"])


def test_the_figure_is_well_formed_and_has_a_bar_for_each_ratio() -> None:
    tree = xml.etree.ElementTree.fromstring(draw(result()))
    bars = [r for r in tree.iter("{http://www.w3.org/2000/svg}rect") if r.get("height") == "9"]
    assert len(bars) == 3
    texts = [t.text for t in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert "prefill <1>" in texts and "4.50" in texts and "0.80" in texts


def test_the_command_writes_results_that_the_page_is_made_of(tmp_path, monkeypatch, capsys) -> None:
    cases = [attention.Case("decode, 1 of 40", (1,), (40,)), attention.Case("no", (1,), (2000,))]
    monkeypatch.setattr(attention, "cases", lambda: cases)
    monkeypatch.setattr(attention, "_SECONDS", 0.01)
    results, document = tmp_path / "machine.json", tmp_path / "docs" / "page.md"
    command = ["--quick", "--only", "attention", "--json", str(results), "--commit", "abc"]
    assert bench.main(command) == 0
    assert "decode, 1 of 40" in capsys.readouterr().out
    written = json.loads(results.read_text())
    assert [row["name"] for row in written["rows"]] == ["decode, 1 of 40"]
    assert written["context"]["commit"] == "abc"
    figures, other = tmp_path / "docs" / "figures", tmp_path / "other.json"
    other.write_text(json.dumps(written | {"rows": result()["rows"]}))
    files = [str(results), str(other)]
    report.main([*files, "--document", str(document), "--figures", str(figures)])
    page = document.read_text()
    assert "](figures/machine.svg)" in page and page.count("\n## ") == 1
    assert "| decode, 1 of 40 |" in page and "| decode, 2 of 8 |" in page
    assert (figures / "machine.svg").read_text().startswith("<svg")


def test_a_part_that_fails_is_named_and_what_was_measured_is_kept(tmp_path, monkeypatch) -> None:
    def run(longest):
        yield Row("attention", "decode, 1 of 8", "us", {"folio": 10.0, "sdpa dense": 45.0})
        raise RuntimeError("no more")

    monkeypatch.setattr(attention, "run", run)
    results = tmp_path / "results.json"
    assert bench.main(["--only", "attention", "--json", str(results)]) == 1
    written = json.loads(results.read_text())
    assert len(written["rows"]) == 1 and written["failed"] == {"attention": "RuntimeError: no more"}
    page = report.page([written], ["x.svg"])
    assert "`attention` failed on this machine: RuntimeError: no more." in page


def test_prompts_are_as_long_as_asked_and_share_no_beginning() -> None:
    prompts = model.prompts(3, 20)
    assert [len(tokens) for tokens in prompts] == [20] * 3
    assert len({tuple(tokens[:2]) for tokens in prompts}) == 3


@pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None
    or importlib.util.find_spec("folio_kv.transformers") is None,
    reason="needs transformers and folio_kv.transformers",
)
@pytest.mark.parametrize("part", ["generate", "generate_batch"])
def test_the_rows_of_transformers_are_made(part, monkeypatch) -> None:
    from folio_kv.bench import in_transformers

    monkeypatch.setattr(model, "HIDDEN", 64)
    monkeypatch.setattr(model, "LAYERS", 1)
    monkeypatch.setattr(in_transformers, "SHAPES", {part: [(40, 2)]})
    rows = list(getattr(in_transformers, part)(1024, 16))
    assert [row.name for row in rows] == ["prefill, 2 of 40", "decode, 2 of 40"]
    for row in rows:
        assert set(row.values) == {"folio", "sdpa"} and min(row.values.values()) > 0
