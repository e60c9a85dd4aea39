# SPDX-License-Identifier: Apache-2.0
"""torch.ops.folio_kv.*: declared writes, fake kernels, torch.compile, against the reference."""

import math

import pytest
import torch
from torch_reference import assert_close, assert_lse_close, attention, paged, random, rotate

import folio_kv.torch_ops  # noqa: F401
from folio_kv import Error, KVCache, Unsupported

ops = torch.ops.folio_kv
LENGTHS, NEW = [3, 16, 17, 40], [1, 2, 1, 5]
TOKENS = sum(NEW)


def ints(values: list[int]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


class Case:
    """A batch whose new tokens' pages are there but not yet written."""

    def __init__(self, dtype=torch.float32):
        keys = [random((n, 2, 64), dtype, 10 + b) for b, n in enumerate(LENGTHS)]
        values = [random((n, 2, 64), dtype, 20 + b) for b, n in enumerate(LENGTHS)]
        self.keys, self.values = keys, values
        self.cache = paged(keys, values, 16)
        self.q = random((TOKENS, 4, 64), dtype, 1)
        self.offsets = ints([0, *NEW]).cumsum(0).to(torch.int32)
        self.lengths = ints(LENGTHS)
        self.k = torch.cat([k[n - new :] for k, n, new in zip(keys, LENGTHS, NEW)])
        self.v = torch.cat([v[n - new :] for v, n, new in zip(values, LENGTHS, NEW)])

    def batch(self):
        return self.offsets, self.lengths, self.cache.table

    def planes(self):
        return self.cache.key, self.cache.value

    def clear_new_tokens(self) -> None:
        for b, (n, new) in enumerate(zip(LENGTHS, NEW)):
            for t in range(n - new, n):
                at = int(self.cache.table[b, t // 16]), t % 16
                self.cache.key[at] = self.cache.value[at] = math.nan

    def check(self, out, lse=None, **options) -> None:
        for b, own in enumerate(out.split(NEW)):
            first = int(self.offsets[b])
            q = self.q[first : first + NEW[b]]
            want, want_lse = attention(q, self.keys[b], self.values[b], causal=True, **options)
            assert_close(own, want, torch.cat(self.values))
            if lse is not None:
                assert_lse_close(lse[first : first + NEW[b]], want_lse, self.q.dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_attend_agrees_with_double_precision(dtype) -> None:
    case = Case(dtype)
    out, lse = ops.attend_lse(case.q, *case.planes(), *case.batch())
    case.check(out, lse)
    assert torch.equal(ops.attend(case.q, *case.planes(), *case.batch()), out)


def test_step_appends_and_attends() -> None:
    case = Case()
    want = case.cache.key.clone()
    case.clear_new_tokens()
    out = ops.step(case.q, case.k, case.v, *case.planes(), *case.batch())
    case.check(out)
    assert torch.equal(torch.nan_to_num(case.cache.key), torch.nan_to_num(want))


def test_append_writes_by_table_or_by_slots() -> None:
    case = Case()
    want = torch.nan_to_num(case.cache.key)
    case.clear_new_tokens()
    ops.append(case.k, case.v, *case.planes(), *case.batch())
    assert torch.equal(torch.nan_to_num(case.cache.key), want)
    slots = torch.arange(TOKENS, dtype=torch.int64) * 2
    other = torch.zeros(4, 16, 2, 64)
    ops.append(case.k, case.v, other, torch.zeros_like(other), *case.batch(), slots=slots)
    assert torch.equal(other.view(64, 2, 64)[slots], case.k)


def test_options_are_those_of_a_kind() -> None:
    case = Case()
    options = {"scale": 0.2, "softcap": 2.0, "window_left": 8}
    alibi, sinks = torch.rand(4), torch.rand(4)
    out = ops.attend(case.q, *case.planes(), *case.batch(), **options, alibi=alibi, sinks=sinks)
    case.check(out, scale=0.2, softcap=2.0, window=(8, -1), alibi=alibi, sinks=sinks)


def test_head_major_caches_are_told_by_order() -> None:
    case = Case()
    planes = [x.transpose(1, 2).contiguous() for x in case.planes()]
    case.check(ops.attend(case.q, *planes, *case.batch(), order="HND"))


def test_rows_of_q_behind_the_batch_are_padding_and_come_out_as_zero() -> None:
    case = Case()
    padded = torch.cat([case.q, torch.full((3, 4, 64), math.nan)])
    out = ops.attend(padded, *case.planes(), *case.batch())
    case.check(out[:TOKENS])
    assert torch.count_nonzero(out[TOKENS:]) == 0


def test_a_latent_cache_has_its_values_in_its_keys() -> None:
    key = random((4, 16, 1, 96), torch.float32, 1)
    q = random((1, 4, 96), torch.float32, 2)
    out = ops.attend(q, key, None, ints([0, 1]), ints([20]), ints([[2, 1]]), v_in_key=64)
    rows = torch.cat([key[2], key[1, :4]])
    want, _ = attention(q, rows, rows[..., :64])
    assert_close(out, want, rows)


def test_quantised_caches_take_their_scales() -> None:
    case = Case()
    pages = KVCache(1, 16, 16, kv_heads=2, head_size=64, dtype="i8")[0]
    key, value = torch.from_dlpack(pages.key), torch.from_dlpack(pages.value)
    scales = [torch.zeros(16, 16, 2, 1), torch.zeros(16, 16, 2, 1)]
    lengths, table = ints(NEW), torch.arange(4, dtype=torch.int32).unsqueeze(1)
    out = ops.step(
        case.q, case.k, case.v, key, value, case.offsets, lengths, table,
        key_scales=scales[0], value_scales=scales[1],
    )  # fmt: skip
    assert bool((scales[0][0, :1] > 0).all())
    for b, own in enumerate(out.split(NEW)):
        first = int(case.offsets[b])
        rows = slice(first, first + NEW[b])
        want, _ = attention(case.q[rows], case.k[rows], case.v[rows], causal=True)
        assert float((own - want).abs().max()) < 0.05


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotate_turns_rows_by_their_positions(interleaved) -> None:
    angles = random((50, 16), torch.float32, 3)
    positions = [0, 3, 49, 3, 7, 8, 9, 1, 2]
    x = random((9, 4, 64), torch.float32, 1)
    cos_sin = torch.cat([angles.cos(), angles.sin()], 1)
    got = ops.rotate(x, cos_sin, ints(positions), interleaved=interleaved)
    want = rotate(x, angles.cos(), angles.sin(), positions, interleaved)
    assert torch.allclose(got.double(), want, atol=1e-5)


def test_merge_joins_disjoint_keys() -> None:
    case = Case()
    q, k, v = case.q, torch.cat(case.keys), torch.cat(case.values)
    whole, _ = attention(q, k, v)
    parts = [attention(q, a, b) for a, b in zip(k.chunk(3), v.chunk(3))]
    outs, lses = [out.float() for out, _ in parts], [lse.float() for _, lse in parts]
    assert_close(ops.merge(outs, lses)[0], whole, v)


def test_copy_pages_copies_the_first_tokens_of_pages_in_all_layers() -> None:
    key, value = ([random((4, 8, 1, 16), torch.float32, s + i) for i in range(2)] for s in (1, 5))
    want = [x.clone() for x in (*key, *value)]
    ops.copy_pages(key, value, torch.tensor([[1, 3, 5], [0, 2, 8]]))
    for got, before in zip((*key, *value), want):
        before[3, :5], before[2] = before[1, :5], before[0].clone()
        assert torch.equal(got, before)


def test_a_table_that_changes_in_place_is_read_anew() -> None:
    case = Case()
    first = ops.attend(case.q, *case.planes(), *case.batch())
    perm = torch.randperm(case.cache.key.shape[0], generator=torch.Generator().manual_seed(3))
    key, value = torch.empty_like(case.cache.key), torch.empty_like(case.cache.value)
    key[perm], value[perm] = case.cache.key, case.cache.value
    assigned = case.cache.table >= 0
    case.cache.table[assigned] = perm[case.cache.table[assigned].long()].to(torch.int32)
    assert torch.equal(ops.attend(case.q, key, value, *case.batch()), first)


def test_lengths_that_change_in_place_are_planned_anew() -> None:
    case = Case()
    ops.attend(case.q, *case.planes(), *case.batch())
    case.lengths -= 1
    case.keys, case.values = ([x[:-1] for x in xs] for xs in (case.keys, case.values))
    case.check(ops.attend(case.q, *case.planes(), *case.batch()))


def test_a_table_of_another_dtype_is_named() -> None:
    case = Case()
    with pytest.raises(Error, match="table: expected int32, got torch.int64"):
        ops.attend(case.q, *case.planes(), case.offsets, case.lengths, case.cache.table.long())


def test_a_gradient_is_refused() -> None:
    case = Case()
    case.q.requires_grad_()
    with pytest.raises(Unsupported, match="torch.ops.folio_kv.attend: an input requires a grad"):
        ops.attend(case.q, *case.planes(), *case.batch())
    with pytest.raises(Unsupported, match="torch.ops.folio_kv.merge"):
        ops.merge([case.q, case.q], [torch.rand(TOKENS, 4), torch.rand(TOKENS, 4)])
    with torch.no_grad():
        case.check(ops.attend(case.q, *case.planes(), *case.batch()))


def test_a_gradient_is_refused_when_a_model_is_compiled() -> None:
    case = Case()
    scale = torch.ones((), requires_grad=True)

    def attend(q):
        return ops.attend(q * scale, *case.planes(), *case.batch())

    compiled = torch.compile(attend, backend="aot_eager", fullgraph=True)
    with pytest.raises(Exception, match="requires a gradient"):
        compiled(case.q)


def test_an_exported_model_gives_the_eager_results_and_the_same_cache() -> None:
    class Model(torch.nn.Module):
        def forward(self, q, k, v, key, value, offsets, lengths, table):
            return ops.step(q, k, v, key, value, offsets, lengths, table) * 2

    case = Case()
    case.clear_new_tokens()
    planes, others, before = ([p.nan_to_num(0) for p in case.planes()] for _ in range(3))
    exported = torch.export.export(Model(), (case.q, case.k, case.v, *planes, *case.batch()))
    got = exported.module()(case.q, case.k, case.v, *planes, *case.batch())
    assert torch.equal(got, Model()(case.q, case.k, case.v, *others, *case.batch()))
    assert all(torch.equal(a, b) for a, b in zip(planes, others))
    assert not torch.equal(planes[0], before[0])


def arguments(name: str) -> tuple[tuple, dict]:
    case = Case()
    case.cache.key.nan_to_num_(0)  # opcheck compares what it copied, and NaN differs from NaN
    case.cache.value.nan_to_num_(0)
    planes, batch = case.planes(), case.batch()
    positions = torch.arange(TOKENS, dtype=torch.int32)
    cos_sin = random((max(LENGTHS), 64), torch.float32, 9)
    bias = random((4, TOKENS, max(LENGTHS)), torch.float32, 8)
    return {
        "append": ((case.k, case.v, *planes, *batch), {"cos_sin": cos_sin}),
        "attend": ((case.q, *planes, *batch), {"window_left": 5, "bias": bias}),
        "attend_lse": ((case.q, *planes, *batch), {"sinks": torch.rand(4)}),
        "step": (
            (case.q, case.k, case.v, *planes, *batch),
            {"cos_sin": cos_sin, "positions": positions},
        ),
        "rotate": ((case.q, cos_sin, positions), {}),
        "merge": (([case.q, case.q], [torch.rand(TOKENS, 4), torch.rand(TOKENS, 4)]), {}),
        "copy_pages": (([planes[0]], [planes[1]], torch.tensor([[1, 0, 16]])), {}),
    }[name]


OPERATORS = ["append", "attend", "attend_lse", "step", "rotate", "merge", "copy_pages"]


@pytest.mark.parametrize("name", OPERATORS)
def test_opcheck_passes(name) -> None:
    args, kwargs = arguments(name)
    torch.library.opcheck(getattr(ops, name).default, args, kwargs)


@pytest.mark.parametrize("name", OPERATORS)
def test_the_fake_kernel_gives_the_real_ones_shapes_dtypes_and_strides(name) -> None:
    args, kwargs = arguments(name)
    op = getattr(ops, name)
    real = op(*args, **kwargs)
    with torch._subclasses.FakeTensorMode() as mode:
        fake_args, fake_kwargs = torch.utils._pytree.tree_map_only(
            torch.Tensor, mode.from_tensor, (args, kwargs)
        )
        fake = op(*fake_args, **fake_kwargs)
    reals, fakes = (x if isinstance(x, tuple) else (x,) for x in (real, fake))
    for a, b in zip(reals, fakes):
        if a is not None:
            assert (a.shape, a.dtype, a.stride()) == (b.shape, b.dtype, b.stride())


class Layer(torch.nn.Module):
    """Projections around every operator, as a model of an engine would have them."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = torch.nn.Linear(64, 64 * 8)
        self.out = torch.nn.Linear(4 * 64, 64)

    def forward(self, x, key, value, offsets, lengths, table, cos_sin, positions):
        q, k, v = self.qkv(x).view(-1, 8, 64).split([4, 2, 2], dim=1)
        a = ops.step(
            q, k, v, key, value, offsets, lengths, table, cos_sin=cos_sin, positions=positions
        )
        q = ops.rotate(q, cos_sin, positions)
        ops.append(k * 2, v, value, key, offsets, lengths, table)
        b, lse_b = ops.attend_lse(q, key, value, offsets, lengths, table, window_left=9)
        c, lse_c = ops.attend_lse(q, value, key, offsets, lengths, table)
        merged, _ = ops.merge([b, c], [lse_b, lse_c])
        ops.copy_pages([key], [value], torch.tensor([[0, 1, 3]]))
        return x + self.out((a + merged).flatten(1)), ops.attend(
            q, key, value, offsets, lengths, table
        )


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_compiled_model_gives_the_eager_results_and_the_same_cache(backend) -> None:
    torch.manual_seed(0)
    layer, case = Layer().eval(), Case()
    planes = [x.nan_to_num(0) for x in case.planes()]
    x, positions = torch.randn(TOKENS, 64), torch.arange(TOKENS, dtype=torch.int32)
    cos_sin = random((TOKENS, 64), torch.float32, 9)
    eager_planes, compiled_planes = ([p.clone() for p in planes] for _ in range(2))
    with torch.no_grad():
        want = layer(x, *eager_planes, *case.batch(), cos_sin, positions)
        compiled = torch.compile(layer, backend=backend, fullgraph=True)
        got = compiled(x, *compiled_planes, *case.batch(), cos_sin, positions)
    for a, b in zip((*got, *compiled_planes), (*want, *eager_planes)):
        assert torch.allclose(a, b, atol=1e-5)
    assert not torch.equal(eager_planes[0], planes[0])


def test_a_model_compiled_once_serves_batches_of_other_sizes() -> None:
    def attend(q, key, value, offsets, lengths, table):
        return ops.attend(q, key, value, offsets, lengths, table) * 2

    compiled = torch.compile(attend, backend="aot_eager", fullgraph=True, dynamic=True)
    case = Case()
    assert torch.equal(
        compiled(case.q, *case.planes(), *case.batch()),
        attend(case.q, *case.planes(), *case.batch()),
    )
    one = (case.q[:1], *case.planes(), ints([0, 1]), ints([3]), case.cache.table[:1])
    assert torch.equal(compiled(*one), attend(*one))
