// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/fake_device.h: the device inside the libcuda.so.1 of the tests: memory, and work on
/// streams with its order.
///
/// Work is a graph: an operation may run when those that it comes after are done. A stream is a
/// chain; the null stream's work comes after everything before it, and everything later after it.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "cuda/fake_driver.h"

namespace folio::test {

// CUresult
inline constexpr int success = 0, invalid_value = 1, not_initialized = 3, invalid_image = 200,
                     invalid_context = 201, invalid_handle = 400, not_found = 500,
                     illegal_address = 700, launch_failed = 719, capture_unsupported = 900,
                     capture_invalidated = 901;

/// Runs, or says what went wrong. Called again when a graph is replayed.
using Operation = std::function<std::string()>;

struct Work {
  Operation operation;
  std::vector<std::weak_ptr<Work>> after;
  bool is_done = false;
};

/// CUstreamCaptureStatus
enum class Capture : int { none = 0, active = 1, invalidated = 2 };

struct FakeStream {
  std::shared_ptr<Work> last;
  Capture capture = Capture::none;
  std::vector<Operation> captured;
};

struct FakeGraph {
  std::vector<Operation> operations;
};

struct FakeEvent {
  std::shared_ptr<Work> recorded;
};

class FakeDevice {
 public:
  explicit FakeDevice(FakeDriver& driver) : driver_(driver), null_(add_stream()) {}

  // Memory.
  [[nodiscard]] void* allocate(int64_t bytes, MemoryKind kind);
  [[nodiscard]] bool release(void* begin);
  /// The allocation that holds all the bytes; null: none.
  [[nodiscard]] const MemoryRange* range_of(const void* begin, int64_t bytes) const;
  [[nodiscard]] const std::vector<MemoryRange>& memory() const { return memory_; }

  // Streams.
  [[nodiscard]] FakeStream* add_stream();
  /// The stream of a handle, the null stream of null; null: there is no such stream.
  [[nodiscard]] FakeStream* stream(void* handle);
  [[nodiscard]] bool remove_stream(void* handle);
  /// Runs it, keeps it for later or captures it. A CUresult.
  [[nodiscard]] int put(FakeStream& stream, Operation operation);
  void wait_for(FakeStream& stream, const std::shared_ptr<Work>& work);
  /// Runs what is left until `work` is done; null: all.
  void finish(const std::shared_ptr<Work>& work);
  /// What no capture allows: invalidates those under way. Whether there was one.
  [[nodiscard]] bool break_captures();
  [[nodiscard]] bool is_broken() const { return driver_.fault[0] != '\0'; }

 private:
  void run(Work& work);

  FakeDriver& driver_;
  std::vector<MemoryRange> memory_;
  std::vector<std::unique_ptr<unsigned char[]>> storage_;
  std::list<FakeStream> streams_;
  FakeStream* null_;
  std::vector<std::shared_ptr<Work>> waiting_;
  uint64_t drawn_ = 0;
};

}  // namespace folio::test
