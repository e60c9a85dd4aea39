# SPDX-License-Identifier: Apache-2.0
"""Every causal-LM architecture that transformers can build: with folio it computes what it computes
with eager attention.
"""

from __future__ import annotations

import pytest
from architectures import NOT_BUILT, names
from comparison import compare


@pytest.mark.parametrize("architecture", [name for name in names() if name not in NOT_BUILT])
def test_logits_and_greedy_tokens_are_eagers(architecture: str) -> None:
    row = compare(architecture)
    failures = [outcome.failure for outcome in row.outcomes if outcome.failure]
    assert not failures, failures
    if row.forward.skipped:
        pytest.skip(row.forward.skipped)


def test_every_name_that_is_not_built_is_one_of_transformers() -> None:
    assert set(NOT_BUILT) <= set(names())
