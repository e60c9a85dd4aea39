# SPDX-License-Identifier: Apache-2.0
"""A digest of a model's files: what it sees."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from folio_kv._identity import model_digest

MIB = 1 << 20
SIZES = {"a.weight": 9 * MIB, "a.norm": 8192, "b.weight": 70_000, "b.scale": 4, "c.weight": 3 * MIB}


def _save(file: Path, tensors: dict[str, bytes]) -> None:
    """As safetensors: the header's length, the header, the tensors behind one another."""
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, content in tensors.items():
        places = [at, at + len(content)]
        header[name] = {"dtype": "U8", "shape": [len(content)], "data_offsets": places}
        at = places[1]
    text = json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(tensors.values()))


def _change(content: bytes, at: int) -> bytes:
    changed = bytearray(content)
    changed[at] ^= 1
    return bytes(changed)


def test_a_change_of_any_small_tensor_is_seen(tmp_path: Path) -> None:
    """A fine-tune of norms or biases alone, other scales of quantised weights."""
    file = tmp_path / "model.safetensors"
    tensors = {name: bytes(size) for name, size in SIZES.items()}
    _save(file, tensors)
    first = model_digest(str(tmp_path))
    for name, content in tensors.items():
        places = [0, len(content) - 1] + ([len(content) // 2] if len(content) <= 1 << 16 else [])
        for at in places:
            _save(file, {**tensors, name: _change(content, at)})
            assert model_digest(str(tmp_path)) != first, (name, at)
    _save(file, {name: tensors[name] for name in reversed(tensors)})
    assert model_digest(str(tmp_path)) != first
    _save(file, tensors)
    assert model_digest(str(tmp_path)) == first


@pytest.mark.parametrize(
    "begin", [b"", b"\0" * 8, b"\x02" + bytes(7) + b"[]", b"\xff" * 8], ids=repr
)
def test_what_is_no_safetensors_is_looked_at_all_the_same(tmp_path: Path, begin: bytes) -> None:
    file = tmp_path / "model.safetensors"
    digests = []
    for content in (bytes(6 * MIB), bytes(6 * MIB - 1) + b"1", bytes(6 * MIB + 1)):
        file.write_bytes(begin + content)
        digests.append(model_digest(str(file)))
    assert len(set(digests)) == 3


def test_a_configuration_alone_is_no_model(tmp_path: Path) -> None:
    """Those of a model's fine-tunes are the same."""
    (tmp_path / "config.json").write_text("{}")
    assert model_digest(str(tmp_path)) == ""
    (tmp_path / "model.safetensors").write_bytes(b"1")
    assert model_digest(str(tmp_path)) != ""
    assert model_digest(str(tmp_path / "nowhere")) == ""
