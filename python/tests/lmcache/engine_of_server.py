# SPDX-License-Identifier: Apache-2.0
"""vllm_store_worker.py in a process of stock vLLM that talks to LMCache's server."""

from __future__ import annotations

import sys
from pathlib import Path

from folio_kv.bench.lmcache_server import let_vllm_start

sys.path.append(str(Path(__file__).parents[1] / "vllm"))
from vllm_store_worker import run_case  # noqa: E402
from vllm_worker import main  # noqa: E402

if __name__ == "__main__":
    let_vllm_start()
    main(run_case)
