# SPDX-License-Identifier: Apache-2.0
"""python -m folio_kv.bench: folio beside torch and beside the engines' own attention, on this machine.

    python -m folio_kv.bench                        attention alone, and the engines that are installed
    python -m folio_kv.bench --quick                the same at 1k, in two or three minutes
    python -m folio_kv.bench --only attention       one part; parts are attention, generate,
                                                    generate_batch, vllm
    python -m folio_kv.bench --json RESULTS.json --commit COMMIT
    python -m folio_kv.bench.report RESULTS.json .. --document PAGE.md --figure FIGURE.svg

What is compared runs in turns in one process (the engines in vLLM: in two, one after the other), and
the numbers are medians. A ratio is the other's time divided by folio's: below 1 folio is slower.
"""
