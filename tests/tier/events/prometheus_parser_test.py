# SPDX-License-Identifier: Apache-2.0
"""tests/tier/events/prometheus_parser_test.py PROGRAM: Prometheus's own parser reads the counters of tiers.

Exit status 77 where neither this Python nor the system's has prometheus_client (Debian: python3-prometheus-client): ctest counts the
test as skipped.
"""

import importlib.util
import os
import subprocess
import sys
import tempfile

SYSTEM = "/usr/bin/python3"

if importlib.util.find_spec("prometheus_client") is None:
    if "FOLIO_PARSER_AGAIN" in os.environ or not os.path.exists(SYSTEM):
        print("skipped: no prometheus_client (Debian: python3-prometheus-client)")
        sys.exit(77)
    os.execve(SYSTEM, [SYSTEM, *sys.argv], {**os.environ, "FOLIO_PARSER_AGAIN": "1"})

from prometheus_client.parser import text_string_to_metric_families  # noqa: E402

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "metrics.txt")
    subprocess.run([sys.argv[1], path], check=True)
    with open(path, encoding="utf-8") as file:
        families = {family.name: family for family in text_string_to_metric_families(file.read())}

LABEL = 'a "b" \\c'


def value(name, **labels):
    family = name.removesuffix("_total")
    (sample,) = [s for s in families[family].samples if s.name == name and s.labels == labels]
    return sample.value


assert value("folio_tiers_asked_pages_total") == 100
assert value("folio_tiers_shared_pages_total") == 20
assert value("folio_tier_load_tokens_total", tier=LABEL) == 480
assert value("folio_tier_load_tokens_total", tier="host") == 0
assert value("folio_tier_load_outcomes_total", tier=LABEL, outcome="corrupt") == 2
assert value("folio_tier_bytes", tier=LABEL) == 2**40
latency = families["folio_tier_load_seconds"]
assert latency.type == "histogram"
buckets = [(float(s.labels["le"]), s.value) for s in latency.samples if s.name.endswith("_bucket") and s.labels["tier"] == LABEL]
assert len(buckets) == 22 and buckets == sorted(buckets), buckets
assert dict(buckets)[8e-06] == 3 and dict(buckets)[float("inf")] == 5 and buckets[-2][1] == 4, buckets
for family in families.values():
    assert family.documentation and family.type != "unknown", family
    assert family.type != "counter" or all(s.name.endswith("_total") for s in family.samples), family
print(len(families), "families")
