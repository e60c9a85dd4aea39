# SPDX-License-Identifier: Apache-2.0
"""A forked child does not wait for threads of OpenMP that stayed with its parent."""

import subprocess
import sys

CHILD_MEETS_A_NEW_TYPE = """
import os, sys
import folio_kv, numpy as np, torch
rows = torch.ones(1024, 2, 64)
pages = folio_kv.KVCache(1, 64, kv_heads=2, head_size=64, dtype="f32")[0]
step = folio_kv.Step([0, 1024], [1024], np.arange(64, dtype=np.int32)[None])
folio_kv.set_num_threads(3)
step(folio_kv.Kind(2), pages, rows, rows, rows)
assert folio_kv.get_executor().startswith("OpenMP")
child = os.fork()
out = step(folio_kv.Kind(2), pages, torch.nn.Parameter(rows), rows, rows)
assert np.allclose(np.from_dlpack(out), 1)  # torch itself would wait here
if child == 0:
    assert folio_kv.get_executor() == "thread_pool"
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""


def test_a_forked_child_that_meets_a_new_type_of_arrays_keeps_threads_of_its_own():
    subprocess.run([sys.executable, "-c", CHILD_MEETS_A_NEW_TYPE], check=True, timeout=600)
