// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/fake_driver.h: the libcuda.so.1 of the tests: what it was asked, what it is to
/// answer, and who runs its kernels.
///
/// The library keeps devices, memory, streams and graphs as the driver's interface has them, on the
/// host. What a kernel does it does not know: it calls back. Plain data, shared by the library and
/// the program that loaded it.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace folio::test {

/// The arguments of the last cuTensorMapEncodeTiled.
struct EncodeCall {
  int count = 0;
  int dtype = -1;
  uint32_t rank = 0;
  void* base = nullptr;
  uint64_t dims[5] = {};
  uint64_t strides[4] = {};
  uint32_t box[5] = {};
  uint32_t element_strides[5] = {};
  int interleave = -1, swizzle = -1, l2_promotion = -1, oob_fill = -1;
  bool in_context = false;
};

enum class MemoryKind : uint8_t { device, managed, pinned };

/// One allocation.
struct MemoryRange {
  unsigned char* begin = nullptr;
  int64_t bytes = 0;
  MemoryKind kind = MemoryKind::device;
  int device = 0;
};

/// A kernel that is to run now.
struct LaunchCall {
  const char* name = "";
  int64_t blocks = 0;
  int threads = 0;
  int64_t shared_bytes = 0;
  const void* args = nullptr;
  uint64_t seed = 0;
  /// all that the device can reach; null: all memory of the process
  const MemoryRange* memory = nullptr;
  int64_t num_ranges = 0;
};

/// Who runs kernels.
struct KernelRunner {
  void* context = nullptr;
  /// Bytes of the kernel's argument; -1: there is no such kernel.
  int64_t (*args_bytes)(void* context, const char* name) = nullptr;
  /// Null, or what went wrong; the words live until the next call.
  const char* (*run)(void* context, const LaunchCall& call) = nullptr;
  /// Writes the 128 bytes of a tensor map; null: bytes of 0x5a.
  int (*encode)(void* context, const EncodeCall& call, void* map) = nullptr;
};

/// When work on streams is done.
enum class WorkOrder : uint8_t {
  eager,  ///< at once
  late,   ///< when somebody waits for it, streams in turns by the seed
};

/// `call` fails with `result` after `skip` calls that do not; once.
struct InjectedError {
  char call[40] = {};
  int result = 0;
  int skip = 0;
};

struct CallCount {
  char call[40] = {};
  int64_t count = 0;
};

struct FakeDriver {
  // Answers.
  int num_devices = 1;
  int major = 9, minor = 0;
  int processors = 4;
  int shared_bytes = 227 << 10;
  int encode_result = 0, retain_result = 0, push_result = 0;
  KernelRunner runner;
  WorkOrder order = WorkOrder::eager;
  uint64_t seed = 1;
  /// Memory that was not allocated here counts as memory of device 0.
  bool any_memory_is_device = false;
  /// Memory and streams want a current context, too, as a driver's do; else only what folio calls.
  bool all_want_a_context = false;
  InjectedError injected[4];
  // What came.
  int inits = 0, retained = 0, pushed = 0;  ///< the last two count open ones
  EncodeCall encoded;
  CallCount calls[64];
  char fault[1024] = {};       ///< of the first kernel that failed; all calls fail from then on
  bool prints_faults = false;  ///< to stderr, for programs that know nothing of this

  void fail_call(std::string_view call, int result, int skip = 0) {
    for (InjectedError& error : injected) {
      if (error.call[0] != '\0') continue;
      call.copy(error.call, sizeof error.call - 1);
      error.result = result;
      error.skip = skip;
      return;
    }
  }
  [[nodiscard]] int64_t count(std::string_view call) const {
    for (const CallCount& c : calls) {
      if (call == c.call) return c.count;
    }
    return 0;
  }
};

/// Answers before anybody has said otherwise. Each libcuda.so.1 of the tests has its own:
/// fake_answers.cpp, without kernels, or emulated_answers.cpp, with all.
FakeDriver first_answers();

/// The library exports `FakeDriver* fake_driver()`; the test finds it as folio finds the rest.
using FakeDriverFunction = FakeDriver*();
/// And `void fake_driver_reset()`: all memory, streams and contexts gone, answers as above.
using FakeDriverReset = void();

}  // namespace folio::test
