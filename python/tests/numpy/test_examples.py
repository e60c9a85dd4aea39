# SPDX-License-Identifier: Apache-2.0
"""The examples that need numpy alone run, and check themselves."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

import folio_kv

ROOT = Path(__file__).resolve().parents[3]


def run(*arguments):
    return subprocess.run(
        [sys.executable, *arguments], check=True, capture_output=True, text=True, timeout=600
    ).stdout


def test_the_quick_start_finds_its_prompt_again():
    assert "finds 16 of them" in run(ROOT / "examples/python/quickstart.py")


def test_the_events_of_a_pool_tell_a_router_what_is_cached():
    lines = run(ROOT / "examples/python/pool_events.py").splitlines()
    assert [line.split()[0] for line in lines[:-1]] == [
        *["BlockStored"] * 3,
        "BlockRemoved",
        *["BlockStored"] * 2,
    ]
    assert lines[3].split()[1] == lines[2].split()[1], "the end of the first prompt"
    assert lines[-1] == "6 events, and one that says that the pool is empty"


def pool_events_example():
    spec = importlib.util.spec_from_file_location(
        "pool_events_example", ROOT / "examples/python/pool_events.py"
    )
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    return example


def test_the_example_tells_of_a_name_once_however_many_contents_have_it():
    told = pool_events_example().KVEvents()
    heard = []
    pool = folio_kv.PagePool(
        4,
        2,
        max_sequences=1,
        max_namespaces=0,  # what a tenant left behind is not found again when another has been here
        name=folio_kv.Sha256Names(),
        on_event=lambda event, tokens: (heard.append(event.kind), told(event, tokens)),
    )

    def serve(tokens, salt=b"a"):
        sequence = pool.admit(tokens, salt=salt).id
        pool.reserve(sequence, len(tokens))
        pool.commit(sequence, tokens)
        pool.release(sequence)
        return [event["type"] for event in told.take_batch()[1]["events"]]

    assert serve([1, 2]) == ["BlockStored"] and serve([9], b"b") == [] and serve([1, 2]) == []
    assert serve([3] * 5) == ["BlockStored"] * 2, "one of the two is removed"
    assert heard == ["stored", "stored", "removed", "stored", "stored"]
    assert serve([4] * 7)[0] == "BlockRemoved"


def test_the_dictionaries_of_the_example_have_the_fields_of_vllms_events():
    told = pool_events_example().KVEvents(lora_names={3: "l"}, medium="GPU", data_parallel_rank=2)
    names = folio_kv.Sha256Names()
    pool = folio_kv.PagePool(4, 2, name=names, on_event=told)
    sequence = pool.admit([1, 2, 3, 4], adapter=3).id
    pool.reserve(sequence, 4)
    pool.commit(sequence, [1, 2, 3, 4])
    number, batch = told.take_batch()
    first, second = names.chain([1, 2, 3, 4], 2, adapter=3)
    fields = {
        "type": "BlockStored",
        "block_size": 2,
        "lora_id": 3,
        "lora_name": "l",
        "medium": "GPU",
        "extra_keys": None,
        "group_idx": 0,
        "kv_cache_spec_kind": "full_attention",
    }
    assert number == 2 and batch["data_parallel_rank"] == 2
    assert batch["events"] == [
        {**fields, "block_hashes": [first], "parent_block_hash": None, "token_ids": [1, 2]},
        {**fields, "block_hashes": [second], "parent_block_hash": first, "token_ids": [3, 4]},
    ]
    pool.release(sequence)
    pool.reserve(pool.admit([9]).id, 6)
    pool.release(pool.admit([9]).id)
    assert told.take_batch()[1]["events"] == [
        {"type": "BlockRemoved", "block_hashes": [second], "medium": "GPU", "group_idx": 0}
    ]


def test_the_engine_gives_each_request_the_tokens_of_its_generation_alone():
    assert run(ROOT / "examples/python/engine.py").count("the rest as alone") == 5


def test_the_engine_fits_150_lines():
    assert len((ROOT / "examples/python/engine.py").read_text().splitlines()) <= 150


def test_an_engine_that_is_started_again_loads_its_prompt():
    lines = run(ROOT / "examples/python/tiers.py").splitlines()
    assert [line.split(",")[0] for line in lines] == [
        "first process: 0 of 1003 tokens found",
        "second process: 992 of 1003 tokens found",
        "the outputs are equal",
    ]


def test_the_core_of_the_tiers_example_stands_in_its_document():
    core = re.search(
        r"```python\n(    def serve.*?)```", (ROOT / "docs/python_tiers.md").read_text(), re.S
    ).group(1)
    assert core.strip() in (ROOT / "examples/python/tiers.py").read_text()


@pytest.mark.parametrize("page", ["python/README.md", "docs/python.md"])
def test_the_first_program_of_a_page_runs(page):
    program = re.search(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S).group(1)
    arrays = (
        "import numpy as np\nprompt = list(range(20))\n"
        "q, k, v = (np.ones((20, heads, 64), np.float32) for heads in (8, 2, 2))\n"
    )
    run("-c", arrays + program + "\nassert out.shape[1:] == (8, 64)\n")
