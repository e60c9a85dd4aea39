#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tools/format.sh [--check]: formats every C++ and CUDA file of the project with clang-format-16 and the Python package with ruff, or
# only says which differ; then says what ruff and mypy find in the package.
set -eu
cd "$(dirname "$0")/.."
case "$*" in
  '') mode=-i python_mode= python_fix=--fix ;;
  --check) mode="--dry-run -Werror" python_mode=--check python_fix= ;;
  *) sed -n '3,4s/^# //p' "$0" >&2; exit 2 ;;
esac
git ls-files -z --cached --others --exclude-standard -- '*.h' '*.cpp' '*.cuh' '*.cu' | xargs -0 clang-format-16 $mode

lint=$(dirname "$(tools/engines.py make lint)")
"$lint/ruff" --quiet format --no-cache --config python/pyproject.toml $python_mode python clients examples/python bench/peers bench/pool_peers
"$lint/ruff" --quiet check --no-cache $python_fix --config python/pyproject.toml python clients examples/python bench/peers bench/pool_peers
"$lint/mypy" --cache-dir build/python/mypy --config-file python/pyproject.toml python/folio_kv/_core.pyi
