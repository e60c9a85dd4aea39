# SPDX-License-Identifier: Apache-2.0
"""tests/cuda/mutant_survivor.py: for the test of mutants.py itself: what changes nothing, what is no C++, what is not built."""

PROGRAMS = {"mbarrier": {"sources": ["tests/testing/mbarrier_test.cpp", "src/core/status.cpp"]}}
MUTANTS = [
    ("the same in other words", "mbarrier", "include/folio/testing/mbarrier.h", "    ++phase_;", "    phase_ += 1;"),
    ("no C++", "mbarrier", "include/folio/testing/mbarrier.h", "    ++phase_;", "    ++phase_"),
    ("elsewhere", "mbarrier", "include/folio/testing/cta/numbers.h", "return x != x ? 0x7fu", "return x == x ? 0x7fu"),
]
