# SPDX-License-Identifier: Apache-2.0
"""The page pool through Python: groups of a hybrid model."""

import pytest

import folio_kv

FULL = {"page_bytes": 64}
WINDOW = {"rule": "window", "page_bytes": 64, "window": 8}


def made(*groups, **options):
    return folio_kv.PagePool(
        0,
        4,
        max_sequences=3,
        max_pages_per_sequence=16,
        groups=groups,
        arena_bytes=64 * 256,
        **options,
    )


def test_a_window_gives_its_pages_back_and_full_attention_keeps_them():
    pool = made(FULL, WINDOW)
    assert pool.num_groups == 2
    prompt = list(range(32))
    sequence = pool.admit(prompt).id
    for at in range(0, 32, 8):
        pool.reserve(sequence, 8)
        pool.commit(sequence, prompt[at : at + 8])
    assert (pool.group(0)["used_pages"], pool.group(1)["used_pages"]) == (8, 2)
    row = pool.table(1).reshape(-1)[pool.row_start(sequence, 1) :][:8]
    sentinel = pool.group(1)["num_pages"]
    assert [page == sentinel for page in row] == [True] * 6 + [False] * 2
    assert pool.batch_rows([sequence], 1)[0] == pool.row_start(sequence, 1)
    pool.release(sequence)
    assert pool.peek([*prompt, 99]) == 32
    pool.check_invariants()


def test_a_fork_copies_in_each_group():
    pool = made(FULL, WINDOW)
    sequence = pool.admit([1]).id
    pool.reserve(sequence, 6)
    pool.commit(sequence, [1, 2, 3, 4, 5, 6])
    pool.fork(sequence, 6)
    assert [[tokens for _, _, tokens in pool.take_copies(group)] for group in (0, 1)] == [[2], [2]]
    assert pool.explain(sequence, 8)["short_group"] == -1


def test_a_pool_without_groups_has_one():
    pool = folio_kv.PagePool(8, 4)
    assert pool.num_groups == 1 and pool.group(0)["num_pages"] == 8
    for call in (pool.group, pool.table, pool.take_copies):
        with pytest.raises(folio_kv.Error, match="group is 1"):
            call(1)


@pytest.mark.parametrize(
    ("group", "words"),
    [
        (
            {"rule": "sliding", "page_bytes": 64},
            'rule: expected "full", "window", "chunked" or "state", got "sliding"',
        ),
        ({"rule": 3}, "rule: expected text"),
        ({**WINDOW, "windows": 8}, "windows: expected rule, page_bytes, window"),
        ({**WINDOW, "window": "8"}, "window: expected an integer"),
        ({**WINDOW, "window": 2**31}, "window: expected an integer"),
        ({**WINDOW, "window": 0}, "window"),
        ({3: 4}, "expected keys of text"),
        (7, "expected a dictionary"),
    ],
)
def test_what_no_group_may_be_is_named(group, words):
    with pytest.raises(folio_kv.Error, match=words):
        made(FULL, group)
