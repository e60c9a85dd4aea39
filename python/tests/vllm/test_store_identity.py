# SPDX-License-Identifier: Apache-2.0
"""What tells the blocks of an engine from another's."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from folio_kv.errors import Error

pytest.importorskip("vllm")
pytestmark = pytest.mark.quick


def _weights_in(folder: Path, content: bytes) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "model.safetensors").write_bytes(content)
    return str(folder)


class Given:
    """An engine's configuration, as far as it is asked."""

    def __init__(self, model: str) -> None:
        self.configuration: dict[str, Any] = {"_name_or_path": model, "rope": {"type": "default"}}
        self.model = self.make_model(model, self.configuration)
        self.load = SimpleNamespace(load_format="auto", download_dir=None)
        self.speculative: Any = None
        self.word = ""

    def make_model(self, model: str, configuration: dict[str, Any]) -> Any:
        return SimpleNamespace(
            model=model,
            revision=None,
            seed=0,
            dtype="float32",
            quantization=None,
            quantization_config=None,
            max_model_len=4096,
            hf_config=SimpleNamespace(to_dict=lambda: configuration),
        )

    def fingerprint(self) -> bytes:
        from folio_kv._options import Options
        from folio_kv.vllm.store.identity import fingerprint

        config = SimpleNamespace(
            model_config=self.model,
            load_config=self.load,
            speculative_config=self.speculative,
            cache_config=SimpleNamespace(cache_dtype="auto", prefix_caching_hash_algo="sha256"),
            parallel_config=SimpleNamespace(world_size=1, rank=0),
            compilation_config=SimpleNamespace(static_forward_context={}),
        )
        groups = SimpleNamespace(kv_cache_groups=[])
        return fingerprint(config, groups, {}, Options("FolioConnector", {}), self.word)


def test_weights_and_what_is_given_instead_of_what_files_say_are_in_it(tmp_path: Path) -> None:
    given = Given(_weights_in(tmp_path / "model", b"1"))
    draft = _weights_in(tmp_path / "draft", b"1")
    seen = [given.fingerprint()]

    def speculate() -> None:
        of_draft = given.make_model(draft, {})
        given.speculative = SimpleNamespace(
            method="draft_model", draft_model_config=of_draft, draft_load_config=None
        )

    for change in (
        lambda: _weights_in(tmp_path / "model", b"2"),
        lambda: given.configuration["rope"].update(factor=2),
        lambda: setattr(given.model, "quantization_config", {"bits": 8}),
        speculate,
        lambda: _weights_in(tmp_path / "draft", b"2"),
        lambda: setattr(given, "word", "mine"),
    ):
        change()
        seen.append(given.fingerprint())
    assert len(set(seen)) == len(seen)
    given.configuration["_name_or_path"] = "elsewhere"
    given.model.max_model_len = 8192
    assert given.fingerprint() == seen[-1]


def test_a_rotation_that_the_longest_context_chooses_is_in_it(tmp_path: Path) -> None:
    """vLLM takes Phi-3's long factors for all tokens where a context may be long."""
    given = Given(_weights_in(tmp_path / "model", b"1"))
    given.configuration["rope"]["type"] = "longrope"
    seen = given.fingerprint()
    given.model.max_model_len = 131072
    assert given.fingerprint() != seen


def test_weights_that_are_not_to_be_seen_need_a_name(tmp_path: Path) -> None:
    """A configuration without weights, as the Hub's cache has it beside --download-dir, is that of
    many models.
    """
    (tmp_path / "config.json").write_text("{}")
    given = Given(str(tmp_path))
    with pytest.raises(Error, match="^FolioConnector: model: expected a text that stands for"):
        given.fingerprint()
    given.word = "mine"
    seen = given.fingerprint()
    given.word = "another"
    assert given.fingerprint() != seen
    given.load.load_format, given.word = "dummy", ""
    assert given.fingerprint() != seen


def test_an_adapter_whose_files_change_is_none(tmp_path: Path) -> None:
    """vLLM may have read the files before they changed, or behind that."""
    from folio_kv.vllm.store.adapters import Adapters

    def lora(number: int) -> Any:
        return SimpleNamespace(lora_name="a", lora_path=path, lora_int_id=number)

    path = _weights_in(tmp_path / "adapter", b"1")
    adapters = Adapters()
    first = adapters.digest_of(lora(1))
    assert adapters.digest_of(None) == b"" and first and adapters.digest_of(lora(1)) == first
    _weights_in(tmp_path / "adapter", b"23")
    assert adapters.digest_of(lora(1)) is None
    second = adapters.digest_of(lora(2))  # loaded anew
    assert second and second != first and adapters.digest_of(lora(2)) == second
    _weights_in(tmp_path / "adapter", b"1")
    assert adapters.digest_of(lora(1)) is None  # for good
    assert Adapters().digest_of(lora(1)) == first  # of another process
    (tmp_path / "adapter/model.safetensors").unlink()
    assert Adapters().digest_of(lora(1)) is None


@pytest.mark.parametrize(
    ("order", "fits"),
    [((0, 1, 2, 3), True), ((0, 2, 1, 3), True), ((1, 0, 2, 3), False)],
    ids=["BHNC", "BNHC", "HBNC"],
)
def test_blocks_that_are_not_one_run_of_bytes_are_refused(
    order: tuple[int, ...], fits: bool
) -> None:
    """Whose bytes would be partly those of others."""
    import torch
    from vllm.v1.kv_cache_interface import FullAttentionSpec

    from folio_kv.vllm.store.pages import _bytes_of_blocks

    heads, slots, blocks = 2, 16, 5
    spec = FullAttentionSpec(block_size=slots, num_kv_heads=heads, head_size=4, dtype=torch.float32)
    shape = (blocks, heads, slots, spec.page_size_bytes // (4 * heads * slots))
    memory = torch.rand([shape[axis] for axis in order])
    cache = memory.permute([order.index(axis) for axis in range(4)])
    if not fits:
        with pytest.raises(Error, match="expected [0-9]+ bytes of a block behind one another"):
            _bytes_of_blocks(cache, spec, blocks)
        return
    rows = _bytes_of_blocks(cache, spec, blocks)
    assert rows.shape == (blocks, spec.page_size_bytes)
    for row, block in zip(rows, cache, strict=True):
        assert sorted(row.view(torch.float32).tolist()) == sorted(block.flatten().tolist())


def test_a_model_of_the_hub_is_looked_for_in_the_cache_it_was_put_into(
    tmp_path: Path,
) -> None:
    from folio_kv._identity import model_digest

    digests = []
    for cache, weights in (("first", b"1"), ("second", b"2")):
        snapshot = tmp_path / cache / "models--us--ours/snapshots/abc"
        snapshot.mkdir(parents=True)
        (snapshot.parent.parent / "refs").mkdir()
        (snapshot.parent.parent / "refs/main").write_text("abc")
        (snapshot / "model.safetensors").write_bytes(weights)
        digests.append(model_digest("us/ours", None, str(tmp_path / cache)))
    assert "" not in digests and digests[0] != digests[1]
    assert model_digest("us/ours", None, str(tmp_path / "third")) == ""
