// SPDX-License-Identifier: Apache-2.0
/// tier/events/adapter_names.h: what routers call the adapters that a pool knows by numbers.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace folio::inline v1::tier {

/// Any thread calls.
class AdapterNames {
 public:
  explicit AdapterNames(size_t most) : most_(most) {}

  /// False where there is no room for another. Throws std::bad_alloc.
  [[nodiscard]] bool put(uint64_t adapter, std::string_view name) {
    const std::lock_guard lock(mutex_);
    if (name.empty()) return names_.erase(adapter), true;
    if (!names_.contains(adapter) && names_.size() == most_) return false;
    names_[adapter] = name;
    return true;
  }
  /// Empty where it has none. Throws std::bad_alloc.
  [[nodiscard]] std::string of(uint64_t adapter) const {
    if (adapter == 0) return {};
    const std::lock_guard lock(mutex_);
    const auto at = names_.find(adapter);
    return at == names_.end() ? std::string() : at->second;
  }

 private:
  const size_t most_;
  mutable std::mutex mutex_;
  std::map<uint64_t, std::string> names_;
};

}  // namespace folio::inline v1::tier
