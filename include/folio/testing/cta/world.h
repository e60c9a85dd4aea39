// SPDX-License-Identifier: Apache-2.0
/// folio/testing/cta/world.h: the running grid: its blocks, whose turn it is, what went wrong.
///
/// Threads are fibers. One runs until it waits for others or lets others go first; who is next is
/// drawn at random, in moods that change: anybody, whoever was ready last, everybody but one warp.
/// After a fault nobody goes on: fibers are left where they stand.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "folio/testing/cta/fiber_stacks.h"
#include "folio/testing/cta/global_ranges.h"
#include "folio/testing/cta/state.h"

namespace folio::inline v1::emulator {

/// How a kernel is launched, and how closely it is watched.
struct GridShape {
  int blocks = 1;    ///< fewer than 2^16
  int resident = 1;  ///< blocks that run at once; the others start when one ends, in order
  int threads = 32;  ///< a multiple of 32, 1024 at the most
  int64_t shared_bytes = 0;
  uint64_t seed = 1;
  /// Whether order is checked, copies land late and bank conflicts are counted. Without, kernels
  /// run faster, and only what they compute, where they reach and who waits in vain is checked.
  bool check_order = true;
  /// Global memory that was not added may be touched too.
  bool is_open = false;
  int64_t most_switches = int64_t{1} << 30;  ///< of fibers; more is a kernel without an end
};

/// What a kernel did, summed over the grid. Collectives count once per warp, or block.
struct GridCounts {
  int64_t ldmatrix = 0;
  int64_t ldmatrix_extra_passes = 0;  ///< of load_matrices, by bank conflicts
  int64_t shared_accesses = 0;      ///< ordinary ones, per warp, of those whose lanes were matched
  int64_t shared_extra_passes = 0;  ///< of these, by bank conflicts
  int64_t mma = 0;
  int64_t wgmma = 0;
  int64_t shuffles = 0;
  int64_t votes = 0;
  int64_t syncwarps = 0;
  int64_t syncs = 0;
  int64_t atomics = 0;
  int64_t copies = 0;  ///< copy_async
  int64_t copied_bytes = 0;
  int64_t tma_copies = 0;      ///< boxes, gathers and bulk copies to shared memory
  int64_t tma_bytes = 0;       ///< of shared memory, filled elements included
  int64_t tma_read_bytes = 0;  ///< of global memory, by them
  int64_t tma_stores = 0;
  int64_t tma_stored_bytes = 0;  ///< of global memory
  int64_t prefetches = 0;
  int64_t read_bytes = 0;   ///< by read
  int64_t load_bytes = 0;   ///< by load
  int64_t store_bytes = 0;  ///< by store
  int64_t mbarrier_waits = 0;
  int64_t switches = 0;
  bool operator==(const GridCounts&) const = default;
};

namespace cta {

class World {
 public:
  explicit World(const GridShape& grid)
      : shape(grid), slots{grid.threads}, knowledge(slots.count()), random_(grid.seed) {}
  World(const World&) = delete;

  static constexpr int most_blocks = 0xffff - Epoch::first_block;  // that an epoch can name

  const GridShape shape;
  const Slots slots;
  GridCounts counts;
  GlobalRanges ranges;
  KnowledgePool knowledge;
  /// What was published at a counter, for all that come later.
  std::map<const void*, ForeignPtr> published;

  /// Whether a kernel is watched closely.
  [[nodiscard]] bool checks() const noexcept { return shape.check_order; }
  /// splitmix64
  [[nodiscard]] uint64_t draw() noexcept {
    uint64_t z = random_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  [[nodiscard]] static std::string who(const ThreadState& s) {
    return "block " + std::to_string(s.block->index) + " warp " + std::to_string(s.index / 32) +
           " lane " + std::to_string(s.index % 32);
  }
  [[nodiscard]] static std::string where(const ThreadState& s) {
    const std::string file = s.where.file_name();
    return " (" + file.substr(file.find_last_of('/') + 1) + ":" + std::to_string(s.where.line()) +
           ")";
  }
  /// The first fault stands.
  void report(const ThreadState& s, const std::string& text) {
    if (fault_.empty()) fault_ = who(s) + " " + text + where(s);
  }
  /// Reports, and lets the fiber that runs never go on.
  [[noreturn]] void fail(const ThreadState& s, const std::string& text) {
    report(s, text);
    while (true) suspend(*running_);
  }
  [[nodiscard]] bool has_failed() const noexcept { return !fault_.empty(); }
  [[nodiscard]] const std::string& fault() const noexcept { return fault_; }

  /// Until somebody wakes it.
  void suspend(ThreadState& s) { s.scheduler.fiber = std::move(s.scheduler.fiber).resume(); }
  void wake(ThreadState& s) { ready_.push_back(&s); }
  /// Others may go first.
  void yield(ThreadState& s) {
    wake(s);
    suspend(s);
  }

  /// Lands a load in flight, or nothing. Given by the code of bulk copies.
  std::function<bool(bool must)> land_loads;
  /// Looks at a thread that has ended.
  std::function<void(ThreadState&)> check_end;

  /// Runs all blocks; `body` is called by each thread. "" or the first fault.
  std::string run(std::function<void(ThreadState&)> body) {
    if (has_failed()) return fault_;
    if (shape.threads < 32 || shape.threads > 1024 || shape.threads % 32 != 0 || shape.blocks < 0 ||
        shape.blocks > most_blocks)
      return fault_ = "no such grid: " + std::to_string(shape.blocks) + " blocks of " +
                      std::to_string(shape.threads) + " threads";
    body_ = std::move(body);
    ranges.sort();
    ranges.settle();
    published.clear();
    blocks_.clear();
    blocks_.resize(static_cast<size_t>(shape.blocks));
    next_block_ = 0;
    while (next_block_ < std::min(shape.resident, shape.blocks)) start(next_block_++);
    while (fault_.empty() && live_blocks_ > 0) step();
    if (!has_failed()) blocks_.clear();
    return fault_;
  }
  /// Null: not running.
  [[nodiscard]] BlockState* block(size_t index) { return blocks_[index].get(); }
  [[nodiscard]] size_t num_blocks() const { return blocks_.size(); }

 private:
  void step() {
    land_loads(false);
    if (ready_.empty()) {
      if (!land_loads(true) && fault_.empty()) fault_ = deadlock();
      return;
    }
    ThreadState& s = pick();
    running_ = &s;
    if (++counts.switches > shape.most_switches) {
      report(s, "goes on without an end, after " + std::to_string(shape.most_switches) +
                    " switches of fibers");
      return;
    }
    s.fiber.fiber = std::move(s.fiber.fiber).resume();
    if (s.has_ended && fault_.empty()) finish(s);
  }
  ThreadState& pick() {
    if (counts.switches % 512 == 0) {
      mood_ = static_cast<int>(draw() % 3);
      victim_ = draw();
    }
    size_t at = mood_ == 1 && draw() % 8 != 0 ? ready_.size() - 1 : draw() % ready_.size();
    if (mood_ == 2) {
      const uint64_t warps = static_cast<uint64_t>(shape.threads / 32);
      const auto is_victim = [&](const ThreadState& s) {
        return static_cast<uint64_t>(s.index / 32) == victim_ % warps;
      };
      for (int tries = 0; tries < 4 && is_victim(*ready_[at]); ++tries) at = draw() % ready_.size();
    }
    ThreadState& s = *ready_[at];
    ready_[at] = ready_.back();
    ready_.pop_back();
    return s;
  }

  void start(int index) {
    auto block = std::make_unique<BlockState>(shape.shared_bytes);
    const auto threads = static_cast<size_t>(shape.threads);
    block->index = index;
    block->live = shape.threads;
    block->threads = std::vector<ThreadState>(threads);
    block->warps.resize(threads / 32);
    block->warpgroups.resize(threads / warpgroup_threads);
    block->barriers.reserve(Slots::max_barriers);
    Knowledge* nothing = knowledge.make();
    for (size_t t = 0; t < threads; ++t) {
      ThreadState& s = block->threads[t];
      s.block = block.get();
      s.index = static_cast<int>(t);
      ++nothing->references;
      s.clock.shared = nothing;
      s.clock.slots = slots;
      s.clock.thread = s.index;
      s.clock.kind = static_cast<uint16_t>(Epoch::first_block + index);
      s.fiber.fiber = boost::context::fiber(std::allocator_arg, FiberStacks::Allocator{&stacks_},
                                            [this, &s](boost::context::fiber&& scheduler) {
                                              s.scheduler.fiber = std::move(scheduler);
                                              run_thread(s);
                                              return std::move(s.scheduler.fiber);
                                            });
      wake(s);
    }
    knowledge.release(nothing);
    ++live_blocks_;
    blocks_[static_cast<size_t>(index)] = std::move(block);
  }
  void run_thread(ThreadState& s) {
    try {
      body_(s);
    } catch (const std::exception& error) {
      report(s, std::string("throws: ") + error.what());
    }
    s.has_ended = true;
  }
  void finish(ThreadState& s) {
    check_end(s);
    if (has_failed() || --s.block->live > 0) return;
    for (ThreadState& thread : s.block->threads) knowledge.release(thread.clock.shared);
    --live_blocks_;
    blocks_[static_cast<size_t>(s.block->index)].reset();
    if (next_block_ < shape.blocks) start(next_block_++);
  }

  [[nodiscard]] static std::string waits_at(const ThreadState& s) {
    if (s.waits_at != nullptr) return s.waits_at;
    if (s.waits_for_barrier < 0) return name(s.at);
    const Mbarrier& b = s.block->barriers[static_cast<size_t>(s.waits_for_barrier)].state;
    return "barrier " + std::to_string(s.waits_for_barrier) + ", parity " +
           std::to_string(s.waits_for_parity) + " (" + std::to_string(b.pending()) +
           " arrivals and " + std::to_string(b.missing_bytes()) + " bytes are missing)";
  }
  /// Names up to three threads that wait.
  [[nodiscard]] std::string deadlock() const {
    std::string text = "deadlock:";
    int named = 0;
    for (const auto& block : blocks_) {
      if (!block) continue;
      std::string last;
      for (const ThreadState& s : block->threads) {
        if (s.has_ended) continue;
        const std::string what = waits_at(s) + where(s);
        if (what == last) continue;
        last = what;
        if (named++ < 3) text += (named > 1 ? ", " : " ") + who(s) + " waits at " + what;
      }
      if (block->live < shape.threads)
        text += ", " + std::to_string(shape.threads - block->live) + " threads of block " +
                std::to_string(block->index) + " have ended";
    }
    return text;
  }

  FiberStacks stacks_;
  std::vector<std::unique_ptr<BlockState>> blocks_;
  std::vector<ThreadState*> ready_;
  ThreadState* running_ = nullptr;
  std::function<void(ThreadState&)> body_;
  std::string fault_;
  uint64_t random_;
  uint64_t victim_ = 0;
  int mood_ = 0;
  int live_blocks_ = 0, next_block_ = 0;
};

}  // namespace cta
}  // namespace folio::inline v1::emulator
