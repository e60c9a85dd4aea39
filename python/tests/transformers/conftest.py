# SPDX-License-Identifier: Apache-2.0
"""Tests under transformers: skipped without it; folio is registered once. Models are so small that
one thread is fastest.
"""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import folio_kv  # noqa: E402
import folio_kv.transformers as folio  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def registered() -> None:
    """folio's names are known to transformers, which keeps quiet."""
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    folio_kv.set_num_threads(1)
    folio.register()
