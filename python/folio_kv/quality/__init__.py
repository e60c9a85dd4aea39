# SPDX-License-Identifier: Apache-2.0
"""python -m folio_kv.quality MODEL: what each type of KV cache costs a model, on this machine.

    python -m folio_kv.quality MODEL                  MODEL: a folder of transformers', or a GGUF file
    python -m folio_kv.quality MODEL --types int8,int4-rotated
    python -m folio_kv.quality MODEL --text FILE --tokens 4096
    python -m folio_kv.quality MODEL --format markdown --json RESULT.json --plot RESULT.svg
    python -m folio_kv.quality MODEL --pages 512,1024 --page-size 16,64   sparse attention instead
    python -m folio_kv.quality --list                 the types

For each type: bytes a token takes, perplexity, mean KL divergence and how often another token is
the likeliest, beside transformers' own cache in float32, and decoded tokens per second. The model
runs in float32, so that nothing but the cache differs. Types that begin with llama- run in
llama.cpp, beside its own float32 cache: there MODEL is the GGUF file, or --llama-model says which.

--pages N: layers without a window attend to N tokens alone, to whole pages by their bounds
(folio_kv.transformers.SparsePages), every query for itself, from a bf16 cache; the row bf16 reads
all. `keys` is what was read of what was seen, `weights` by how much attention's weights were cut at
the most, on average, as bounds tell. --scored-from leaves out tokens of short contexts.
"""
