# SPDX-License-Identifier: Apache-2.0
"""SGLang's own controllers, with their threads, over `HiCache`: pages of a prompt are written
behind and prefetched, as a server does it, on host pools of CPU tensors.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("sglang")
import torch  # noqa: E402
from host_pools import LAYERS, PAGE, fill, keys_of, mamba, mha, page_bytes  # noqa: E402
from redis_process import RedisProcess  # noqa: E402
from sglang.srt.managers.cache_controller import HiCacheController  # noqa: E402
from sglang.srt.mem_cache.allocator.paged import PagedTokenToKVPoolAllocator  # noqa: E402
from sglang.srt.mem_cache.base_prefix_cache import CacheRequestHandle  # noqa: E402
from sglang.srt.mem_cache.hicache_storage import (  # noqa: E402
    PoolHitPolicy,
    PoolName,
    PoolTransfer,
)
from sglang.srt.mem_cache.hybrid_cache.hybrid_cache_controller import (  # noqa: E402
    HybridCacheController,
)
from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool  # noqa: E402
from sglang.srt.mem_cache.pool_host import HostPoolGroup, PoolEntry  # noqa: E402
from sglang.srt.runtime_context import get_parallel  # noqa: E402

from folio_kv import Error  # noqa: E402

WAIT_S = 30


@pytest.fixture(autouse=True)
def one_rank() -> Iterator[None]:
    sizes = dict(tp_rank=0, tp_size=1, pp_rank=0, pp_size=1, attn_dcp_size=1, attn_dcp_rank=0)
    with get_parallel().override(**sizes):
        yield


@pytest.fixture
def options(tmp_path: Path) -> dict[str, Any]:
    return {
        "backend_name": "folio",
        "module_path": "folio_kv.sglang",
        "class_name": "HiCache",
        "model": "tests",
        "disk": str(tmp_path / "pages"),
        "disk_bytes": "64MiB",
    }


def controller_of(host: Any, options: dict[str, Any], kind: Any = HiCacheController) -> Any:
    """A controller, its device's pool on the CPU. `options` as SGLang parses them."""
    text = json.dumps(options)
    extra, threshold, *_ = HybridCacheController.parse_storage_backend_extra_config(text)
    size = 8 * PAGE
    pool = MHATokenToKVPool(size, PAGE, torch.bfloat16, 2, 8, LAYERS, "cpu", False)
    return kind(
        PagedTokenToKVPoolAllocator(size, PAGE, torch.bfloat16, "cpu", pool, False),
        host,
        PAGE,
        None,
        threading.Event(),
        io_backend="direct",
        storage_backend="dynamic",
        prefetch_threshold=1,
        model_name="llama",
        storage_backend_extra_config=extra,
    )


def hash_of(tokens: list[int]) -> list[str]:
    from sglang.srt.mem_cache.utils import get_storage_hash_str

    return get_storage_hash_str(tokens, None, page_size=PAGE)


def write(controller: Any, host: Any, pages: int, extra: Any = None) -> tuple[list[int], Any]:
    """Backs a prompt up; returns its tokens and the operation that has ended."""
    tokens = list(range(pages * PAGE))
    indices = host.alloc(pages * PAGE)
    given = {} if extra is None else {"extra_pools": extra}
    controller.write_storage(indices, tokens, hash_of(tokens), **given)
    return tokens, controller.ack_backup_queue.get(timeout=WAIT_S)


def prefetch(controller: Any, host: Any, tokens: list[int]) -> Any:
    """Brings what is found of a prompt; returns the operation, and the tokens that came."""
    controller.prefetch("request", tokens)
    operation = controller.prefetch_hit_queue.get(timeout=WAIT_S)
    operation.host_indices = host.alloc(operation.storage_hit_count)
    controller.prefetch_buffer.put(operation)
    came = 0
    while True:
        ack = controller.ack_prefetch_queue.get(timeout=WAIT_S)
        if ack.completed_req:
            return operation, came
        came = ack.completed_tokens


@pytest.mark.parametrize("layout", ["layer_first", "page_first", "page_first_direct"])
@pytest.mark.parametrize("in_place", [1, 0], ids=["in place", "copies"])
def test_a_prompt_is_written_behind_and_prefetched_after_a_restart(
    options: dict[str, Any], layout: str, in_place: int
) -> None:
    pages = 150  # more than SGLang moves in one batch
    options["interface_v1"] = in_place
    host = mha(layout, pages=200)
    controller = controller_of(host, dict(options))
    of_copies = controller.page_get_func == controller._generic_page_get
    assert of_copies == (not in_place)
    fill(host, 1)
    want = [page_bytes(host, page) for page in range(pages)]
    tokens, ended = write(controller, host, pages)
    assert ended.completed_tokens == pages * PAGE
    controller.detach_storage_backend()

    host = mha(layout, pages=200)
    controller = controller_of(host, dict(options))
    fill(host, 2)
    operation, came = prefetch(controller, host, [*tokens, *range(5 * PAGE)])
    assert operation.storage_hit_count == came == pages * PAGE
    places = (operation.host_indices[::PAGE] // PAGE).tolist()
    assert [page_bytes(host, page) for page in places] == want
    controller.detach_storage_backend()


def test_a_prompt_that_is_not_there_is_not_prefetched(options: dict[str, Any]) -> None:
    host = mha("page_first")
    controller = controller_of(host, options)
    operation, came = prefetch(controller, host, list(range(1000, 1000 + 5 * PAGE)))
    assert operation.storage_hit_count == came == 0
    controller.detach_storage_backend()


def test_pages_that_were_lost_meanwhile_end_the_prefix(options: dict[str, Any]) -> None:
    """Found, and gone or damaged when they are loaded: what comes is a prefix."""
    host = mha("page_first")
    controller = controller_of(host, options)
    fill(host, 1)
    want = [page_bytes(host, page) for page in range(6)]
    tokens, _ = write(controller, host, 6)
    backend = controller.storage_backend
    found, names = backend.batch_exists, backend._names("kv", hash_of(tokens))

    def lose(keys: list[str], extra_info: Any = None) -> int:
        there = found(keys, extra_info)
        backend._stores._tiers["disk"].drop([names[4]])
        return there

    backend.batch_exists = lose
    fill(host, 2)
    operation, came = prefetch(controller, host, tokens)
    assert (operation.storage_hit_count, came) == (6 * PAGE, 4 * PAGE)
    places = (operation.host_indices[::PAGE] // PAGE).tolist()
    assert [page_bytes(host, page) for page in places[:4]] == want[:4]
    controller.detach_storage_backend()


def test_a_redis_that_dies_under_a_controller(options: dict[str, Any], tmp_path: Path) -> None:
    server = RedisProcess(tmp_path)
    del options["disk"], options["disk_bytes"]
    host = mha("page_first")
    controller = controller_of(host, {**options, "redis": server.url})
    tokens, ended = write(controller, host, 6)
    assert ended.completed_tokens == 6 * PAGE
    assert prefetch(controller, host, tokens)[1] == 6 * PAGE
    server.kill()
    assert prefetch(controller, host, tokens)[1] == 0
    _, ended = write(controller, host, 3)
    assert ended.completed_tokens == 0
    controller.detach_storage_backend()


def test_bad_options_end_the_attach_in_one_line(options: dict[str, Any]) -> None:
    options["disk_bytes"] = "lots"
    with pytest.raises(ValueError, match="HiCache: disk_bytes: expected bytes") as caught:
        controller_of(mha("page_first"), options)
    assert "\n" not in str(caught.value)


def test_a_hybrid_models_pools_come_together(options: dict[str, Any]) -> None:
    """Keys and values of all pages, and the state behind the last one."""

    def group_of() -> Any:
        entries = [
            PoolEntry(PoolName.KV, mha("page_first"), None, lambda layer: layer, True),
            PoolEntry(PoolName.MAMBA, mamba(), None, lambda layer: layer),
        ]
        return HostPoolGroup(entries)

    def state(group: Any, keys: list[str]) -> PoolTransfer:
        indices = group.alloc(1, pool=PoolName.MAMBA)
        return PoolTransfer(
            PoolName.MAMBA, indices, keys=keys, hit_policy=PoolHitPolicy.TRAILING_PAGES
        )

    group = group_of()
    controller = controller_of(group, dict(options), HybridCacheController)
    kv, states = (group.get_pool(name) for name in (PoolName.KV, PoolName.MAMBA))
    fill(kv, 1), fill(states, 2)
    tokens = list(range(6 * PAGE))
    transfer = state(group, hash_of(tokens)[-1:])
    want = [page_bytes(kv, page) for page in range(6)], page_bytes(states, 0)
    assert transfer.host_indices.tolist() == [0]
    _, ended = write(controller, group, 6, [transfer])
    assert ended.completed_tokens == 6 * PAGE
    assert ended.pool_storage_result.extra_pool_hit_pages == {PoolName.MAMBA: 1}
    controller.detach_storage_backend()

    group = group_of()
    controller = controller_of(group, dict(options), HybridCacheController)
    kv, states = (group.get_pool(name) for name in (PoolName.KV, PoolName.MAMBA))
    fill(kv, 3), fill(states, 4)
    longer = [*tokens, *range(500, 500 + 2 * PAGE)]
    transfer = state(group, hash_of(longer)[-1:])
    controller.prefetch(CacheRequestHandle("request", 0), longer, extra_pools=[transfer])
    operation = controller.prefetch_hit_queue.get(timeout=WAIT_S)
    assert operation.storage_hit_count == 6 * PAGE
    operation.host_indices = group.alloc(6 * PAGE)
    controller.prefetch_buffer.put(operation)
    acks = [controller.ack_prefetch_queue.get(timeout=WAIT_S) for _ in range(3)]
    assert acks[0].completed_tokens == 6 * PAGE
    assert acks[1].pool_hits[PoolName.MAMBA.value] == 1
    assert acks[2].completed_req
    places = (operation.host_indices[::PAGE] // PAGE).tolist()
    assert [page_bytes(kv, page) for page in places] == want[0]
    assert page_bytes(states, int(transfer.host_indices[0])) == want[1]
    controller.detach_storage_backend()


# ---- What tells a model from another


def test_a_servers_arguments_and_files_are_in_the_fingerprint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from host_pools import config_of

    from folio_kv.sglang import identity

    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text('{"hidden_size": 64}')
    (folder / "model.safetensors").write_bytes(bytes(9 << 20))
    args = SimpleNamespace(model_path=str(folder), dtype="auto", load_format="auto")
    monkeypatch.setattr(identity, "get_server_args", lambda: args)
    seen = [identity.identity_of(config_of(), "")]
    for name in ("draft", "adapter"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "weights.safetensors").write_bytes(b"1")
    draft, adapter = str(tmp_path / "draft"), str(tmp_path / "adapter")
    for change in (
        lambda: (folder / "config.json").write_text('{"hidden_size": 65}'),
        lambda: (folder / "model.safetensors").write_bytes(bytes(8 << 20) + b"\1" * (1 << 20)),
        lambda: setattr(args, "kv_cache_dtype", "fp8_e5m2"),
        lambda: setattr(args, "speculative_draft_model_path", draft),
        lambda: setattr(args, "lora_paths", [f"name={adapter}"]),
        lambda: (tmp_path / "adapter/weights.safetensors").write_bytes(b"2"),
        lambda: setattr(args, "load_format", "dummy"),
        lambda: setattr(args, "random_seed", 5),
    ):
        change()
        seen.append(identity.identity_of(config_of(), ""))
    assert all(a != b for i, a in enumerate(seen) for b in seen[:i])
    moved = tmp_path / "elsewhere"
    folder.rename(moved)
    args.model_path = str(moved)
    assert identity.identity_of(config_of(), "") == seen[-1]  # the same files on another machine
    for form in ({"name": adapter}, [adapter], [{"lora_name": "name", "lora_path": adapter}]):
        args.lora_paths = form
        assert identity.identity_of(config_of(), "") == seen[-1]


def test_weights_that_are_not_to_be_seen_need_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of a model on the Hub stands for all its revisions."""
    from host_pools import config_of

    from folio_kv.sglang import identity

    (tmp_path / "config.json").write_text("{}")
    weights = tmp_path / "model.safetensors"
    args = SimpleNamespace(load_format="auto")
    monkeypatch.setattr(identity, "get_server_args", lambda: args)
    for args.model_path in ("nobody/nothing", str(tmp_path)):
        assert identity.identity_of(config_of(), "") is None
        assert identity.identity_of(config_of(), "mine") is not None
    weights.write_bytes(b"1")
    assert identity.identity_of(config_of(), "") is not None
    args.lora_paths = ["a=nobody/nothing"]
    assert identity.identity_of(config_of(), "") is None
    assert identity.identity_of(config_of(), "mine") is not None
    args.load_format, args.lora_paths = "dummy", None
    weights.unlink()
    assert identity.identity_of(config_of(), "") is not None
    first = identity.identity_of(config_of(), "")
    (tmp_path / "config.json").write_text("[]")
    assert identity.identity_of(config_of(), "") != first


def test_without_a_server_weights_need_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from host_pools import config_of

    from folio_kv.sglang import identity

    def none() -> None:
        raise ValueError("Global server args is not set yet!")

    monkeypatch.setattr(identity, "get_server_args", none)
    assert identity.identity_of(config_of(), "") is None
    assert identity.identity_of(config_of(), "a") != identity.identity_of(config_of(), "b")


def test_pages_of_other_weights_under_the_same_name_are_not_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SGLang's name of a model is what a server calls it; the next revision has the same one."""
    from host_pools import open_backend, slots_of

    from folio_kv.sglang import identity

    weights = tmp_path / "model.safetensors"
    args = SimpleNamespace(model_path=str(tmp_path))
    monkeypatch.setattr(identity, "get_server_args", lambda: args)
    pool, found = mha("page_first"), []
    for content in (b"first", b"other", b"first"):
        weights.write_bytes(content)
        given = {"disk": str(tmp_path / "pages"), "disk_bytes": "64MiB", "model": None}
        backend = open_backend(pool, **given)
        found.append(backend.batch_exists(keys_of(2)))
        backend.batch_set_v1(keys_of(2), slots_of(pool, [0, 1]))
        backend.close()
    assert found == [0, 0, 2]
    with pytest.raises(Error, match="disks"):
        open_backend(pool, disks="x")
