# SPDX-License-Identifier: Apache-2.0
"""python -m folio_kv.quality: its figures are what they say, on tiny models; what it refuses."""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
import xml.etree.ElementTree
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    DynamicCache,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
)

from folio_kv.quality import __main__ as quality
from folio_kv.quality import cache_types, contenders, figure, report, scores
from folio_kv.quality.outcome import Outcome

VOCABULARY, TOKENS = 96, 600
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 64,
}


def made(kind: str) -> Any:
    """Of random weights, large enough for attention to be uneven."""
    torch.manual_seed(1)
    if kind == "llama":
        return LlamaForCausalLM(LlamaConfig(**SIZES, initializer_range=0.3)).eval()
    kinds = ["sliding_attention", "full_attention"]
    more = {"sliding_window": 64, "layer_types": kinds, "query_pre_attn_scalar": 4}
    config = Gemma3TextConfig(**SIZES, **more, initializer_range=0.3)
    return Gemma3ForCausalLM(config).eval()


@pytest.fixture(scope="module", params=["llama", "gemma3"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp(request.param)
    made(request.param).save_pretrained(path)
    draw = np.random.default_rng(5)
    (path / "tokens.json").write_text(json.dumps(draw.integers(0, VOCABULARY, TOKENS).tolist()))
    return path


def run(folder: pathlib.Path, *more: str, tokens: int = TOKENS - 1) -> tuple[int, Any]:
    """The exit status and the rows by name."""
    out = folder / "result.json"
    out.unlink(missing_ok=True)
    text = str(folder / "tokens.json")
    status = quality.main(
        [str(folder), "--text", text, "--tokens", str(tokens), "--json", str(out), *more]
    )
    rows = json.loads(out.read_text())["rows"] if out.exists() else []
    return status, {row["name"]: row for row in rows}


def test_figures_are_ordered_as_the_bits_are(folder: pathlib.Path) -> None:
    status, rows = run(
        folder, "--types", "f32,bf16,int8,fp8,vllm-fp8,q4_0", "--scored-each", "2", "--decoded", "2"
    )
    assert status == 0
    figures = {name: row["figures"] for name, row in rows.items()}
    assert figures["reference"]["kl"] == figures["reference"]["flips"] == 0
    kl = {name: figures[name]["kl"] for name in figures}
    assert 100 * kl["f32"] < kl["bf16"] < kl["int8"] < kl["q4_0"]
    assert kl["int8"] < kl["fp8"] < kl["q4_0"] and kl["int8"] < kl["vllm-fp8"]
    assert figures["f32"]["perplexity"] == pytest.approx(figures["reference"]["perplexity"], 1e-4)
    for name, row in figures.items():
        assert row["scored"] == TOKENS // 2 and row["tokens_per_second"] > 0, name
        relative = math.log(row["perplexity"] / figures["reference"]["perplexity"])
        assert row["change"] == pytest.approx(relative, abs=1e-5), name


def test_bytes_are_those_of_the_rows(folder: pathlib.Path) -> None:
    _, rows = run(folder, "--types", "f32,bf16,int8,q4_0,vllm-fp8", "--decoded", "0", tokens=100)
    size = {name: row["figures"]["bytes_per_token"] for name, row in rows.items()}
    elements = 2 * 2 * 64  # layers, K and V, the head
    assert size["reference"] == size["f32"] == 4 * elements and size["bf16"] == 2 * elements
    assert size["int8"] == elements * 34 / 32 and size["q4_0"] == elements * 18 / 32
    assert size["vllm-fp8"] == elements
    assert "tokens_per_second" not in rows["f32"]["figures"]


def test_budgets_of_pages_stand_beside_dense_bf16(folder: pathlib.Path) -> None:
    """Every scored token chooses its pages, in a prompt's pieces, too; more of them leave less out."""
    budgets = ("--pages", "64,192,400", "--page-size", "16", "--types", "f32")
    status, rows = run(
        folder, *budgets, "--scored-from", "512", "--scored-each", "1", "--decoded", "0"
    )
    assert status == 0
    names = [f"bf16-{x}-by-16" for x in (64, 192, 400)]
    assert list(rows) == ["reference", "bf16", *names, "f32"]
    sparse = [rows[name]["figures"] for name in names]
    assert all(x["scored"] == 87 == rows["bf16"]["figures"]["scored"] for x in sparse)
    seen, windows = sum(range(513, 600)), "gemma" in folder.name
    for tokens, figures in zip((64, 192, 400), sparse):
        read = figures["keys_read"] * seen  # the newest page may be cut
        assert tokens * 87 - 15 * 87 <= read <= tokens * 87, tokens
        assert 0 < figures["weights_left_out"] <= 1  # bounds of random keys are loose
        elements = 2 * 2 * 64 * 2  # bf16
        pages = 2 * 2 * 64 / 16 * (1 if windows else 2)  # of the full layers
        assert figures["bytes_per_token"] == pytest.approx(elements + pages)
    kl = [rows["bf16"]["figures"]["kl"], *(x["kl"] for x in reversed(sparse))]
    assert kl == sorted(kl) and kl[-1] > 100 * kl[0]
    assert "keys_read" not in rows["bf16"]["figures"]


def test_scores_are_those_of_whole_log_probabilities() -> None:
    draw = np.random.default_rng(3)
    logits, exact = draw.normal(size=(2, 40, 50)).astype(np.float32) * 4
    targets = draw.integers(0, 50, 40)
    tally = scores.Tally()
    for part in (slice(0, 3), slice(3, 40)):  # more rows than are taken at once
        tally.add(logits[part], scores.log_probabilities(exact[part]), targets[part])
    p, q = (torch.tensor(x).double().log_softmax(-1) for x in (exact, logits))
    nll, was = (-x[torch.arange(40), torch.tensor(targets)] for x in (q, p))
    found = tally.figures()
    assert found["perplexity"] == pytest.approx(float(nll.mean().exp()), rel=1e-5)
    assert found["change"] == pytest.approx(float((nll - was).mean()), abs=1e-5)
    assert found["change_error"] == pytest.approx(float((nll - was).std() / 40**0.5), rel=1e-4)
    assert found["kl"] == pytest.approx(float((p.exp() * (p - q)).sum(-1).mean()), rel=1e-4)
    assert found["flips"] == pytest.approx(float((p.argmax(-1) != q.argmax(-1)).double().mean()))


def test_vllms_rows_are_rounded_to_float8() -> None:
    x = torch.tensor([[[[0.3, -1000.0, 1.0625, 2.0**-10]]]])
    cache = contenders.RoundedCache(config=made("llama").config)
    keys, values = cache.update(x, x, 0)
    assert keys.flatten().tolist() == values.flatten().tolist() == [0.3125, -448.0, 1.0, 0.0]


def test_a_type_that_is_refused_says_why(folder: pathlib.Path, monkeypatch: Any) -> None:
    odd = cache_types.CacheType("odd", "folio", {"dtype": "int3"})
    newer = cache_types.CacheType("newer", "folio", {"dtype": "int8", "from_tomorrow": True})
    monkeypatch.setattr(
        cache_types, "TYPES", {"odd": odd, "newer": newer, "f32": cache_types.TYPES["f32"]}
    )
    status, rows = run(folder, "--types", "odd,newer,f32", "--decoded", "0", tokens=40)
    assert status == 1 and "int3" in rows["odd"]["refused"]
    assert "from_tomorrow" in rows["newer"]["refused"] and "figures" in rows["f32"]


def test_llamas_types_need_a_file_and_an_interpreter(folder: pathlib.Path) -> None:
    status, rows = run(folder, "--types", "llama-q8_0", "--decoded", "0", tokens=40)
    assert status == 1 and "--llama-model" in rows["llama-q8_0"]["refused"]
    weights = folder / "some.gguf"
    weights.write_bytes(b"GGUF")
    more = ("--types", "llama-q8_0", "--llama-model", str(weights), "--decoded", "0")
    assert run(folder, *more, "--llama-python", "/no/such", tokens=40)[0] == 2
    status, rows = run(folder, *more, tokens=40)
    assert status == 1 and "--llama-python" in rows["llama-q8_0"]["refused"]


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["/no/such"], "MODEL: expected a file or a folder, got /no/such"),
        (["{here}"], "MODEL: expected a folder with config.json"),
        (["{here}/other.gguf"], "MODEL: expected a folder or a GGUF file"),
        (["{here}/broken"], "MODEL: transformers cannot load"),
        (["{model}", "--types", "int9"], "--types: expected some of f32, bf16"),
        (["{model}", "--types", ","], "--types: expected at least one type"),
        (["{model}", "--tokens", "1"], "--tokens: expected at least 2, got 1"),
        (["{model}", "--pages", "many"], "--pages: expected numbers above 0 with commas"),
        (["{model}", "--pages", "0"], "--pages: expected numbers above 0 with commas between them, got '0'"),
        (["{model}", "--pages", "64", "--page-size", ","], "--page-size: expected numbers above 0"),
        (["{model}", "--scored-from", "-1"], "--scored-from: expected at least 0, got -1"),
        (["{model}", "--scored-from", "8192"], "--scored-from: expected less than --tokens, got 8192"),
        (["{model}", "--scored-from", "5", "--types", "llama-f16"], "--scored-from: not for types of llama"),
        (["{model}", "--scored-each", "0"], "--scored-each: expected at least 1, got 0"),
        (["{model}", "--json", "/no/such/x.json"], "--json: expected a file in a folder"),
        (["{model}", "--plot", "/no/such/x.svg"], "--plot: expected a file in a folder"),
        (["{model}", "--json", "{here}"], "--json: expected a file in a folder"),
        (["{model}", "--threads", "100000"], "threads is 100000, expected 0"),
        (["{model}"], "MODEL: expected a tokenizer"),
        (["{model}", "--text", "{here}/no.txt"], "--text: expected a file of UTF-8"),
        (["{model}", "--text", "{here}/no.json"], "--text: expected a file of UTF-8"),
        (["{model}", "--text", "{here}/bad.json"], "--text: expected JSON"),
        (["{model}", "--text", "{here}/high.json"], "--text: expected a list of tokens from 0 to 95"),
        (["{model}", "--text", "{here}/short.json"], "--text: expected 8193 tokens, got 3 of"),
        (["{model}", "--llama-model", "{here}", "--types", "llama-f16", "--text", "{here}/short.json",
          "--tokens", "2"], "--llama-model: expected a GGUF file"),
        (["{model}", "--llama-model", "/no/such", "--types", "llama-f16", "--text", "{here}/short.json",
          "--tokens", "2"], "--llama-model: expected a GGUF file"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_by_name(
    arguments: list[str], said: str, folder: pathlib.Path, tmp_path: pathlib.Path, capsys: Any
) -> None:
    (tmp_path / "other.gguf").write_bytes(b"PK\x03\x04")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/config.json").write_text("{")
    (tmp_path / "bad.json").write_text("[1, 2")
    (tmp_path / "high.json").write_text("[1, 96]")
    (tmp_path / "short.json").write_text("[1, 2, 3]")
    given = [x.format(here=tmp_path, model=folder) for x in arguments]
    assert quality.main(given) == 2
    assert said in capsys.readouterr().err


def outcomes() -> list[Outcome]:
    figures = {
        "scored": 8, "perplexity": 12.5, "change": 0.0123, "change_error": 0.004, "kl": 2e-3,
        "kl_error": 1e-4, "flips": 0.25, "bytes_per_token": 4896.0, "tokens_per_second": 31.25,
    }  # fmt: skip
    return [
        Outcome("reference", "transformers", figures | {"kl": 0.0, "change": 0.0}),
        Outcome("int8", "folio", figures),
        Outcome("llama-<q4>", "llama.cpp", figures | {"kl": 0.2, "bytes_per_token": 2592.0}),
        Outcome("nvfp4", "folio", refused="no such dtype"),
    ]


def test_tables_have_a_row_for_each_type() -> None:
    lines = report.markdown(outcomes()).splitlines()
    assert lines[3] == "| int8 | 4,896 | 12.5000 | +1.24% ± 0.40% | 2.00e-03 | 25.00% | 31.2 |"
    assert lines[2].split(" | ")[3] == "–" and lines[-1] == "* nvfp4: not measured: no such dtype"
    sparse = dataclasses.replace(outcomes()[1], name="bf16-64-by-16")
    sparse.figures = sparse.figures | {"keys_read": 0.125, "weights_left_out": 0.02}
    lines = report.markdown([*outcomes(), sparse]).splitlines()
    assert lines[0].endswith("| keys | weights |") and lines[5].endswith("| 12.5% | 2.0% |")
    assert lines[3].endswith("| 31.2 | – | – |")
    text = report.text(outcomes()).splitlines()
    assert len(text) == 5 and text[2].split()[:2] == ["int8", "4,896"]
    assert len({len(line) for line in text[:4]}) == 1


def test_the_plot_has_a_point_for_each_measured_type() -> None:
    tree = xml.etree.ElementTree.fromstring(figure.draw(outcomes()))
    circles = list(tree.iter("{http://www.w3.org/2000/svg}circle"))
    points = [c for c in circles if c.get("class") == "type"]
    assert len(points) == 2 and len(circles) == 4  # and the legend's two
    fewer, more = sorted(points, key=lambda c: float(c.get("cx")))
    assert float(fewer.get("cy")) < float(more.get("cy"))  # fewer bytes, further up
    assert "llama-<q4>" in [t.text for t in tree.iter("{http://www.w3.org/2000/svg}text")]
    xml.etree.ElementTree.fromstring(figure.draw([]))


def test_names_of_points_at_one_place_stand_below_one_another() -> None:
    point = outcomes()[1]
    others = [dataclasses.replace(point, name=name) for name in ("one", "another", "third")]
    tree = xml.etree.ElementTree.fromstring(figure.draw([point, *others]))
    named = tree.iter("{http://www.w3.org/2000/svg}text")
    lines = [float(t.get("y")) for t in named if t.text in ("int8", "one", "another", "third")]
    assert len(lines) == 4 and min(b - a for a, b in zip(lines, lines[1:])) >= 12


def test_the_reference_is_transformers_own_cache() -> None:
    model = made("gemma3")
    ids = torch.arange(40)
    found = contenders.compare(model, [], ids.tolist(), scored_each=1, decoded=0)
    model.set_attn_implementation("sdpa")
    with torch.inference_mode():
        logits = model(ids[None, :-1], past_key_values=DynamicCache(config=model.config)).logits[0]
    nll = -logits.double().log_softmax(-1)[torch.arange(39), ids[1:]]
    assert found[0].figures["perplexity"] == pytest.approx(float(nll.mean().exp()), rel=1e-5)


def test_the_command_lists_its_types(capsys: Any) -> None:
    assert quality.main(["--list"]) == 0
    assert capsys.readouterr().out.split() == list(cache_types.TYPES)
    with pytest.raises(SystemExit):
        quality.main([])
