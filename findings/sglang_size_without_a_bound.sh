#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# findings/sglang_size_without_a_bound.sh: SGLang's file store of pages has no bound when its max_size is "200GB": it fills the disk.
# A size that it cannot read is none, and none is no bound; one line of the start's log says so. It reads "200G" and "200Gi", and of numbers
# with a point those of powers of ten alone.
. "$(dirname "$0")/support.sh"
need sglang==0.5.23 numpy==2.4.6 msgspec==0.22.0 psutil==7.2.2 pyzmq==27.3.0 pydantic==2.14.3 pydantic_core==2.50.4 \
  annotated-types==0.8.0 typing-inspection==0.4.5 typing_extensions==4.16.0
skip_init sglang
skip_init sglang/srt/utils
skip_init sglang/srt/mem_cache/storage
stand_in torch triton PIL starlette requests orjson pybase64 packaging sglang.srt.observability sglang.srt.platforms \
  sglang.srt.utils.video_decoder
expect "bounds of 1G: 1000000000, 1Gi: 1073741824, 1GB: an error, 1GiB: an error, 1.5Gi: an error"
see "bounds of 1G: 1000000000, 1Gi: 1073741824, 1GB: none, 1GiB: none, 1.5Gi: none" <<'PYTHON'
import logging
import os

from sglang.srt.mem_cache.storage.file.lru_file_evictor import LRUFileEvictor

logging.disable(logging.CRITICAL)
os.mkdir("pages")


def bound(size):
    """Of the store's files, in bytes."""
    try:
        evictor = LRUFileEvictor("pages", owned_suffixes=("_model_0_1",), tp_rank=0, extra_config={"max_size": size})
    except ValueError:
        return "an error"
    return str(evictor.max_size_bytes) if evictor.enabled else "none"


print("bounds of " + ", ".join(f"{size}: {bound(size)}" for size in ("1G", "1Gi", "1GB", "1GiB", "1.5Gi")))
PYTHON
