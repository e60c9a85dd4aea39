# SPDX-License-Identifier: Apache-2.0
"""How pip builds the package: scikit-build-core, and the one header that the library takes from elsewhere.

xxhash.h comes from the system (Debian's libxxhash-dev). Where it is missing, the build asks for
pyarrow, whose wheels carry the header; nothing else of it is used.

What tiers link comes from the system alone: no package of pip has ISA-L's headers or its library.
Where they are missing, the module is built without tiers, and the build ends with a line that says so.
"""

from __future__ import annotations

import os
import subprocess

from scikit_build_core.build import (
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)
from scikit_build_core.build import get_requires_for_build_editable as _requires_for_editable
from scikit_build_core.build import get_requires_for_build_wheel as _requires_for_wheel

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]


def _header() -> list[str]:
    """What has to be installed for xxhash.h: nothing, where the compiler finds it."""
    compiler = os.environ.get("CXX", "c++").split()
    program = b"#include <xxhash.h>\n"
    try:
        found = subprocess.run(
            [*compiler, "-x", "c++", "-E", "-"], input=program, capture_output=True
        ).returncode
    except OSError:  # no compiler: the build itself will say so
        return []
    return ["pyarrow>=15"] if found != 0 else []


def get_requires_for_build_wheel(config_settings: dict | None = None) -> list[str]:
    return [*_requires_for_wheel(config_settings), *_header()]


def get_requires_for_build_editable(config_settings: dict | None = None) -> list[str]:
    return [*_requires_for_editable(config_settings), *_header()]
