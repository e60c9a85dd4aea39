# SPDX-License-Identifier: Apache-2.0
"""Pages lent to other processes: a server in this one, and a tier over there.

The two find each other by a file with the server's address, on a disk that both see.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from folio_kv import tiers
from folio_kv._below import Below, Part
from folio_kv._options import Options
from folio_kv.errors import Error

__all__ = ["Lender", "Lending", "PeerLink"]

LOOK_SECONDS = 1.0
TRANSPORTS: dict[str, Any] = {
    "shared_memory": lambda: tiers.SharedMemoryTransport(same_user=True),
    "ucx": tiers.UcxTransport,
    "nixl": tiers.NixlTransport,
}


class Lending:
    """What a configuration says of pages that are lent: its keys of `options`."""

    def __init__(self, options: Options) -> None:
        self.peer = options.text("peer")
        self.serve = options.text("serve")
        self.serve_bytes = options.size("serve_bytes", 0)
        self._transport = options.text("transport", "shared_memory")
        if self._transport not in TRANSPORTS:
            expected = f"one of {', '.join(TRANSPORTS)}"
            raise options.wrong("transport", expected, self._transport)
        if self.serve and not self.serve_bytes:
            raise options.wrong("serve_bytes", 'bytes of pages to lend, such as "4GiB"', None)
        if self.serve_bytes and not self.serve:
            raise options.wrong("serve", "the path of an address file beside serve_bytes", None)

    def make_transport(self) -> tiers.Transport:
        """A new one of the kind that is asked for."""
        transport: tiers.Transport = TRANSPORTS[self._transport]()
        return transport


class Lender:
    """A page server, polled by a thread of its own. Any thread may call."""

    def __init__(self, options: Lending, fingerprint: bytes, page_bytes: int) -> None:
        self._file = Path(options.serve)
        self._server = tiers.PageServer(
            options.make_transport(),
            options.serve_bytes,
            page_bytes,
            fingerprint=fingerprint,
            access="read_only",
        )
        self._ends = threading.Event()
        self._tell()
        self._thread = threading.Thread(target=self._poll, name="folio-lender", daemon=True)
        self._thread.start()

    def _tell(self) -> None:
        """Whole or not at all, for those who read it meanwhile."""
        draft = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        try:
            draft.write_text(self._server.address().hex())
            draft.replace(self._file)
        except OSError as error:
            raise Error(f"serve: expected a path that can be written: {error}") from None

    def _poll(self) -> None:
        while not self._ends.is_set():
            self._server.poll()
            self._server.wait(100)

    def put(self, parts: Sequence[Part]) -> None:
        """Copies pages that it has not; where all of its pages are lent, they are left out."""
        for part in parts:
            for name, page in zip(part.names, part.pages, strict=True):
                with contextlib.suppress(Error):
                    if not self._server.has(name):
                        self._server.put([name], part.arrays, [page])

    def find_each(self, names: Sequence[bytes]) -> list[bool]:
        """Of each whether clients can find it."""
        return [self._server.has(name) for name in names]

    def close(self) -> None:
        """Clients find nothing any more."""
        self._ends.set()
        self._thread.join()
        with contextlib.suppress(OSError):
            self._file.unlink()


class PeerLink:
    """The pages of a lender, from when its address file is there, anew when that changes."""

    def __init__(
        self, options: Lending, fingerprint: bytes, memory: Sequence[Any], logger: logging.Logger
    ) -> None:
        self._options = options
        self._fingerprint = fingerprint
        self._memory = memory
        self._logger = logger
        self._fault = ""  # the latest that was told
        self._address = ""
        self._next_look = 0.0
        self._opened = float("-inf")

    @property
    def is_new(self) -> bool:
        """So new that the lender may not have told yet what it has."""
        return time.monotonic() < self._opened + LOOK_SECONDS

    def look(self, below: Below) -> None:
        """Puts the tier behind all others of `below`; at most once a second."""
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + LOOK_SECONDS
        try:
            address = Path(self._options.peer).read_text().strip()
        except OSError:
            return
        if address == self._address:
            return
        try:
            tier = tiers.PeerTier(
                self._options.make_transport(),
                bytes.fromhex(address),
                fingerprint=self._fingerprint,
                memory=self._memory,
            )
        except ValueError as error:  # Error, too
            if str(error) != self._fault:
                self._fault = str(error)
                self._logger.warning("folio: peer: %s", error)
            return
        self._address = address
        self._opened = now
        if below.tiers and below.tiers[-1][0] == "peer":
            below.tiers.pop()[1].close(0)
        below.tiers.append(("peer", tier))
