// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/fake_state.h: what the entry points of the libcuda.so.1 of the tests share.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/fake_device.h"
#include "cuda/fake_driver.h"

namespace folio::test {

struct FakeFunction {
  std::string name;
  int64_t args_bytes = 0;
  int max_shared_bytes = 48 << 10;
};

struct FakeState {
  std::mutex mutex;
  FakeDriver driver = first_answers();
  std::unique_ptr<FakeDevice> device = std::make_unique<FakeDevice>(driver);
  std::vector<std::unique_ptr<FakeFunction>> functions;
  int modules = 0;  ///< open ones
  int64_t launches = 0;

  [[nodiscard]] FakeFunction* function(void* handle) {
    for (const auto& f : functions) {
      if (f.get() == handle) return f.get();
    }
    return nullptr;
  }
};

FakeState& fake_state();

/// Of the calling thread.
bool is_context_current();

/// The beginning of every entry point: counts the call, holds the lock, and says what was injected.
class Entered {
 public:
  explicit Entered(const char* call);
  /// 0, an injected error, or that of a kernel that failed before.
  [[nodiscard]] int result() const { return result_; }
  [[nodiscard]] FakeState& state() const { return state_; }
  [[nodiscard]] FakeDriver& driver() const { return state_.driver; }
  [[nodiscard]] FakeDevice& device() const { return *state_.device; }

 private:
  FakeState& state_;
  std::lock_guard<std::mutex> lock_;
  int result_ = 0;
};

}  // namespace folio::test
