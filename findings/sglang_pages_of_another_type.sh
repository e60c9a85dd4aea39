#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# findings/sglang_pages_of_another_type.sh: SGLang's file store of pages has no type of the cache in a page's name.
# A server that is started again with another --dtype or --kv-cache-dtype of as many bytes finds the pages of before and serves them: every
# number of the cache is another, and nothing is raised. The name has the served model's name, which may be the same for other weights.
. "$(dirname "$0")/support.sh"
need sglang==0.5.23 numpy==2.4.6 ml_dtypes==0.6.0
skip_init sglang
skip_init sglang/srt/utils
skip_init sglang/srt/mem_cache/storage
stand_in torch sglang.srt.utils.common
expect "1.5 stored as bfloat16; a server of bfloat16 finds 1.5, one of float16 nothing"
see "1.5 stored as bfloat16; a server of bfloat16 finds 1.5, one of float16 1.9375" <<'PYTHON'
import logging

import ml_dtypes
import numpy as np
import torch
from sglang.srt.mem_cache.hicache_storage import HiCacheFile, HiCacheStorageConfig

logging.disable(logging.CRITICAL)


class Tensor:
    """What the store asks of a tensor, over numpy's array."""

    def __init__(self, array):
        self.array = array

    def numel(self):
        return self.array.size

    def element_size(self):
        return self.array.itemsize

    def contiguous(self):
        return self

    def view(self, dtype):
        assert dtype is torch.uint8
        return Tensor(self.array.view(np.uint8))

    def numpy(self):
        return self.array


def server():
    return HiCacheFile(
        HiCacheStorageConfig(
            tp_rank=0, tp_size=1, pp_rank=0, pp_size=1, attn_cp_rank=0, attn_cp_size=1, is_mla_model=False, enable_storage_metrics=False,
            is_page_first_layout=False, model_name="org/model",
        ),
        file_path="pages",
    )


def found(dtype):
    """The first number of the page as a server of this type loads it; its pages are of the same bytes."""
    store = server()
    if not store.exists(PAGE):
        return "nothing"
    page = np.zeros(64, dtype)
    store.get(PAGE, Tensor(page))
    return f"{float(page[0]):g}"


PAGE = "0" * 64
server().set(PAGE, Tensor(np.full(64, 1.5, ml_dtypes.bfloat16)))
print(f"1.5 stored as bfloat16; a server of bfloat16 finds {found(ml_dtypes.bfloat16)}, one of float16 {found(np.float16)}")
PYTHON
