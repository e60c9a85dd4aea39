#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tools/newest.sh [PACKAGE ...]: how folio fares with the newest releases of other packages: see tools/newest.py, which does it.
exec python3 "$(dirname "$0")/newest.py" "$@"
