# SPDX-License-Identifier: Apache-2.0
"""Rows of NVFP4 and MXFP4 beside compressed-tensors, whose checkpoints of four bits vLLM loads."""

from __future__ import annotations

import numpy as np
import pytest

import folio_kv
from folio_kv import Format

torch = pytest.importorskip("torch")
helpers = pytest.importorskip("compressed_tensors.compressors.nvfp4.helpers")
from compressed_tensors.compressors.mx_utils import (  # noqa: E402
    compress_mx_scale,
    decompress_mx_scale,
)
from compressed_tensors.quantization.quant_args import FP4_E2M1_DATA  # noqa: E402
from compressed_tensors.quantization.utils.helpers import generate_gparam  # noqa: E402

TOKENS, DIM = 64, 128
NVFP4 = {"scale_dtype": "f8_e4m3", "granularity": 16}
MXFP4 = {"scale_dtype": "f8_e8m0", "granularity": 32}


def pages_of(data: np.ndarray, format: Format, scales: np.ndarray) -> folio_kv.Pages:
    """One page of rows [tokens, bytes], scales [tokens, granules] beside them."""
    return folio_kv.Pages(
        data[None, :, None], dtype=format, key_scales=scales.view(np.uint8)[None, :, None]
    )


def appended(rows: np.ndarray, format: Format) -> tuple[np.ndarray, np.ndarray]:
    data = np.zeros((len(rows), DIM // 2), np.uint8)
    scales = np.zeros((len(rows), DIM // (format.granularity or 1)), np.uint8)
    pages = pages_of(data, format, scales)
    folio_kv.append(None, pages, rows[:, None], slots=np.arange(len(rows)))
    return data, scales


def read(data: np.ndarray, format: Format, scales: np.ndarray) -> np.ndarray:
    out = np.full((1, len(data), 1, DIM), 12345, np.float32)
    pages = pages_of(data, format, scales)
    folio_kv.copy_pages([pages], [folio_kv.Pages(out)], [(0, 0, len(data))])
    return out[0, :, 0]


def packed(rows: torch.Tensor, scales: torch.Tensor) -> np.ndarray:
    """Theirs, of rows [tokens, dim] and scales [tokens, granules]; the compiled cast as it is
    written."""
    steps = rows / scales.repeat_interleave(DIM // scales.shape[1], 1)
    cast = FP4_E2M1_DATA.cast_to_fp4._torchdynamo_orig_callable
    return helpers.pack_fp4_to_uint8(cast(steps)).numpy()


def rows_of(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((TOKENS, DIM)) * 2.0 ** rng.uniform(-3, 3, (TOKENS, 1))
    rows[:, 17] *= 30
    return rows.astype(np.float32)


def test_nvfp4_of_compressed_tensors_is_read() -> None:
    """Its global scale divides: the tensor scale is one over it."""
    rows = torch.from_numpy(rows_of(1))
    given = generate_gparam(rows.min(), rows.max())
    largest = rows.reshape(TOKENS, -1, 16).abs().amax(-1)
    scales = (given * largest / 6).to(torch.float8_e4m3fn)
    data = packed(rows, scales.float() / given)
    format = Format("f4_e2m1", **NVFP4, tensor_scale=1 / float(given))
    numbers = helpers.unpack_fp4_from_uint8(torch.from_numpy(data), TOKENS, DIM, torch.float64)
    expected = numbers * (scales.double() / given.double()).repeat_interleave(16, 1)
    found = read(data, format, scales.view(torch.uint8).numpy())
    np.testing.assert_allclose(found, expected.numpy(), rtol=3e-7)
    assert np.abs(found - rows.numpy()).max() < np.abs(rows.numpy()).max() / 5


@pytest.mark.parametrize("tensor_scale", [1.0, 2.0**-5])
def test_nvfp4_is_packed_as_by_compressed_tensors(tensor_scale: float) -> None:
    """With folio's scales, which are rounded up; where the nearest is that, with its own, too."""
    rows = rows_of(2)
    rows[:, 0] = rows[:, 1] = 0.0
    format = Format("f4_e2m1", **NVFP4, tensor_scale=tensor_scale)
    data, scales = appended(rows, format)
    numbers = torch.from_numpy(scales).view(torch.float8_e4m3fn).float()
    given = torch.from_numpy(rows)
    np.testing.assert_array_equal(data, packed(given, numbers * tensor_scale))
    largest = given.reshape(TOKENS, -1, 16).abs().amax(-1) / (6 * tensor_scale)
    nearest = largest.to(torch.float8_e4m3fn)
    is_same = (nearest.float() >= largest) | (nearest.float() == 448)
    assert 0.2 < is_same.float().mean() < 0.8
    assert torch.equal(nearest.float()[is_same], numbers[is_same])
    assert (numbers[~is_same] > nearest.float()[~is_same]).all()


def test_mxfp4_is_packed_as_by_compressed_tensors() -> None:
    rows = rows_of(3)
    format = Format("f4_e2m1", **MXFP4)
    data, scales = appended(rows, format)
    numbers = decompress_mx_scale(torch.from_numpy(scales)).float()
    np.testing.assert_array_equal(data, packed(torch.from_numpy(rows), numbers))
    assert np.array_equal(compress_mx_scale(numbers, torch.uint8).numpy(), scales)
    unpacked = helpers.unpack_fp4_from_uint8(torch.from_numpy(data), TOKENS, DIM, torch.float32)
    expected = (unpacked * numbers.repeat_interleave(32, 1)).numpy()
    np.testing.assert_array_equal(read(data, format, scales), expected)
