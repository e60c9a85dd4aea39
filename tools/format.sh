#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tools/format.sh [--check]: formats every C++ and CUDA file of the project with clang-format-16, or only says which differ.
set -eu
cd "$(dirname "$0")/.."
mode=-i
if [ "${1:-}" = --check ]; then
  mode="--dry-run -Werror"
fi
git ls-files -z --cached --others --exclude-standard -- '*.h' '*.cpp' '*.cuh' '*.cu' | xargs -0 clang-format-16 $mode
