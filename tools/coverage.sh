#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tools/coverage.sh: line coverage of include/ and src/ by all tests: build/coverage/report.txt (and
# .html), and table.md, by folder, which it prints.
set -eu
cd "$(dirname "$0")/.."
if [ $# != 0 ]; then
  sed -n '3,4s/^# //p' "$0" >&2
  exit 2
fi
tools/install_dependencies.sh coverage
cmake --preset coverage
cmake --build --preset coverage
find build/coverage -name '*.gcda' -delete
ctest --preset coverage --parallel "$(nproc)"
gcovr --root . --filter include/ --filter src/ --object-directory build/coverage --exclude-unreachable-branches \
  --html build/coverage/report.html --txt build/coverage/report.txt --json-summary build/coverage/report.json build/coverage
python3 - build/coverage/report.json >build/coverage/table.md <<'PYTHON'
import collections, json, pathlib, sys

report = json.loads(pathlib.Path(sys.argv[1]).read_text())
folders = collections.Counter()
for file in report["files"]:
    folder = str(pathlib.PurePath(*pathlib.PurePath(file["filename"]).parts[:3 if file["filename"].startswith("include/") else 2]))
    folders[folder, "lines"] += file["line_total"]
    folders[folder, "run"] += file["line_covered"]
print("| folder | lines | run by a test | |\n| --- | --- | --- | --- |")
for folder in sorted({folder for folder, _ in folders}):
    lines, run = folders[folder, "lines"], folders[folder, "run"]
    print(f"| `{folder}` | {lines} | {run} | {100 * run / lines:.1f} % |")
print(f"| all | {report['line_total']} | {report['line_covered']} | {report['line_percent']} % |")
PYTHON
cat build/coverage/table.md
