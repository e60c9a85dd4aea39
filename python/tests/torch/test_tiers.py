# SPDX-License-Identifier: Apache-2.0
"""Pages in torch's tensors: through tiers, and below a pool over an engine's own K and V."""

import gc
import socket
import weakref

import numpy as np
import pytest
import torch

import folio_kv
from folio_kv import tiers

MIB = 1 << 20


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.int8])
@pytest.mark.parametrize("kind", ["host", "disk"])
def test_pages_of_tensors_come_back_as_they_went(dtype, kind, tmp_path):
    def blocks(fill):  # as engines have them: [2, blocks, slots, heads, dim], K and V of a layer
        made = torch.rand(2, 6, 4, 2, 8) if fill else torch.zeros(2, 6, 4, 2, 8)
        return (50 * made).to(dtype)

    layers, back = [blocks(True) for _ in range(2)], [blocks(False) for _ in range(2)]
    source = tiers.PageArrays([layer.transpose(0, 1) for layer in layers])
    target = tiers.PageArrays([half for layer in back for half in layer])  # K, V, K, V
    assert source.page_bytes == target.page_bytes == 2 * layers[0][:, 0].numel() * dtype.itemsize
    make = tiers.HostTier if kind == "host" else tiers.DiskTier
    arguments = (MIB,) if kind == "host" else (str(tmp_path), 4 * MIB)
    options = {} if kind == "host" else {"segment_bytes": MIB}
    with make(*arguments, **options) as tier:
        names = [b"a", b"b", b"c"]
        numbers = torch.tensor([5, 0, 3])
        assert tier.store(names, source, numbers).wait()
        load = tier.load(names, target, [1, 4, 2], order="extents")
        assert load.wait() and load.outcomes == ["done"] * 3 and load.landed() == 4
        whole = [layer[:, 0].contiguous().view(torch.uint8).flatten() for layer in layers]
        buffers = [torch.zeros(source.page_bytes, dtype=torch.uint8)]
        assert tier.load([b"b"], buffers).wait() and buffers[0].equal(torch.cat(whole))
    for layer, copy in zip(layers, back):
        for i, j in zip((5, 0, 3), (1, 4, 2)):
            assert copy[:, j].view(torch.uint8).equal(layer[:, i].contiguous().view(torch.uint8))


def test_an_engine_with_tensors_of_its_own_finds_its_prompts_after_a_restart(tmp_path):
    prompt = list(range(13))

    def planes_of(turn):
        """K and V of two layers; the allocator may have either below the other."""
        made = [torch.zeros(16, 4, 1, 8, dtype=torch.bfloat16) for _ in range(4)]
        made = made if turn % 2 == 0 else made[::-1]
        return made[:2], made[2:]

    def serve(turn):
        keys, values = planes_of(turn)
        pool = folio_kv.PagePool(16, 4, name=folio_kv.Sha256Names(), max_io_pins=16)
        layers = [folio_kv.Pages(k, v) for k, v in zip(keys, values)]
        with (
            tiers.DiskTier(str(tmp_path), 4 * MIB, segment_bytes=MIB) as disk,
            tiers.CacheManager(pool, layers, [disk]) as manager,
        ):
            sequence = manager.admit(prompt).id
            while manager.load_state(sequence) == "loading":
                manager.wait(1000)
                manager.poll()
            found = pool.length(sequence)
            pool.reserve(sequence, 13 - found)
            start = pool.row_start(sequence)
            pages = pool.table().reshape(-1)[start : start + 3].astype("int64")
            for layer in range(2):
                for tensor, value in ((keys[layer], 1 + layer), (values[layer], 50 + layer)):
                    assert found == 0 or (tensor[pages] == value).all(), (turn, layer, value)
                    tensor[pages] = value
            manager.commit(sequence, prompt[found:])
            manager.release(sequence)
        return found

    assert [serve(turn) for turn in range(4)] == [0, 12, 12, 12]


def test_a_tensor_that_is_given_other_memory_keeps_its_own_while_pages_are_under_way():
    def tensor_and_memory():
        memory = np.zeros((2, 8), np.uint8)
        return torch.from_numpy(memory), weakref.ref(memory)

    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}"
        tier = tiers.RedisTier(url, MIB, command_timeout_ms=2000)
        first, of_first = tensor_and_memory()
        second, of_second = tensor_and_memory()
        load = tier.load([b"a"], [first])
        pages = tiers.PageArrays([second])
        first.set_()
        second.data = torch.zeros(3)
        gc.collect()
        assert not load.is_done and of_first() is not None and of_second() is not None
        assert load.wait(20_000)
        del pages
        gc.collect()
        assert of_first() is None and of_second() is None
        tier.close()
