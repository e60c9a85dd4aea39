#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# findings/lmcache_front_of_a_longer_page.sh: LMCache's file store loads the first bytes of a longer object as the whole of a shorter one.
# An object's name has no type of the cache, and only a file that is too short is refused: an engine that is started again with a cache of
# eight bits takes the front half of what it has stored in sixteen, bytes of other numbers, for its own.
. "$(dirname "$0")/support.sh"
need lmcache==0.5.6 aiofiles==25.1.0 numpy==2.4.6 ml_dtypes==0.6.0
skip_init lmcache
stand_in torch lmcache.lmcache_native lmcache.v1.distributed.serde lmcache.v1.memory_management lmcache.v1.mp_observability.otel_init \
  lmcache.v1.platform
expect "1.5 stored as bfloat16; an engine of bfloat16 loads 1.5 1.5, one of float8_e4m3fn nothing"
see "1.5 stored as bfloat16; an engine of bfloat16 loads 1.5 1.5, one of float8_e4m3fn -2 1.875" <<'PYTHON'
import logging
import time

import ml_dtypes
import numpy as np
from lmcache.v1.distributed.api import ObjectKey
from lmcache.v1.distributed.l2_adapters import fs_l2_adapter

logging.disable(logging.CRITICAL)
NUMBERS = 64


class Bitmap(set):
    """The keys of a batch that were found, as the adapter notes them."""

    def __init__(self, _size):
        super().__init__()

    set = set.add

    def get_indices_list(self):
        return sorted(self)


class Page:
    def __init__(self, array):
        self.array, self.byte_array = array, memoryview(array.view(np.uint8))


def ended(ask):
    deadline = time.monotonic() + 30
    while (answer := ask()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return answer


def loaded(dtype):
    page = Page(np.zeros(NUMBERS, dtype))
    task = store.submit_load_task([key], [page])
    found = ended(lambda: store.query_load_result(task))
    return " ".join(f"{float(number):g}" for number in page.array[:2]) if found else "nothing"


fs_l2_adapter.Bitmap = Bitmap
store = fs_l2_adapter.FSL2Adapter(fs_l2_adapter.FSL2AdapterConfig("pages"))
key = ObjectKey(chunk_hash=bytes(32), model_name="org/model", kv_rank=ObjectKey.ComputeKVRank(1, 0, 1, 0))
store.submit_store_task([key], [Page(np.full(NUMBERS, 1.5, ml_dtypes.bfloat16))])
ended(lambda: store.pop_completed_store_tasks() or None)
print(
    f"1.5 stored as bfloat16; an engine of bfloat16 loads {loaded(ml_dtypes.bfloat16)},"
    f" one of float8_e4m3fn {loaded(ml_dtypes.float8_e4m3fn)}"
)
store.close()
PYTHON
