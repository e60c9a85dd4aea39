# SPDX-License-Identifier: Apache-2.0
"""What `HiCache` refuses, by name: options, pools, and releases of SGLang."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sglang")
import torch  # noqa: E402
from host_pools import MIB, mha, mla, open_backend  # noqa: E402

from folio_kv import Error, Unsupported  # noqa: E402


@pytest.mark.parametrize(
    "given, message",
    [
        ({}, "disk: expected a directory, or one of the keys redis and host_bytes, got None"),
        ({"disk": "/tmp/x"}, "disk_bytes: expected the bytes of the directory"),
        ({"disk_bytes": "1GiB"}, "disk: expected a directory, as disk_bytes is given, got None"),
        ({"disk": 7, "disk_bytes": "1GiB"}, "disk: expected a text, got 7"),
        ({"disk": "", "disk_bytes": "1GiB"}, "disk: expected a text, got ''"),
        ({"disk": "/tmp/x", "disk_bytes": "1 GiX"}, "disk_bytes: expected bytes of 2097152 or"),
        ({"disk": "/tmp/x", "disk_bytes": -1}, "disk_bytes: expected bytes of 2097152 or more"),
        ({"disk": "/tmp/x", "disk_bytes": True}, "disk_bytes: expected bytes of 2097152 or more"),
        ({"host_bytes": 1.5}, "host_bytes: expected bytes: a number, or a text"),
        ({"host_bytes": "1GiB", "disks": "/tmp"}, r"disks: expected one of the keys .* \"disk\" m"),
        ({"host_bytes": "1GiB", "threads": 0}, "threads: expected a whole number from 1 to 64"),
        ({"host_bytes": "1GiB", "ttl_s": "1"}, "ttl_s: expected a whole number from 0"),
        ({"host_bytes": "1GiB", "model": ""}, "model: expected a text, got ''"),
        ({"host_bytes": "1GiB", "model": None}, "model: expected a text that stands for the wei"),
        ({"host_bytes": "1GiB", "interface_v1": 2}, "interface_v1: expected 0 or 1, got 2"),
        ({"redis": "http://x"}, "redis: .*another scheme, expected redis://"),
        ({"redis": "redis://h:99999"}, "redis: .*another port, expected 1 .. 65535"),
        (
            {"disk": "/tmp/x", "disk_bytes": "2MiB", "segment_bytes": "2MiB"},
            "segment_bytes: expected at most half of disk_bytes 2097152, got 2097152",
        ),
    ],
    ids=str,
)
def test_bad_configuration_is_one_line_that_names_the_key(
    given: dict[str, Any], message: str
) -> None:
    with pytest.raises(Error, match=f"^HiCache: {message}") as caught:
        open_backend(mha("page_first"), **given)
    assert "\n" not in str(caught.value)


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Error, match=r"^HiCache: disk: .*file"):
        open_backend(mha("page_first"), disk=str(tmp_path / "file"), disk_bytes="1GiB")


def test_a_page_that_no_segment_holds_is_refused_at_start(tmp_path: Path) -> None:
    class Large:
        """A pool of pages of 2 MiB, as HostPool asks it."""

        page_size, page_num, layout, dtype, size_per_token = (
            1,
            2,
            "page_first",
            torch.uint8,
            2 * MIB,
        )
        shared_allocation_domain, dcp_size = None, 1

        def __init__(self) -> None:
            self.kv_buffer = torch.zeros(2, 2 * MIB, dtype=torch.uint8)

        def get_dummy_flat_data_page(self) -> torch.Tensor:
            return torch.zeros(2 * MIB, dtype=torch.uint8)

        def get_page_buffer_meta(self, indices: torch.Tensor) -> tuple[list[int], list[int]]:
            at = self.kv_buffer.data_ptr()
            return [at + 2 * MIB * page for page in indices.tolist()], [2 * MIB] * len(indices)

    given = {"disk": str(tmp_path / "d"), "disk_bytes": "4MiB"}
    with pytest.raises(Unsupported, match="segment_bytes: expected 2.* for a page of pool kv"):
        open_backend(Large(), **given)


def test_pools_whose_pages_move_or_are_dealt_out_are_refused_by_name(disk: dict[str, Any]) -> None:
    moving, split, strange = mha("page_first"), mla("page_first"), mha("page_first")
    moving.shared_allocation_domain = object()
    split.dcp_size = 2
    strange.get_page_buffer_meta = lambda indices: ([1234] * 2, [384] * 2)  # not its memory
    strange.get_data_page = lambda index: torch.zeros(5)
    for pool, why in (
        (moving, r"pool kv \(MHATokenToKVPoolHost, layout page_first\): its pages move"),
        (split, "decode-context parallelism"),
        (strange, "expected 768 bytes of a page, got 20"),
    ):
        with pytest.raises(Unsupported, match=why):
            open_backend(pool, host_bytes=MIB)


def test_hooks_that_sglang_has_lost_are_named(
    monkeypatch: pytest.MonkeyPatch, disk: dict[str, Any]
) -> None:
    import sglang
    from sglang.srt.mem_cache import hicache_storage

    import folio_kv.sglang

    assert folio_kv.sglang.capabilities() == {"HiCache": ""}
    with monkeypatch.context() as patch:
        patch.delattr(hicache_storage.HiCacheStorage, "batch_get_v2")
        with pytest.raises(Unsupported, match=r"lacks .*HiCacheStorage.batch_get_v2$"):
            open_backend(mha("page_first"), **disk)
    with monkeypatch.context() as patch:
        patch.setattr(sglang, "__version__", "0.4.9")
        with pytest.raises(Unsupported, match="expected 0.5 or later, got 0.4.9"):
            open_backend(mha("page_first"), **disk)
