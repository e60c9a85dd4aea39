#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tools/format.sh [--check]: formats every C++ and CUDA file of the project with clang-format-16, or only says which differ.
set -eu
cd "$(dirname "$0")/.."
case "$*" in
  '') mode=-i ;;
  --check) mode="--dry-run -Werror" ;;
  *) sed -n '3s/^# //p' "$0" >&2; exit 2 ;;
esac
git ls-files -z --cached --others --exclude-standard -- '*.h' '*.cpp' '*.cuh' '*.cu' | xargs -0 clang-format-16 $mode
