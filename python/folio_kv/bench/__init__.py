# SPDX-License-Identifier: Apache-2.0
"""python -m folio_kv.bench: folio beside torch and the engines' own attention, on this machine.

    python -m folio_kv.bench                        attention alone, and the engines that are there
    python -m folio_kv.bench --quick                the same at 1k, in two or three minutes
    python -m folio_kv.bench --only attention       one part; parts are attention, generate,
                                                    generate_batch, vllm
    python -m folio_kv.bench --json RESULTS.json --commit COMMIT
    python -m folio_kv.bench.report RESULTS.json .. --document PAGE.md --figures FOLDER

What is compared takes turns in one process (vLLM: in two processes each, in the order stock, folio,
folio, stock), and the numbers are medians. A ratio says how many times faster folio is; below 1 it
is slower.
"""
