// SPDX-License-Identifier: Apache-2.0
/// folio/testing/cta/state.h: what the emulator knows of a running block and of each of its
/// threads.
#pragma once

#include <array>
#include <boost/context/fiber.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <source_location>
#include <string>
#include <vector>

#include "folio/core/dtype.h"
#include "folio/testing/cta/access_map.h"
#include "folio/testing/cta/clock.h"
#include "folio/testing/mbarrier.h"
#include "folio/testing/mma_sync.h"
#include "folio/testing/shared_memory.h"
#include "folio/testing/wgmma.h"
#include "folio/tma/tensor_map.h"

namespace folio::inline v1::emulator::cta {

/// What all lanes of a warp do together.
enum class Op : uint8_t {
  none,
  sync_warp,
  shuffle,
  ballot,
  load_matrices,
  load_matrices_transposed,
  multiply,
  warpgroup_arrive,
  multiply_group,
  commit_multiplies,
  wait_multiplies,
};
[[nodiscard]] constexpr const char* name(Op op) noexcept {
  constexpr const char* names[] = {"nothing",
                                   "sync_warp",
                                   "shuffle",
                                   "ballot",
                                   "load_matrices<false>",
                                   "load_matrices<true>",
                                   "multiply",
                                   "warpgroup_arrive",
                                   "multiply_group",
                                   "commit_multiplies",
                                   "wait_multiplies"};
  return names[static_cast<int>(op)];
}
/// Instructions that all lanes execute at the same place (.aligned).
[[nodiscard]] constexpr bool is_aligned(Op op) noexcept { return op >= Op::load_matrices; }

/// One cp.async.
struct Copy {
  uint32_t to;
  uint32_t bytes;
  const std::byte* from;
  bool is_valid, has_landed;
};

/// What TMA moves: a box or four rows by a map, or plain bytes.
struct Bulk {
  enum class Kind : uint8_t { tile, gather4, bytes } kind = Kind::bytes;
  tma::TensorMap map;
  int32_t coordinates[tma::TensorMap::max_rank] = {};
  std::byte* global = nullptr;  ///< of bytes
  uint32_t shared = 0;
  int64_t bytes = 0;
  int barrier = -1;  ///< loads: where they report
};

/// Closed groups of asynchronous things of one thread, and the open one. `Item`s land in order.
template <class Item>
struct Groups {
  std::vector<Item> items;   // not landed, or of a group not waited for
  std::vector<size_t> ends;  // [closed group]: its end in items
  size_t first = 0;          // closed group that is the oldest
  Time closed = 0;           // ever

  /// Whether anything is left, of groups not waited for or of the open one.
  [[nodiscard]] bool has_items() const { return items.size() > (first == 0 ? 0 : ends[first - 1]); }
  [[nodiscard]] int pending() const { return static_cast<int>(ends.size() - first); }
  void close() {
    ends.push_back(items.size());
    ++closed;
  }
  /// Takes the oldest closed group off, after `land` of each of its items.
  template <class Land>
  void finish_oldest(Land land) {
    for (size_t i = first == 0 ? 0 : ends[first - 1]; i < ends[first]; ++i) land(items[i]);
    ++first;
    if (first == ends.size() || first >= 64) forget();
  }

 private:
  void forget() {
    const size_t gone = ends[first - 1];
    items.erase(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(gone));
    ends.erase(ends.begin(), ends.begin() + static_cast<std::ptrdiff_t>(first));
    for (size_t& end : ends) end -= gone;
    first = 0;
  }
};

/// What a lane brings to a collective, and takes away.
struct Offer {
  uint32_t value = 0;
  int from = 0;
  float* c = nullptr;
  const uint32_t* a = nullptr;
  uint32_t b[2] = {};
  uint32_t out[4] = {};
  std::array<uint64_t, 2> descriptors = {};  // of multiply_group: A, B
  DType dtype = DType::bf16;
};

/// An ordinary access to shared memory, for counting bank conflicts.
struct BankAccess {
  const char* file;
  uint32_t line, column;
  uint32_t at;
  uint8_t bytes;
  /// Whether two lanes make it by one instruction.
  [[nodiscard]] bool is_together(const BankAccess& other) const noexcept {
    return line == other.line && column == other.column && file == other.file &&
           bytes == other.bytes;
  }
};

/// Of a lane, between two meetings of its warp; what is beyond is not counted.
inline constexpr size_t most_bank_accesses = 4096;

/// fence.proxy.async: orders what its thread had written, also by cp.async that had landed.
struct Fence {
  Time now, copies;
};

struct BlockState;

/// A fiber that may be left where it stands: what is on its stack is not destroyed then.
union FiberSlot {
  boost::context::fiber fiber;
  FiberSlot() : fiber() {}
  FiberSlot(const FiberSlot&) = delete;
  ~FiberSlot() {}
};

struct ThreadState {
  BlockState* block = nullptr;
  int index = 0;
  FiberSlot fiber, scheduler;
  bool has_ended = false;
  std::source_location where;      // of its last call of the machine
  const char* waits_at = nullptr;  // outside of a warp's collective
  int waits_for_barrier = -1;      // an mbarrier
  uint32_t waits_for_parity = 0;
  Op at = Op::none;
  Offer offer;
  Clock clock;
  Groups<Copy> copies;
  Groups<Bulk> stores;
  std::vector<Fence> fences;
  std::vector<BankAccess> bank_accesses;  // since the last collective of the warp
};

/// Thirty-two lanes on their way to a collective.
struct WarpState {
  int arrived = 0;
  int first = 0;  // lane that came first
};

/// bar.sync: barrier 0 of the whole block, or a named one.
struct SyncBarrier {
  int count = 0;  // threads that meet, as the first to come said
  std::vector<int> waiting;
};

struct BarrierState {
  Mbarrier state{1};
  uint32_t address = 0;
  Epoch made;
  bool is_fenced = false;
  Times arriving, visible;
  ForeignPtr arriving_foreign, visible_foreign;
  std::vector<int> waiting;         // threads
  std::vector<int64_t> next_phase;  // [thread] that it has to wait for; -2: has not waited
};

/// One multiply_group on its way.
struct GroupMultiply {
  WgmmaArguments arguments;  // without registers of A
  bool accumulates = true;
  size_t accumulators = 0;  // index into WarpgroupState::held
  std::vector<uint32_t> a;  // [thread][4], empty: A is in shared memory
  const uint32_t* a_at[warpgroup_threads] = {};
};
/// Accumulators that belong to multiplies in flight: what they will be.
struct HeldAccumulators {
  int users = 0;  // multiplies not waited for
  float* at[warpgroup_threads] = {};
  std::vector<float> values;  // [thread][n / 2]
};
struct WarpgroupState {
  std::vector<int> waiting;  // threads at a collective of the group
  bool is_fenced = false;
  Groups<GroupMultiply> multiplies;
  std::vector<HeldAccumulators> held;
  size_t executed = 0;  // items of `multiplies` that have been
};

struct BlockState {
  explicit BlockState(int64_t shared_bytes) : shared(shared_bytes), order(shared_bytes) {}

  int index = 0;
  int live = 0;  // threads
  SharedMemory shared;
  AccessMap order;
  std::vector<ThreadState> threads;
  std::vector<WarpState> warps;
  std::vector<WarpgroupState> warpgroups;
  std::array<SyncBarrier, 16> syncs;
  std::vector<BarrierState> barriers;
  std::vector<Bulk> flights;  // loads by TMA
};

}  // namespace folio::inline v1::emulator::cta
