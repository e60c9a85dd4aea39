# SPDX-License-Identifier: Apache-2.0
"""torch's scaled_dot_product_attention over dense K and V [batch, heads, tokens, size]; no pages.

`fold`: the q heads of a KV head as rows of one matrix, which decode allows; else enable_gqa.
"""

from __future__ import annotations

import torch
from torch.nn.functional import scaled_dot_product_attention

from contenders import Refused


class Sdpa:
    def __init__(self, problem, threads, fold) -> None:
        shape = problem.shape
        if fold and shape.new != 1:
            raise Refused("folding heads into rows is for decode")
        self.versions = {"torch": torch.__version__}
        self._problem, self._fold, self._result = problem, fold, None
        key, value = (
            rows.view(shape.batch, shape.context, shape.kv_heads, -1).transpose(1, 2).contiguous()
            for rows in problem.all_rows()
        )
        self._keys = [key.clone() for _ in range(problem.dense_copies)]
        if shape.is_latent:
            self._values = [rows[..., : shape.v_head_size] for rows in self._keys]
        else:
            self._values = [value.clone() for _ in range(problem.dense_copies)]
        rows = shape.tokens if shape.kind == "append" else shape.batch * shape.context
        self.bytes = 2 * rows * shape.row_elements
        self._prepare_q()
        self._prepare_append()

    def attend(self, copy: int) -> None:
        copy %= len(self._keys)
        self._result = scaled_dot_product_attention(
            self._q,
            self._keys[copy],
            self._values[copy],
            scale=self._problem.scale,
            **self._options,
        )

    def output(self) -> torch.Tensor:
        shape = self._problem.shape
        if self._fold:
            return self._result.reshape(shape.tokens, shape.q_heads, shape.v_head_size)
        return self._result.transpose(1, 2).reshape(shape.tokens, shape.q_heads, shape.v_head_size)

    def append(self, copy: int) -> None:
        copy %= len(self._keys)
        self._keys[copy].index_put_(self._where, self._new_key)
        self._values[copy].index_put_(self._where, self._new_value)

    def _prepare_q(self) -> None:
        shape, q = self._problem.shape, self._problem.q
        self._options = {}
        if self._fold:
            self._q = q.view(shape.batch, shape.kv_heads, -1, shape.head_size)
            return
        self._q = q.view(shape.batch, shape.new, shape.q_heads, -1).transpose(1, 2)
        self._options["enable_gqa"] = shape.q_heads != shape.kv_heads
        if shape.new == shape.context:
            self._options["is_causal"] = True
        elif shape.new > 1:  # is_causal means the upper left corner here
            mask = torch.ones(shape.new, shape.context, dtype=torch.bool)
            self._options["attn_mask"] = mask.tril(shape.context - shape.new)

    def _prepare_append(self) -> None:
        shape = self._problem.shape
        sequence = torch.arange(shape.batch).view(-1, 1, 1)
        head = torch.arange(shape.kv_heads).view(1, -1, 1)
        token = torch.arange(shape.context - shape.new, shape.context).view(1, 1, -1)
        self._where = (sequence, head, token)
        self._new_key, self._new_value = (
            rows.view(shape.batch, shape.new, shape.kv_heads, -1).transpose(1, 2)
            for rows in self._problem.new_rows()
        )
