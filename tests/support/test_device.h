// SPDX-License-Identifier: Apache-2.0
/// tests/support/test_device.h: where the tests of kernels run: on the CPU, or, with
/// FOLIO_TEST_DEVICE=cuda in the environment, on CUDA device 0 (an emulated one, where the loader
/// finds the tests' own libcuda.so.1 first).
#pragma once

#include "folio/core/execution.h"
#include "folio/core/status.h"
#include "kernel/capability.h"

namespace folio::test {

[[nodiscard]] Device test_device();
/// Aborts, with the reason, where FOLIO_TEST_DEVICE names a device that there is not.
[[nodiscard]] Capabilities test_capabilities();
/// Waits for all that was put on the device.
[[nodiscard]] Status synchronise_test_device();

}  // namespace folio::test
