// SPDX-License-Identifier: Apache-2.0
/// folio/testing/cta/clock.h: who has seen what of whom, in an emulated grid: vector clocks.
///
/// A block has a time per *slot*: per thread, per thread's asynchronous copies and stores, per
/// mbarrier and per warpgroup's multiplies. An access is noted as an epoch, and is ordered before
/// another one if the other's thread has seen the slot at that time. Threads that have just met
/// share one Knowledge, so that meeting again costs little. Externally synchronised.
/// Source: Lamport 1978; Flanagan and Freund 2009, FastTrack.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace folio::inline v1::emulator::cta {

using Time = uint32_t;

/// When an access happened: `time` of `slot` of a block. Sixty-four bits.
struct Epoch {
  static constexpr uint16_t nobody = 0;
  static constexpr uint16_t host = 1;  ///< before the kernel
  static constexpr uint16_t first_block = 2;
  static constexpr uint16_t index = 0xffff;  ///< no epoch: `time` indexes a table of AccessMap

  uint16_t kind = nobody;  ///< one of the above, or first_block + block
  uint16_t slot = 0;
  Time time = 0;
  bool operator==(const Epoch&) const = default;

  [[nodiscard]] int block() const noexcept { return kind - first_block; }
};
static_assert(sizeof(Epoch) == 8);

/// The slots of a block.
struct Slots {
  static constexpr int max_barriers = 64;
  int threads = 0;

  [[nodiscard]] int copies(int thread) const noexcept { return threads + thread; }
  [[nodiscard]] int stores(int thread) const noexcept { return 2 * threads + thread; }
  [[nodiscard]] int store_reads(int thread) const noexcept { return 3 * threads + thread; }
  [[nodiscard]] int barrier(int index) const noexcept { return 4 * threads + index; }
  [[nodiscard]] int multiplies(int warpgroup) const noexcept {
    return 4 * threads + max_barriers + warpgroup;
  }
  /// A multiple of four, for join.
  [[nodiscard]] int count() const noexcept {
    return (4 * threads + max_barriers + threads / 128 + 3) / 4 * 4;
  }
};

using Times = std::vector<Time>;  ///< [slot]

inline void join(Times& into, const Times& from) noexcept {
  typedef Time Four __attribute__((vector_size(16), aligned(4), may_alias));
  for (size_t i = 0; i < into.size(); i += 4) {
    auto& a = *reinterpret_cast<Four*>(&into[i]);
    const auto& b = *reinterpret_cast<const Four*>(&from[i]);
    a = a > b ? a : b;
  }
}

/// What is known of other blocks, since they have arrived somewhere: [block], null: nothing.
using Foreign = std::vector<std::shared_ptr<const Times>>;
using ForeignPtr = std::shared_ptr<const Foreign>;

[[nodiscard]] inline ForeignPtr join_foreign(const ForeignPtr& a, const ForeignPtr& b) {
  if (a == b || b == nullptr) return a;
  if (a == nullptr) return b;
  auto joined = std::make_shared<Foreign>(*a);
  for (size_t i = 0; i < joined->size(); ++i) {
    const auto &x = (*a)[i], &y = (*b)[i];
    if (x == y || y == nullptr) continue;
    if (x == nullptr) {
      (*joined)[i] = y;
      continue;
    }
    auto both = std::make_shared<Times>(*x);
    join(*both, *y);
    (*joined)[i] = std::move(both);
  }
  return joined;
}

/// What one or several threads have seen. Changed only while one of them alone has it.
struct Knowledge {
  int references = 0;
  Times seen;
  ForeignPtr foreign;
};

/// A counted reference; the objects go back to their pool.
class KnowledgePool {
 public:
  explicit KnowledgePool(int slots) : slots_(static_cast<size_t>(slots)) {}

  [[nodiscard]] Knowledge* make() {
    if (free_.empty()) {
      all_.push_back(std::make_unique<Knowledge>());
      free_.push_back(all_.back().get());
      all_.back()->seen.resize(slots_);
    }
    Knowledge* knowledge = free_.back();
    free_.pop_back();
    knowledge->references = 1;
    std::fill(knowledge->seen.begin(), knowledge->seen.end(), Time{0});
    return knowledge;
  }
  [[nodiscard]] Knowledge* copy(const Knowledge& from) {
    Knowledge* knowledge = make();
    std::copy(from.seen.begin(), from.seen.end(), knowledge->seen.begin());
    knowledge->foreign = from.foreign;
    return knowledge;
  }
  void release(Knowledge* knowledge) {
    if (--knowledge->references > 0) return;
    knowledge->foreign.reset();
    free_.push_back(knowledge);
  }

 private:
  size_t slots_;
  std::vector<std::unique_ptr<Knowledge>> all_;
  std::vector<Knowledge*> free_;
};

/// A thread's clock: what it shares with others, and its own times since.
struct Clock {
  Knowledge* shared = nullptr;
  Slots slots;
  int thread = 0;
  uint16_t kind = 0;  ///< of its epochs: first_block + block
  Time now = 1;
  Time copies = 0;       ///< groups of cp.async that have landed
  Time stores = 0;       ///< groups of bulk stores that have been written
  Time store_reads = 0;  ///< and that have read shared memory

  [[nodiscard]] Epoch epoch() const noexcept { return {kind, static_cast<uint16_t>(thread), now}; }
  [[nodiscard]] Epoch epoch_of(int slot, Time time) const noexcept {
    return {kind, static_cast<uint16_t>(slot), time};
  }
  [[nodiscard]] Time seen(int slot) const noexcept {
    if (slot < slots.barrier(0) && slot % slots.threads == thread) {
      const Time own[] = {now, copies, stores, store_reads};
      return own[slot / slots.threads];
    }
    return shared->seen[static_cast<size_t>(slot)];
  }
  [[nodiscard]] bool saw(const Epoch& e) const noexcept {
    if (e.kind == kind) return seen(e.slot) >= e.time;
    if (e.kind <= Epoch::host) return true;
    if (!shared->foreign) return false;
    const auto& times = (*shared->foreign)[static_cast<size_t>(e.block())];
    return times && (*times)[e.slot] >= e.time;
  }
  /// Puts this thread's own times into a clock.
  void publish(Times& into) const noexcept {
    const auto own = [&](int slot, Time time) {
      into[static_cast<size_t>(slot)] = std::max(into[static_cast<size_t>(slot)], time);
    };
    own(thread, now);
    own(slots.copies(thread), copies);
    own(slots.stores(thread), stores);
    own(slots.store_reads(thread), store_reads);
  }
  /// What this thread alone has, so that it may be changed.
  [[nodiscard]] Knowledge& own(KnowledgePool& pool) {
    if (shared->references > 1) {
      Knowledge* copy = pool.copy(*shared);
      pool.release(shared);
      shared = copy;
    }
    return *shared;
  }
};

/// All know what each knew. `clock(i)`: the i-th of `count` clocks of one block.
template <class ClockOf>
void meet(KnowledgePool& pool, int count, ClockOf clock) {
  Knowledge* common = clock(0).shared;
  int sharing = 0;
  for (int i = 0; i < count; ++i) sharing += clock(i).shared == common ? 1 : 0;
  const bool is_theirs = sharing == common->references;
  Knowledge* joined = is_theirs ? common : pool.copy(*common);
  if (is_theirs) ++joined->references;  // ours, until all have theirs
  const Knowledge* last = common;
  for (int i = 0; i < count; ++i) {
    Clock& c = clock(i);
    if (c.shared != common && c.shared != last) {
      join(joined->seen, c.shared->seen);
      joined->foreign = join_foreign(joined->foreign, c.shared->foreign);
      last = c.shared;
    }
  }
  for (int i = 0; i < count; ++i) {
    Clock& c = clock(i);
    c.publish(joined->seen);
    ++c.now;
    if (c.shared == joined) continue;
    pool.release(c.shared);
    c.shared = joined;
    ++joined->references;
  }
  pool.release(joined);
}

}  // namespace folio::inline v1::emulator::cta
