# SPDX-License-Identifier: Apache-2.0
"""The thin face: the C++ calls one by one; and threads."""

import subprocess
import sys
import threading

import numpy as np
import pytest

import folio_kv
from reference import Case

LENGTHS, NEW = [37, 100, 64], [1, 5, 2]


@pytest.fixture
def case():
    return Case(40, LENGTHS, NEW)


@pytest.fixture
def cache(case):
    cache = folio_kv.KVCache(1, case.num_pages, kv_heads=2, head_size=64, dtype="f32")
    everything = folio_kv.Batch([0, *np.cumsum(LENGTHS)], LENGTHS, case.table)
    folio_kv.append(everything, cache[0], np.concatenate(case.k), np.concatenate(case.v))
    return cache


def test_every_kernel_of_this_machine_agrees_with_the_formula(case, cache):
    batch = folio_kv.Batch(case.offsets, case.lengths, case.table)
    kind, ran = folio_kv.Kind(8), []
    for name, runs_here in folio_kv.kernels():
        if not runs_here:
            continue
        try:
            attention = folio_kv.Attention(
                kind, cache[0], batch=4, tokens=16, context=128, q_dtype="f32", kernel=name
            )
        except folio_kv.Unsupported:
            continue
        assert attention.kernel == name
        plan = folio_kv.plan(attention, batch)
        assert plan.num_tasks > 0
        out = folio_kv.attend(attention, plan, cache[0], case.q)
        np.testing.assert_allclose(out, case.expected()[0], atol=3e-6)
        ran.append(name)
    assert ran


def test_limits_can_grow(case, cache):
    small = folio_kv.Attention(
        folio_kv.Kind(8), cache[0], batch=1, tokens=1, context=1, q_dtype="f32"
    )
    batch = folio_kv.Batch(case.offsets, case.lengths, case.table)
    with pytest.raises(folio_kv.Error, match="batch|limit"):
        folio_kv.plan(small, batch)
    grown = small.with_limits(batch=3, tokens=8, context=100)
    out = folio_kv.attend(grown, folio_kv.plan(grown, batch), cache[0], case.q)
    np.testing.assert_allclose(out, case.expected()[0], atol=3e-6)
    with pytest.raises(folio_kv.Error, match="plan"):
        folio_kv.attend(small, folio_kv.plan(grown, batch), cache[0], case.q)


def test_merge_joins_parts_as_if_they_had_been_one(case, cache):
    parts = [
        folio_kv.Step(case.offsets, case.lengths, case.table, visible=visible).attend(
            folio_kv.Kind(8), cache[0], case.q, lse=True
        )
        for visible in (([0] * 8, [20] * 8), ([20] * 8, [2**31 - 1] * 8))
    ]
    out, lse = folio_kv.merge(*zip(*parts))
    expected, expected_lse = case.expected({"causal": False})
    np.testing.assert_allclose(out, expected, atol=3e-6)
    np.testing.assert_allclose(lse, expected_lse, atol=3e-6)


def test_rotate_works_in_place_and_without_a_batch():
    q = np.random.default_rng(1).standard_normal((3, 2, 8)).astype(np.float32)
    angles = np.linspace(0, 3, 40).reshape(10, 4)
    table = np.concatenate([np.cos(angles), np.sin(angles)], 1).astype(np.float32)
    rope = folio_kv.Rope(table, positions=[4, 0, 9])
    out = folio_kv.rotate(None, q, rope=rope)
    for t, p in enumerate([4, 0, 9]):
        a, b = q[t, :, :4], q[t, :, 4:]
        c, s = table[p, :4], table[p, 4:]
        np.testing.assert_allclose(
            out[t], np.concatenate([a * c - b * s, b * c + a * s], 1), atol=1e-6
        )
    folio_kv.rotate(None, q, rope=rope, out=q)
    np.testing.assert_array_equal(q, out)
    with pytest.raises(folio_kv.Error, match="positions has 3 elements"):
        folio_kv.rotate(None, np.zeros((4, 2, 8), np.float32), rope=rope)


def test_copies_convert_between_caches_of_other_types(cache, case):
    narrow = folio_kv.KVCache(1, case.num_pages, kv_heads=2, head_size=64, dtype="i8")
    folio_kv.copy_pages(list(cache), list(narrow), [(p, p, 16) for p in range(case.num_pages)])
    step = folio_kv.Step(case.offsets, case.lengths, case.table)
    out = step.attend(folio_kv.Kind(8), narrow[0], case.q)
    np.testing.assert_allclose(out, case.expected()[0], atol=0.03)
    back = folio_kv.KVCache(1, 1, kv_heads=2, head_size=64, dtype="f32")
    slot = int(case.table[0, 0]) * 16 + 5
    folio_kv.copy_slots(list(cache), list(back), np.array([[slot, 2]]))
    np.testing.assert_array_equal(np.from_dlpack(back[0].key)[0, 2], case.k[0][5])


def test_layers_of_several_threads_share_a_step(case, cache):
    step = folio_kv.Step(case.offsets, case.lengths, case.table)
    kinds = [folio_kv.Kind(8), folio_kv.Kind(8, window=9)]
    expected = [case.expected({}), case.expected({"window": 9})]
    errors = []

    def work(which):
        for _ in range(50):
            out = step.attend(kinds[which], cache[0], case.q)
            errors.append(np.abs(out - expected[which][0]).max())

    threads = [threading.Thread(target=work, args=(i % 2,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == 200 and max(errors) < 3e-6


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_number_of_threads_is_one_knob(threads, case, cache):
    folio_kv.set_num_threads(threads)
    try:
        assert folio_kv.get_num_threads() == threads
        out = folio_kv.Step(case.offsets, case.lengths, case.table).attend(
            folio_kv.Kind(8), cache[0], case.q
        )
        np.testing.assert_allclose(out, case.expected()[0], atol=3e-6)
    finally:
        folio_kv.set_num_threads(0)
    assert folio_kv.get_num_threads() >= 1


FORK = """
import os, sys
import folio_kv, numpy as np
pages = folio_kv.KVCache(1, 64, kv_heads=2, head_size=64, dtype="f32")[0]
rows = np.ones((1024, 2, 64), np.float32)
step = folio_kv.Step([0, 1024], [1024], np.arange(64, dtype=np.int32)[None])
folio_kv.set_num_threads(3)
attend = lambda: step(folio_kv.Kind(2), pages, rows, rows, rows)
attend()
child = os.fork()
assert np.allclose(attend(), 1)
if child == 0:
    sys.exit(7)  # an ordinary end: static objects are destroyed
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""


def test_a_forked_child_has_threads_of_its_own():
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=600)


def test_numpy_alone_brings_no_other_threads():
    assert folio_kv.get_executor() == "thread_pool"


def test_an_executor_is_chosen_by_name():
    folio_kv.set_executor("thread_pool")
    assert folio_kv.get_executor() == "thread_pool"
    folio_kv.set_executor("auto")
    with pytest.raises(folio_kv.Error, match='executor: expected "auto" or "thread_pool"'):
        folio_kv.set_executor("OpenMP")
