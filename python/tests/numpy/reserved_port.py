# SPDX-License-Identifier: Apache-2.0
"""python/tests/numpy/reserved_port.py: a port of 127.0.0.1 for a server that another process starts."""

import socket


class ReservedPort:
    """Nobody is given it while this lives: it is bound, so that the system hands it to no other.

    It does not listen, so that a server that reuses addresses, as all on asyncio do, may bind it.
    """

    def __init__(self) -> None:
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(("127.0.0.1", 0))
        self.number: int = self.socket.getsockname()[1]

    def close(self) -> None:
        """Gives it up."""
        self.socket.close()
