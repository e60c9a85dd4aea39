# SPDX-License-Identifier: Apache-2.0
"""tests/cuda/mutant_survivor.py: for the test of mutants.py itself: a mutant that changes nothing, and one that does not compile."""

PROGRAMS = {"mbarrier": {"sources": ["tests/testing/mbarrier_test.cpp", "src/core/status.cpp"]}}
MUTANTS = [
    ("the same in other words", "mbarrier", "include/folio/testing/mbarrier.h", "    ++phase_;", "    phase_ += 1;"),
    ("no C++", "mbarrier", "include/folio/testing/mbarrier.h", "    ++phase_;", "    ++phase_"),
]
