# SPDX-License-Identifier: Apache-2.0
"""Bytes that vLLM's formulas make of known rows, put into its blocks: folio reads what vLLM would.

The rows have x_i = ((37 i mod n) - (n - 1) / 2) / 8, and 100 at i = 5. Their bytes were made by
vLLM's own transform (`single_rht`), its formulas in NumPy, and ml_dtypes.
"""

from __future__ import annotations

from typing import Any

import pytest
from vllm_scaled import rows_in

pytestmark = pytest.mark.quick

BLOCK, SLOT, HEAD = 2, 3, 1  # where the rows are put
INT4 = {
    64: "c2f41c1dc4d21c1ec2e32d1dc3e33e5be3c42d3ed2d04d3dc3e23d4cd2d22b3e" + "c8cc9941",
    96: "e0d41e4ef4f33f2ff4d45d2ef3e24f3f9a97a79a6889ab9b89a9989898aa98a98abbac99a89aa78989a87a899b"
    "998a98" + "b9bb8c41",
}
NVFP4 = {  # by the calibrated scale: elements, scales
    1.0: ("08087888808000086d7ae2c5963f6e7cf0d4b6175e6df9e3c5874f6e7be1d4a6", "58323232"),
    100 / 2688: ("08087888808000086d7ae2c5963f5e7ce0d4a6175e6df9e2c5874f6e7bf1d5a6", "7e595958"),
}
K8V4_VALUE = "1010f00101011110101001011110101001010111101001010111101010010101"


def given(size: int) -> Any:
    import torch

    x = ((37 * torch.arange(size)) % size - (size - 1) / 2) / 8
    x[5] = 100
    return x.double()


def bytes_of(text: str) -> Any:
    import torch

    return torch.frombuffer(bytearray.fromhex(text), dtype=torch.uint8)


def read(layer: Any) -> tuple[Any, Any]:
    """K and V of the one slot by folio, V also as attention over that key alone."""
    import torch

    import folio_kv

    layer.impl._bind(layer, layer.kv_cache)
    pages = layer.impl._pages
    heads, size = pages.kv_heads, pages.head_size
    k, v = torch.full((2, 1, heads, 1, size), torch.nan)
    place = BLOCK * pages.page_size + SLOT
    folio_kv.copy_slots([pages], [folio_kv.Pages(k, v, order="HND")], [(place, 0)])
    slots = torch.tensor([[BLOCK]], dtype=torch.int32)
    step = folio_kv.Step([0, 1], [SLOT + 1], slots)
    kind = folio_kv.Kind(heads, window=1)
    out = torch.as_tensor(step.attend(kind, pages, torch.ones(1, heads, size)))
    torch.testing.assert_close(out[0, HEAD], v[0, HEAD, 0], rtol=1e-6, atol=1e-5)
    return k[0, HEAD, 0].double(), v[0, HEAD, 0].double()


def expected(layer: Any, name: str, size: int, *scales: float) -> tuple[Any, Any]:
    place = BLOCK * layer.kv_cache.shape[2] + SLOT
    return tuple(rows[place, HEAD] for rows in rows_in(name, layer.kv_cache, size, *scales))


@pytest.mark.parametrize("size", INT4)
def test_int4_per_token_head(make_layer: Any, size: int) -> None:
    import torch

    layer = make_layer("int4_per_token_head", head_size=size)
    layer.kv_cache[BLOCK, HEAD, SLOT] = bytes_of(2 * INT4[size])
    wanted = expected(layer, "int4_per_token_head", size)
    word = bytes_of(INT4[size])[-4:].view(torch.float32)
    block = size & -size
    half_steps = float(word) / 2 * (size / block) ** 0.5  # of a row turned back
    for row, formula in zip(read(layer), wanted, strict=True):
        torch.testing.assert_close(row, formula, rtol=1e-6, atol=1e-5)
        assert float((row - given(size)).norm()) <= half_steps


@pytest.mark.parametrize("name", ["int8_per_token_head", "fp8_per_token_head"])
def test_rows_of_8_bits(make_layer: Any, name: str) -> None:
    import torch

    codes = torch.arange(-32, 32, dtype=torch.int8)
    if name == "fp8_per_token_head":
        codes = given(64).to(torch.float8_e4m3fn).view(torch.int8)
    scales = torch.tensor([0.625, 3e-3])
    layer = make_layer(name, head_size=64)
    sides = (torch.cat([codes, scale.view(1).view(torch.int8)]) for scale in scales)
    layer.kv_cache[BLOCK, HEAD, SLOT] = torch.cat(list(sides)).view(layer.kv_cache.dtype)
    for row, scale in zip(read(layer), scales.double(), strict=True):
        numbers = codes if name[0] == "i" else codes.view(torch.float8_e4m3fn)
        torch.testing.assert_close(row, numbers.double() * scale, rtol=1e-7, atol=0)


def test_nvfp4(make_layer: Any) -> None:
    import torch
    from vllm.utils.torch_utils import nvfp4_split_data_scale

    layer = make_layer("nvfp4", head_size=64)
    layer._k_scale_float, layer._v_scale_float = NVFP4
    heads = layer.num_kv_heads
    for side, (data, scales) in zip(
        layer.kv_cache.split(heads, dim=1), NVFP4.values(), strict=True
    ):
        theirs = nvfp4_split_data_scale(side)  # views as vLLM has them
        theirs[0][BLOCK, HEAD, SLOT] = bytes_of(data)
        theirs[1].view(torch.uint8)[BLOCK, HEAD, SLOT] = bytes_of(scales)
    wanted = expected(layer, "nvfp4", 64, *NVFP4)
    for row, formula in zip(read(layer), wanted, strict=True):
        torch.testing.assert_close(row, formula, rtol=1e-6, atol=0)
        assert float((row - given(64)).norm() / given(64).norm()) < 0.1
    assert float(wanted[0][5]) == 96  # 6 times the e4m3 next to 100 / 6


def test_turboquant_k8v4(make_layer: Any) -> None:
    import torch

    layer = make_layer("turboquant_k8v4", head_size=64)
    key = given(64).to(torch.float8_e4m3fn)
    value = bytes_of(K8V4_VALUE + "ee46" + "e0c3")
    layer.kv_cache[BLOCK, HEAD, SLOT] = torch.cat([key.view(torch.uint8), value])
    wanted = expected(layer, "turboquant_k8v4", 64)
    for row, formula in zip(read(layer), wanted, strict=True):
        torch.testing.assert_close(row, formula, rtol=1e-6, atol=1e-6)
    assert wanted[0].equal(key.double())
    step = float(value[-4:-2].view(torch.float16))
    assert float((wanted[1] - given(64)).abs().max()) < step / 2 + 0.05  # f16's step near 100
