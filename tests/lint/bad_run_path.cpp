// SPDX-License-Identifier: Apache-2.0
/// tests/lint/bad_run_path.cpp: ways to bad_object.cpp by a table of functions, and beside it; the
/// lint of the run path is tested on them.
#include <vector>

int* folio_bad_object(std::vector<int>& values);
void folio_unknown_function();

namespace {

using Step = int*(std::vector<int>&);
Step* const volatile steps[] = {folio_bad_object};

}  // namespace

int folio_bad_run_path(std::vector<int>& values) { return *steps[0](values); }

void folio_bad_stranger() { folio_unknown_function(); }

int folio_good_run_path(int value) { return value + 1; }
