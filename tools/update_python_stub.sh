#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tools/update_python_stub.sh: rewrites the golden stub of the Python module, python/folio_kv/_core.pyi; read the difference.
set -eu
cd "$(dirname "$0")/.."
tools/engines.py run numpy tools/python_stub.py python/folio_kv/_core.pyi
git diff --stat -- python/folio_kv/_core.pyi
