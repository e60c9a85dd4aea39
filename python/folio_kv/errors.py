# SPDX-License-Identifier: Apache-2.0
"""The exceptions that every function of folio_kv raises."""


class Error(ValueError):
    """A call that folio refuses. The message names the argument, what was expected and what came.

    Nothing has been written. ``code`` says which kind of failure: ``"invalid_argument"``,
    ``"unsupported"``, ``"out_of_pages"``, ``"out_of_memory"``, ``"busy"``, ``"io"`` or
    ``"internal"``.
    """

    code: str = "invalid_argument"


class Unsupported(Error):
    """Understood, but no kernel does it; the message says why."""

    code = "unsupported"


class OutOfPages(Error):
    """The pool has too few free pages; nothing has changed."""

    code = "out_of_pages"
