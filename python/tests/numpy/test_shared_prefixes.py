# SPDX-License-Identifier: Apache-2.0
"""Pages that sequences of a step share are read once for all of them."""

import numpy as np
import pytest

import folio_kv

PAGE, PREFIX, OWN, SEQUENCES = 16, 320, 40, 5
PAGES = PREFIX // PAGE + SEQUENCES * -(-OWN // PAGE)


def shared_table(rng):
    """The prefix's pages first in each row, then the sequence's own."""
    ids = rng.permutation(PAGES).astype(np.uint32)
    prefix, own = ids[: PREFIX // PAGE], ids[PREFIX // PAGE :].reshape(SEQUENCES, -1)
    return np.concatenate([np.tile(prefix, (SEQUENCES, 1)), own], axis=1)


@pytest.fixture
def one_thread():
    """No task is divided, which would fetch keys for each part of its rows."""
    folio_kv.set_num_threads(1)
    yield
    folio_kv.set_num_threads(0)  # as it was


@pytest.mark.parametrize("dtype", ["f32", "bf16", "i8", "i4"])
def test_a_shared_prefix_is_read_once(dtype, one_thread):
    rng = np.random.default_rng(7)
    cache = folio_kv.KVCache(1, PAGES, kv_heads=2, head_size=64, page_size=PAGE, dtype=dtype)
    rows = PAGES * PAGE
    everything = folio_kv.Batch([0, rows], [rows], np.arange(PAGES, dtype=np.uint32)[None])
    k, v = (rng.standard_normal((rows, 2, 64), dtype=np.float32) for _ in "kv")
    folio_kv.append(everything, cache[0], k, v)
    table, kind = shared_table(rng), folio_kv.Kind(8)
    q = rng.standard_normal((SEQUENCES, 8, 64), dtype=np.float32)

    step = folio_kv.Step([*range(SEQUENCES + 1)], [PREFIX + OWN] * SEQUENCES, table)
    assert step.keys_read == []
    together = step.attend(kind, cache[0], q)
    assert step.keys_read == [PREFIX + SEQUENCES * OWN]
    for b in range(SEQUENCES):
        alone = folio_kv.Step([0, 1], [PREFIX + OWN], table[b : b + 1])
        expected = alone.attend(kind, cache[0], q[b : b + 1])
        assert alone.keys_read == [PREFIX + OWN]
        np.testing.assert_allclose(together[b], expected[0], atol=2e-6)
