// SPDX-License-Identifier: Apache-2.0
/// pool/pages/copies.h: the copies that a pool, or a group of it, asks its caller for.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "core/carver.h"
#include "folio/pool/page_pool.h"

namespace folio::inline v1::pool {

/// A copy is *pending* until it is taken, and then *running* as long as it holds its pages.
class Copies {
 public:
  /// At most one into each living sequence is pending, and one more while a last page is replaced.
  void carve(Carver& carver, uint32_t max_sequences) noexcept {
    pending_ = carver.take<PageCopy>(int64_t{max_sequences} + 1);
    taken_ = carver.take<PageCopy>(int64_t{max_sequences} + 1);
  }
  void start(uint32_t max_sequences) noexcept {
    std::uninitialized_default_construct_n(pending_, max_sequences + 1);
    std::uninitialized_default_construct_n(taken_, max_sequences + 1);
  }

  [[nodiscard]] std::span<const PageCopy> pending() const noexcept {
    return {pending_, num_pending_};
  }
  [[nodiscard]] std::span<const PageCopy> running() const noexcept {
    return {taken_, num_running_};
  }

  /// Returns its place among those that are pending.
  [[nodiscard]] uint32_t add(const PageCopy& copy) noexcept {
    pending_[num_pending_] = copy;
    return num_pending_++;
  }
  /// The last one gets the place of this one: any order will do, for no copy depends on another.
  void cancel(uint32_t place) noexcept { pending_[place] = pending_[--num_pending_]; }
  /// The pending ones become the running ones. Their memory stays as it is until the next call.
  std::span<const PageCopy> take() noexcept {
    std::swap(pending_, taken_);
    num_running_ = std::exchange(num_pending_, 0);
    return running();
  }
  /// None is running any more.
  void end() noexcept { num_running_ = 0; }

 private:
  PageCopy* pending_ = nullptr;
  PageCopy* taken_ = nullptr;
  uint32_t num_pending_ = 0, num_running_ = 0;
};

}  // namespace folio::inline v1::pool
