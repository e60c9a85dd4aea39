#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tools/dev_python.sh [PYTHON]: builds folio_kv._core into python/folio_kv, for work on the package without installing it. PYTHON (an
# interpreter with nanobind) is python3 if not given.
set -eu
cd "$(dirname "$0")/.."
python=${1:-python3}
cmake -S python -B build/python/dev -G Ninja -DCMAKE_BUILD_TYPE=Release -DPython_EXECUTABLE="$(command -v "$python")" \
  -DCMAKE_LIBRARY_OUTPUT_DIRECTORY="$PWD/python/folio_kv"
cmake --build build/python/dev --target _core
