// SPDX-License-Identifier: Apache-2.0
/// tests/lint/bad_object.cpp: does everything that the object lints forbid; they are tested on it.
#include <cstdlib>
#include <mutex>
#include <vector>

namespace {
std::mutex mutex;
}

__attribute__((visibility("default"))) int* folio_bad_object(std::vector<int>& values) {
  const std::lock_guard lock(mutex);
  values.push_back(1);
  if (values.size() > 10) throw values.size();
  return static_cast<int*>(std::malloc(sizeof(int)));
}
