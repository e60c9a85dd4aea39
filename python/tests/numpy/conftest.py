# SPDX-License-Identifier: Apache-2.0
"""Tiers that tests share."""

import socket

import pytest
from tier_kinds import KINDS, tier_of
from tier_pages import MIB

import folio_kv
from folio_kv import tiers


@pytest.fixture(params=KINDS)
def tier(request, tmp_path):
    with tier_of(request.param, tmp_path) as made:
        yield made


@pytest.fixture
def hanging():
    """A tier whose server takes connections and says nothing: loads end behind half a second."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        url = f"redis://127.0.0.1:{server.getsockname()[1]}"
        tier = tiers.RedisTier(url, MIB, connect_timeout_ms=500, command_timeout_ms=500)
        yield tier
        try:
            tier.close(0)
        except folio_kv.Error:
            pass
