#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tools/tags.sh [FILE]: the tags of the tree, for editors, into FILE (default: tags). Needs Universal Ctags.
#
# Its parser (5.9) drops everything within `namespace folio::inline v1 {`, and takes no option against it: it reads copies, in build/tags,
# that say `namespace folio {`; lines and paths are the tree's.
set -eu
out=$(realpath "${1:-tags}")
cd "$(dirname "$0")/.."
ctags --version 2> /dev/null | grep -q '^Universal Ctags' || { echo "tools/tags.sh: expected Universal Ctags as ctags" >&2; exit 3; }
rm -rf build/tags
mkdir -p build/tags
git ls-files -z -- '*.h' '*.cpp' '*.cuh' '*.cu' | xargs -0 cp --parents -t build/tags
cd build/tags
grep -rlZ 'namespace folio::inline v1' . | xargs -0 sed -i 's/namespace folio::inline v1/namespace folio/'
find . -type f -printf '%P\n' | LC_ALL=C sort | ctags -I FOLIO_HOST_DEVICE,FOLIO_ALWAYS_INLINE,FOLIO_EXPORT --langmap=C++:+.cuh.cu.h --fields=+n --pseudo-tags=-TAG_PROC_CWD -f - -L - > "$out"
