// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/emulated_answers.cpp: a libcuda.so.1 with every kernel of src/cuda/kernels.txt, for
/// programs that only know of a driver. With FOLIO_TEST_DEVICE in the environment, for tests of the
/// CPU, all memory is the device's; else what was allocated there.
///
/// FOLIO_TEST_SEED in the environment is the schedules' seed.
#include <cstdlib>

#include "cuda/emulated_device.h"
#include "cuda/emulated_runner.h"

namespace folio::test {

FakeDriver first_answers() {
  FakeDriver answers;
  static EmulatedRunner runner(emulated_kernels(), answers.processors);
  answers.runner = runner.callbacks();
  answers.any_memory_is_device = std::getenv("FOLIO_TEST_DEVICE") != nullptr;
  answers.prints_faults = true;
  answers.all_want_a_context = true;
  answers.order = WorkOrder::late;
  if (const char* const seed = std::getenv("FOLIO_TEST_SEED"); seed != nullptr)
    answers.seed = std::strtoull(seed, nullptr, 10);
  return answers;
}

}  // namespace folio::test
