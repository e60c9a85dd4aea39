# SPDX-License-Identifier: Apache-2.0
"""SGLang's attention kernels for CPUs, as vLLM's wheel carries them; one row of indices per token.

SGLang itself asks for AMX; without it these rows are what its kernels could do here.
"""

from __future__ import annotations

import torch

from contenders.vllm_cpu import load_kernels

PAGE_SIZE = 64
SPLITS = 8  # pieces of a context that decode gives out


class SgLang:
    def __init__(self, problem, threads) -> None:
        shape = problem.shape
        self.versions = load_kernels()
        self._problem = problem
        tables = problem.table(PAGE_SIZE)
        slots = problem.num_pages(PAGE_SIZE) * PAGE_SIZE
        self._rows = [problem.slots(table, PAGE_SIZE) for table in tables]
        self._key = torch.zeros(slots, shape.kv_heads, shape.head_size, dtype=torch.bfloat16)
        self._value = self._key[..., : shape.v_head_size]
        if not shape.is_latent:
            self._value = torch.zeros(
                slots, shape.kv_heads, shape.v_head_size, dtype=torch.bfloat16
            )
        key, value = problem.own_rows()
        for table in tables:
            own = problem.own_slots(table, PAGE_SIZE)
            self._key[own] = key
            self._value[own] = value
        self._indices = [rows.view(shape.batch, -1).to(torch.int32) for rows in self._rows]
        self._requests, self._lengths = torch.arange(shape.batch), problem.lengths().long()
        self._out = torch.empty(
            shape.tokens, shape.q_heads, shape.v_head_size, dtype=torch.bfloat16
        )
        self._logits = torch.empty(shape.batch, shape.q_heads, SPLITS, shape.v_head_size + 1)
        self._new = problem.new_rows()
        self._new_lengths = torch.full((shape.batch,), shape.new, dtype=torch.int32)
        self._starts = problem.query_offsets()[:-1].contiguous()
        self.bytes = 2 * shape.distinct_tokens * shape.row_elements

    def attend(self, copy: int) -> None:
        if self._problem.shape.new == 1:
            torch.ops._C.decode_attention_cpu(
                self._problem.q, self._key, self._value, self._out, None, None, None, self._logits,
                self._indices[copy], self._requests, self._lengths, self._problem.scale, 0.0, False,
                -1, None, None,
            )  # fmt: skip
        else:
            torch.ops._C.extend_attention_cpu(
                self._problem.q, *self._new, self._out, self._key, self._value, self._indices[copy],
                self._requests, self._lengths, self._new_lengths, self._starts,
                self._problem.shape.new, self._problem.scale, 0.0, False, -1, None, None, None,
            )  # fmt: skip

    def output(self) -> torch.Tensor:
        return self._out
