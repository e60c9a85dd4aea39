// SPDX-License-Identifier: Apache-2.0
// Study: a CTA emulator. Runs the very source of a CUDA kernel on the host: every CUDA thread is a fiber, every fiber may be overtaken by
// any other wherever it talks to the machine, and every access to shared memory and to tracked global memory is checked for order by
// vector clocks (thread, cp.async group, mbarrier), as folio/testing/access_order.h does it for coroutines.
//
//   Grid grid({.blocks = 8, .resident = 3, .threads = 128, .shared_bytes = 200 << 10, .seed = 1});
//   grid.add_input("keys", pointer, bytes);                  // may be read; outside of what is added nothing may be touched
//   grid.add_buffer("partials", pointer, bytes);             // may be read and written; races and reads before writes are faults
//   std::string fault = grid.run([&](EmulatedThread& t) { decode<Config>(t, args); });      // "" or what went wrong, where
//
// What is modelled: independent thread scheduling (no implicit warp synchrony), __syncwarp, bar.sync, shuffles and votes (they order
// nothing), cp.async groups (data lands at a random time between issue and wait; until then the bytes are NaN), mbarriers with bytes,
// TMA boxes (folio's emulator), ldmatrix and mma.sync (folio's fragment maps), atomic inc.acq_rel between blocks, resident blocks.
// What is not: weak reordering inside one thread, scopes, L1 staleness, timing, the exact rounding of tensor cores.
#pragma once

#include <boost/context/fiber.hpp>
#include <boost/context/fixedsize_stack.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "folio/core/dtype.h"
#include "folio/testing/cta/numbers.h"
#include "folio/testing/cta/tile_map.h"
#include "folio/testing/mbarrier.h"
#include "folio/testing/mma_sync.h"
#include "folio/testing/tma_copy.h"
#include "folio/tma/tensor_map.h"
#include "folio/tma/tile.h"

namespace folio::inline v1::emulator {

struct GridShape {
  int blocks = 1;
  int resident = 1;  ///< blocks that run at once; the others start when one ends, in order
  int threads = 32;
  int64_t shared_bytes = 0;
  uint64_t seed = 1;
  bool check_order = true;
};

/// What the kernel did, summed over the grid.
struct GridCounts {
  int64_t ldmatrix = 0, ldmatrix_extra_passes = 0, mma = 0, shuffles = 0, votes = 0, syncwarps = 0,
          syncs = 0, atomics = 0;
  int64_t copies = 0, copied_bytes = 0, tma_copies = 0, tma_bytes = 0, switches = 0,
          mbarrier_waits = 0;
};

class Grid;
class EmulatedThread;

namespace detail {

using Time = uint32_t;
using Ticks =
    std::vector<Time>;  // [threads] thread, [threads] its cp.async groups, [max_barriers] mbarriers
inline constexpr int max_barriers = 64;
using Foreign = std::vector<std::shared_ptr<const Ticks>>;  // [block]
using ForeignPtr = std::shared_ptr<const Foreign>;

inline void join_ticks(Ticks& into, const Ticks& from) {
  for (size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], from[i]);
}
inline ForeignPtr join_foreign(const ForeignPtr& a, const ForeignPtr& b) {
  if (a == b || b == nullptr) return a;
  if (a == nullptr) return b;
  auto joined = std::make_shared<Foreign>(*a);
  for (size_t i = 0; i < joined->size(); ++i) {
    const auto &x = (*a)[i], &y = (*b)[i];
    if (x == y || y == nullptr) continue;
    if (x == nullptr) {
      (*joined)[i] = y;
    } else {
      auto merged = std::make_shared<Ticks>(*x);
      join_ticks(*merged, *y);
      (*joined)[i] = merged;
    }
  }
  return joined;
}

struct Epoch {
  int32_t block = -1;  // -1: never
  int32_t slot = 0;    // index into Ticks
  Time time = 0;
  uint32_t fences = 0;  // of a write: fence.proxy.async that its thread had executed
};

/// Reads since the last write: most words are read by one thread, few by many.
struct Readers {
  Epoch one;
  std::unique_ptr<std::vector<Epoch>> more;
  void clear() {
    one = {};
    if (more) more->clear();
  }
};
struct Word {
  Epoch write;
  Readers readers;
};

enum class Op : uint8_t {
  none,
  syncwarp,
  sync,
  shuffle,
  vote,
  ldmatrix,
  ldmatrix_trans,
  mma,
  named_sync
};
inline const char* name(Op op) {
  constexpr const char* names[] = {"nothing",  "__syncwarp",     "__syncthreads", "shuffle", "vote",
                                   "ldmatrix", "ldmatrix.trans", "mma.sync",      "bar.sync"};
  return names[static_cast<int>(op)];
}

struct Copy {
  uint32_t to;
  const std::byte* from;
  bool valid, landed;
  size_t bytes = 16;
};

struct Barrier {
  Mbarrier state{1};
  uint32_t address = 0;
  Ticks arriving, visible;
  std::vector<int> waiting;  // threads of the block
  std::vector<int64_t> next_phase;
};

struct Lane {  // what a thread brings to a collective
  uint32_t value = 0, from = 0;
  uint32_t address = 0;
  float* c = nullptr;
  const uint32_t* a = nullptr;
  uint32_t b[2] = {};
  DType dtype = DType::bf16;
  uint32_t out[4] = {};
};

struct Flight {  // TMA
  int barrier;
  int64_t bytes;
  std::function<std::string()> land;
};

struct Block;
struct State {  // of a thread
  Block* block = nullptr;
  int index = 0;
  boost::context::fiber fiber, scheduler;
  bool is_done = false;
  Op at = Op::none;
  std::string waits_for;
  Lane lane;
  Ticks seen;
  ForeignPtr foreign;
  std::vector<Copy> open_group;
  std::deque<std::vector<Copy>> groups;  // committed, not waited for
  Time committed = 0;
  uint32_t fences = 0;
};

struct Block {
  int index = 0;
  std::vector<std::byte> shared;
  std::vector<Word> order;
  std::vector<State> threads;
  std::vector<int> arrived_warp;  // lanes at the warp's collective
  std::vector<Op> warp_op;
  int arrived = 0, live = 0;
  std::array<std::vector<int>, 16> named;
  std::vector<Barrier> barriers;
  std::vector<Flight> flights;
};

struct StackPool {  // stacks are reused by later blocks
  std::vector<void*>* pool;
  size_t size;
  boost::context::stack_context allocate() {
    void* memory;
    if (pool->empty()) {
      memory = std::malloc(size);
    } else {
      memory = pool->back();
      pool->pop_back();
    }
    boost::context::stack_context sctx;
    sctx.size = size;
    sctx.sp = static_cast<char*>(memory) + size;
    return sctx;
  }
  void deallocate(boost::context::stack_context& sctx) noexcept {
    pool->push_back(static_cast<char*>(sctx.sp) - sctx.size);
  }
};

}  // namespace detail

class Grid {
 public:
  explicit Grid(const GridShape& shape)
      : shape_(shape), random_(shape.seed * 0x9e3779b97f4a7c15u + 1) {}
  Grid(const Grid&) = delete;
  ~Grid() {
    blocks_.clear();
    for (void* stack : stacks_) std::free(stack);
  }

  void add_input(std::string label, const void* data, int64_t bytes) {
    add(std::move(label), data, bytes, false);
  }
  void add_buffer(std::string label, void* data, int64_t bytes, bool is_written = false) {
    add(std::move(label), data, bytes, true);
    if (is_written)
      for (detail::Word& word : ranges_.back().order) word.write = {-2, 0, 0};
  }

  /// "" or the first fault.
  template <class Body>
  std::string run(Body body) {
    body_ = [body](EmulatedThread& t) { body(t); };
    for (int b = 0; b < std::min(shape_.resident, shape_.blocks); ++b) start(b);
    next_block_ = std::min(shape_.resident, shape_.blocks);
    while (fault_.empty() && live_blocks_ > 0) {
      land_some();
      if (ready_.empty()) {
        if (land_one()) continue;
        if (fault_.empty()) fault_ = deadlock();
        break;
      }
      const size_t pick = draw() % ready_.size();
      detail::State* state = ready_[pick];
      ready_[pick] = ready_.back();
      ready_.pop_back();
      ++counts_.switches;
      state->fiber = std::move(state->fiber).resume();
      if (state->is_done) finish(*state);
    }
    blocks_.clear();  // unwinds what is left
    return fault_;
  }
  [[nodiscard]] const GridCounts& counts() const { return counts_; }

 private:
  friend class EmulatedThread;
  using State = detail::State;
  using Block = detail::Block;
  using Epoch = detail::Epoch;

  struct Range {
    std::string label;
    const std::byte* begin;
    int64_t bytes;
    bool is_tracked;
    std::vector<detail::Word> order;  // per 4 bytes
  };

  void add(std::string label, const void* data, int64_t bytes, bool is_tracked) {
    ranges_.push_back(
        {std::move(label), static_cast<const std::byte*>(data), bytes, is_tracked, {}});
    if (is_tracked) ranges_.back().order.resize(static_cast<size_t>((bytes + 3) / 4));
  }
  uint64_t draw() {
    uint64_t z = random_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  void start(int index);
  void finish(State& state) {
    Block& block = *state.block;
    for (const auto& group : state.groups)
      if (!group.empty()) fail(state, "ends while a cp.async of its own is in flight");
    if (!state.open_group.empty()) fail(state, "ends with copies that were never committed");
    if (--block.live > 0) return;
    if (!block.flights.empty()) fail(state, "is the last to end while a TMA copy is in flight");
    --live_blocks_;
    finished_.push_back(&block);
    if (next_block_ < shape_.blocks) start(next_block_++);
  }
  std::string who(const State& s) const {
    return "block " + std::to_string(s.block->index) + " warp " + std::to_string(s.index / 32) +
           " lane " + std::to_string(s.index % 32);
  }
  void fail(const State& s, const std::string& text) {
    if (fault_.empty()) fault_ = who(s) + " " + text;
  }
  std::string deadlock() const {
    for (const auto& block : blocks_)
      if (block)
        for (const State& s : block->threads)
          if (!s.is_done)
            return "deadlock: " + who(s) + " waits at " +
                   (s.waits_for.empty() ? detail::name(s.at) : s.waits_for.c_str());
    return "deadlock";
  }
  void suspend(State& s) { s.scheduler = std::move(s.scheduler).resume(); }
  /// After a fault nobody goes on.
  void stop_here(State& s) {
    while (!fault_.empty()) suspend(s);
  }

  // ---- order
  bool saw(const State& s, const Epoch& e) const {
    if (e.block == s.block->index) return s.seen[static_cast<size_t>(e.slot)] >= e.time;
    if (e.block == -2) return true;
    if (!s.foreign) return false;
    const auto& ticks = (*s.foreign)[static_cast<size_t>(e.block)];
    return ticks && (*ticks)[static_cast<size_t>(e.slot)] >= e.time;
  }
  Epoch now(const State& s) const {
    return {s.block->index, s.index, s.seen[static_cast<size_t>(s.index)], s.fences};
  }
  std::string who(const Epoch& e) const {
    const int t = shape_.threads;
    if (e.slot >= 2 * t) return "TMA behind barrier " + std::to_string(e.slot - 2 * t);
    return std::string(e.slot >= t ? "cp.async of " : "") + "block " + std::to_string(e.block) +
           " warp " + std::to_string(e.slot % t / 32) + " lane " + std::to_string(e.slot % t % 32);
  }
  void check_read(State& s, std::vector<detail::Word>& order, int64_t at, int64_t bytes,
                  const std::string& where) {
    if (!shape_.check_order) return;
    for (int64_t w = at / 4; w < (at + bytes + 3) / 4; ++w) {
      detail::Word& word = order[static_cast<size_t>(w)];
      if (word.write.block == -1)
        return fail(
            s, "reads " + where + " byte " + std::to_string(at) + ", which nothing has written");
      if (!saw(s, word.write))
        return fail(s, "reads " + where + " byte " + std::to_string(at) + " before the write of " +
                           who(word.write) + " is ordered");
      const Epoch mine = now(s);
      detail::Readers& r = word.readers;
      if (r.one.block == -1 || (r.one.block == mine.block && r.one.slot == mine.slot)) {
        r.one = mine;
        continue;
      }
      if (!r.more) r.more = std::make_unique<std::vector<Epoch>>();
      bool found = false;
      for (Epoch& e : *r.more)
        if (e.block == mine.block && e.slot == mine.slot) {
          e = mine;
          found = true;
          break;
        }
      if (!found) r.more->push_back(mine);
    }
  }
  void check_write(State& s, std::vector<detail::Word>& order, int64_t at, int64_t bytes,
                   const Epoch& epoch, const std::string& where) {
    if (!shape_.check_order) return;
    for (int64_t w = at / 4; w < (at + bytes + 3) / 4; ++w) {
      detail::Word& word = order[static_cast<size_t>(w)];
      if (word.write.block != -1 && !saw(s, word.write))
        return fail(s, "writes " + where + " byte " + std::to_string(at) + " before the write of " +
                           who(word.write) + " is ordered");
      if (word.readers.one.block != -1 && !saw(s, word.readers.one))
        return fail(s, "overwrites " + where + " byte " + std::to_string(at) + ", which " +
                           who(word.readers.one) + " reads unordered");
      if (word.readers.more)
        for (const Epoch& e : *word.readers.more)
          if (!saw(s, e))
            return fail(s, "overwrites " + where + " byte " + std::to_string(at) + ", which " +
                               who(e) + " reads unordered");
      word.write = epoch;
      word.readers.clear();
    }
  }
  Range* range_of(const void* pointer, int64_t bytes) {
    const auto* p = static_cast<const std::byte*>(pointer);
    if (last_range_ < ranges_.size()) {
      Range& r = ranges_[last_range_];
      if (p >= r.begin && p + bytes <= r.begin + r.bytes) return &r;
    }
    for (size_t i = 0; i < ranges_.size(); ++i) {
      Range& r = ranges_[i];
      if (p >= r.begin && p + bytes <= r.begin + r.bytes) {
        last_range_ = i;
        return &r;
      }
    }
    return nullptr;
  }

  // ---- synchronisation
  void join_all(State* first, int count) {
    detail::Ticks joined = first->seen;
    detail::ForeignPtr foreign = first->foreign;
    for (int i = 1; i < count; ++i) {
      detail::join_ticks(joined, first[i].seen);
      foreign = detail::join_foreign(foreign, first[i].foreign);
    }
    for (int i = 0; i < count; ++i) {
      first[i].seen = joined;
      ++first[i].seen[static_cast<size_t>(first[i].index)];
      first[i].foreign = foreign;
    }
  }
  /// Waits for the 32 lanes of the warp at the same operation; the last one performs it for all.
  void collective(State& s, detail::Op op) {
    Block& block = *s.block;
    const int warp = s.index / 32;
    State* lanes = &block.threads[static_cast<size_t>(warp) * 32];
    s.at = op;
    int& arrived = block.arrived_warp[static_cast<size_t>(warp)];
    detail::Op& common = block.warp_op[static_cast<size_t>(warp)];
    if (arrived == 0) common = op;
    if (common != op) {
      fail(s, std::string("is at ") + detail::name(op) + " while others of its warp are at " +
                  detail::name(common));
      return stop_here(s);
    }
    if (++arrived < 32) {
      suspend(s);
      return;
    }
    arrived = 0;
    perform(op, lanes);
    for (int i = 0; i < 32; ++i) {
      lanes[i].at = detail::Op::none;
      if (&lanes[i] != &s) ready_.push_back(&lanes[i]);
    }
    stop_here(s);
  }
  void perform(detail::Op op, State* lanes);
  void sync_block(State& s) {
    Block& block = *s.block;
    s.at = detail::Op::sync;
    if (++block.arrived < static_cast<int>(block.threads.size())) {
      suspend(s);
      return;
    }
    block.arrived = 0;
    ++counts_.syncs;
    join_all(block.threads.data(), static_cast<int>(block.threads.size()));
    for (State& other : block.threads) {
      other.at = detail::Op::none;
      if (&other != &s) ready_.push_back(&other);
    }
  }
  void land(Block& block, detail::Copy& copy) {
    if (copy.landed) return;
    copy.landed = true;
    if (copy.valid)
      std::memcpy(&block.shared[copy.to], copy.from, copy.bytes);
    else
      std::memset(&block.shared[copy.to], 0, copy.bytes);
  }
  void land_some() {
    for (auto& block : blocks_)
      if (block && !block->flights.empty() && draw() % 4 == 0)
        land_flight(*block, draw() % block->flights.size());
  }
  bool land_one() {
    for (auto& block : blocks_)
      if (block && !block->flights.empty()) {
        land_flight(*block, draw() % block->flights.size());
        return true;
      }
    return false;
  }
  void land_flight(Block& block, size_t i) {
    detail::Flight flight = std::move(block.flights[i]);
    block.flights.erase(block.flights.begin() + static_cast<std::ptrdiff_t>(i));
    if (std::string error = flight.land(); !error.empty() && fault_.empty()) fault_ = error;
    bool completes = false;
    const Fault fault = block.barriers[static_cast<size_t>(flight.barrier)].state.complete_tx(
        flight.bytes, completes);
    settle(block, flight.barrier, fault, completes, block.threads[0]);
  }
  void settle(Block& block, int barrier, Fault fault, bool completes, State& s) {
    detail::Barrier& b = block.barriers[static_cast<size_t>(barrier)];
    if (fault != Fault::none)
      return fail(s, std::string("causes ") + folio::emulator::name(fault) + " at barrier " +
                         std::to_string(barrier));
    if (!completes) return;
    detail::join_ticks(b.visible, b.arriving);
    b.visible[static_cast<size_t>(2 * shape_.threads + barrier)] =
        static_cast<detail::Time>(b.state.phase());
    std::fill(b.arriving.begin(), b.arriving.end(), 0u);
    for (int t : b.waiting) ready_.push_back(&block.threads[static_cast<size_t>(t)]);
    b.waiting.clear();
  }

  GridShape shape_;
  uint64_t random_;
  GridCounts counts_;
  std::function<void(EmulatedThread&)> body_;
  std::vector<void*> stacks_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<Block*> finished_;
  std::vector<Range> ranges_;
  size_t last_range_ = 0;
  std::vector<State*> ready_;
  std::map<const void*, detail::ForeignPtr> counters_;
  int live_blocks_ = 0, next_block_ = 0;
  std::string fault_;
};

/// The same members as cuda::Thread (thread.cuh).
class EmulatedThread {
 public:
  using TileMap = tma::EncodedTensorMap;
  EmulatedThread(Grid& grid, detail::State& state) : grid_(grid), me_(state) {}

  int thread() const { return me_.index; }
  int block() const { return me_.block->index; }
  int blocks() const { return grid_.shape_.blocks; }
  int lane() const { return me_.index % 32; }
  int warp() const { return me_.index / 32; }
  int threads() const { return grid_.shape_.threads; }
  void fail(const char* why) {
    grid_.fail(me_, std::string("fails: ") + why);
    grid_.stop_here(me_);
  }
  uint32_t add_acq_rel(uint32_t* counter, uint32_t n) {
    const uint32_t old = *counter;
    arrive_at(counter, ~0u);
    *counter = old + n;
    return old;
  }
  uint32_t shared_base() const { return 0; }

  // ---- shared memory
  template <class T>
  T load_shared(uint32_t at) {
    T value{};
    if (!in_shared(at, sizeof(T), "reads")) return value;
    grid_.check_read(me_, me_.block->order, at, sizeof(T), "shared");
    grid_.stop_here(me_);
    std::memcpy(&value, &me_.block->shared[at], sizeof(T));
    return value;
  }
  template <class T>
  void store_shared(uint32_t at, const T& value) {
    if (!in_shared(at, sizeof(T), "writes")) return;
    grid_.check_write(me_, me_.block->order, at, sizeof(T), grid_.now(me_), "shared");
    grid_.stop_here(me_);
    std::memcpy(&me_.block->shared[at], &value, sizeof(T));
  }

  // ---- global memory
  template <class T>
  T read(const T* p) {
    if (grid_.range_of(p, sizeof(T)) == nullptr) {
      grid_.fail(me_, "reads global memory that it was not given");
      grid_.stop_here(me_);
    }
    return *p;
  }
  template <class T>
  T load(const T* p) {
    tracked(p, sizeof(T), false);
    return *p;
  }
  template <class T>
  void store(T* p, const T& value) {
    tracked(p, sizeof(T), true);
    *p = value;
  }
  /// atom.acq_rel.gpu.inc: adds one, or goes back to 0 from `last`; the old value.
  uint32_t arrive_at(uint32_t* counter, uint32_t last) {
    ++grid_.counts_.atomics;
    if (grid_.range_of(counter, 4) == nullptr)
      grid_.fail(me_, "counts outside of what it was given");
    grid_.stop_here(me_);
    detail::ForeignPtr& published = grid_.counters_[counter];
    me_.foreign = detail::join_foreign(me_.foreign, published);
    auto mine = std::make_shared<detail::Foreign>(static_cast<size_t>(grid_.shape_.blocks));
    (*mine)[static_cast<size_t>(block())] = std::make_shared<detail::Ticks>(me_.seen);
    published = detail::join_foreign(detail::join_foreign(published, me_.foreign), mine);
    tick();
    const uint32_t old = *counter;
    *counter = old >= last ? 0 : old + 1;
    return old;
  }

  /// The same without order, for mutants.
  uint32_t arrive_relaxed(uint32_t* counter, uint32_t last) {
    const uint32_t old = *counter;
    *counter = old >= last ? 0 : old + 1;
    return old;
  }

  // ---- cp.async
  template <int Bytes = 16>
  void copy_async(uint32_t to, const void* from, bool valid) {
    ++grid_.counts_.copies;
    grid_.counts_.copied_bytes += valid ? Bytes : 0;
    if (!in_shared(to, Bytes, "copies to")) return;
    if (valid && reinterpret_cast<uintptr_t>(from) % Bytes != 0)
      grid_.fail(me_, "copies from a misaligned address");
    if (valid && grid_.range_of(from, Bytes) == nullptr)
      grid_.fail(me_, "copies from global memory that it was not given");
    grid_.check_write(me_, me_.block->order, to, Bytes,
                      {block(), grid_.shape_.threads + me_.index, me_.committed + 1}, "shared");
    grid_.stop_here(me_);
    std::memset(&me_.block->shared[to], 0xff, Bytes);
    me_.open_group.push_back({to, static_cast<const std::byte*>(from), valid, false, Bytes});
    if (grid_.draw() % 2) grid_.land(*me_.block, me_.open_group.back());
  }
  void commit_copies() {
    me_.groups.push_back(std::move(me_.open_group));
    me_.open_group.clear();
    ++me_.committed;
  }
  template <int Pending>
  void wait_copies() {
    while (static_cast<int>(me_.groups.size()) > Pending) {
      for (detail::Copy& copy : me_.groups.front()) grid_.land(*me_.block, copy);
      me_.groups.pop_front();
    }
    me_.seen[static_cast<size_t>(grid_.shape_.threads + me_.index)] =
        me_.committed - static_cast<detail::Time>(me_.groups.size());
  }

  // ---- mbarriers and TMA
  void init_barrier(uint32_t at, uint32_t arrivals) {
    store_shared(at, uint64_t{arrivals});
    auto& barriers = me_.block->barriers;
    barriers.emplace_back();
    detail::Barrier& b = barriers.back();
    b.state = Mbarrier(static_cast<int32_t>(arrivals));
    b.address = at;
    b.arriving.assign(me_.seen.size(), 0);
    b.visible.assign(me_.seen.size(), 0);
    b.next_phase.assign(static_cast<size_t>(grid_.shape_.threads), -2);
  }
  void fence_barriers() {}
  void fence_async() { ++me_.fences; }
  void arrive(uint32_t at) {
    const int b = barrier_at(at);
    if (b < 0) return;
    release_to(b);
    bool completes = false;
    const Fault fault = me_.block->barriers[static_cast<size_t>(b)].state.arrive(completes);
    grid_.settle(*me_.block, b, fault, completes, me_);
    grid_.stop_here(me_);
    yield();
  }
  void arrive_expecting(uint32_t at, uint32_t bytes) {
    const int b = barrier_at(at);
    if (b < 0) return;
    bool completes = false;
    const Fault fault =
        me_.block->barriers[static_cast<size_t>(b)].state.expect_tx(bytes, completes);
    grid_.settle(*me_.block, b, fault, completes, me_);
    arrive(at);
  }
  void wait(uint32_t at, uint32_t parity) {
    const int b = barrier_at(at);
    if (b < 0) return;
    ++grid_.counts_.mbarrier_waits;
    detail::Barrier& barrier = me_.block->barriers[static_cast<size_t>(b)];
    int64_t& next = barrier.next_phase[static_cast<size_t>(me_.index)];
    if (next == -2) next = parity == 0 ? 0 : -1;
    const bool passes = barrier.state.passes(static_cast<int32_t>(parity));
    if ((passes ? barrier.state.phase() - 1 : barrier.state.phase()) != next)
      grid_.fail(me_, "waits for the wrong phase of barrier " + std::to_string(b));
    grid_.stop_here(me_);
    while (!barrier.state.passes(static_cast<int32_t>(parity))) {
      me_.waits_for = "mbarrier " + std::to_string(b) + " parity " + std::to_string(parity);
      barrier.waiting.push_back(me_.index);
      grid_.suspend(me_);
    }
    me_.waits_for.clear();
    ++next;
    detail::join_ticks(me_.seen, barrier.visible);
  }
  template <int Rank>
  void copy_tile(const tma::TensorMap& map, const tma::Coordinates<Rank>& c, uint32_t to,
                 uint32_t at) {
    const int b = barrier_at(at);
    if (b < 0) return;
    const int64_t bytes = map.transaction_bytes();
    ++grid_.counts_.tma_copies;
    grid_.counts_.tma_bytes += bytes;
    if (!in_shared(to, static_cast<size_t>(bytes), "copies to")) return;
    detail::Barrier& barrier = me_.block->barriers[static_cast<size_t>(b)];
    for (int64_t w = to / 4; w < (to + bytes) / 4; ++w) {
      const detail::Epoch& e = me_.block->order[static_cast<size_t>(w)].write;
      if (e.block >= 0 && e.slot < grid_.shape_.threads &&
          me_.block->threads[static_cast<size_t>(e.slot)].fences == e.fences)
        grid_.fail(
            me_, "lets TMA overwrite what " + grid_.who(e) + " wrote without a fence.proxy.async");
    }
    grid_.check_write(me_, me_.block->order, to, bytes,
                      {block(), 2 * grid_.shape_.threads + b,
                       static_cast<detail::Time>(barrier.state.phase() + 1)},
                      "shared");
    grid_.stop_here(me_);
    std::memset(&me_.block->shared[to], 0xff, static_cast<size_t>(bytes));
    barrier.state.begin_copy();
    detail::Block* block_of = me_.block;
    Grid* grid = &grid_;
    me_.block->flights.push_back(
        {b, bytes, [grid, block_of, map, c, to]() -> std::string {
           const int64_t begin = to % 1024;  // the swizzle works on addresses
           SharedMemory box(begin + map.transaction_bytes());
           const auto* range = grid->range_of(reinterpret_cast<const void*>(map.base), 1);
           if (range == nullptr) return "TMA from memory that it was not given";
           const GlobalMemory from{const_cast<std::byte*>(range->begin), range->bytes,
                                   reinterpret_cast<uint64_t>(range->begin), "range"};
           auto done = tma_load(map, from, box, begin, c);
           if (!done) return std::string(done.error().message());
           std::memcpy(&block_of->shared[to], box.at(begin),
                       static_cast<size_t>(map.transaction_bytes()));
           return {};
         }});
  }

  template <int Rank>
  void copy_tile(const tma::EncodedTensorMap& map, const tma::Coordinates<Rank>& c, uint32_t to,
                 uint32_t at) {
    copy_tile<Rank>(map_of(map), c, to, at);
  }
  template <int Rank>
  void prefetch_tile(const tma::EncodedTensorMap&, const tma::Coordinates<Rank>&) {}
  void prefetch_map(const tma::EncodedTensorMap&) {}

  /// Named barriers, of `count` threads.
  void sync_threads(int barrier, int count) {
    auto& named = me_.block->named[static_cast<size_t>(barrier)];
    me_.at = detail::Op::named_sync;
    named.push_back(me_.index);
    if (static_cast<int>(named.size()) < count) return grid_.suspend(me_);
    detail::Ticks joined = me_.seen;
    detail::ForeignPtr foreign = me_.foreign;
    for (int i : named) {
      detail::join_ticks(joined, me_.block->threads[static_cast<size_t>(i)].seen);
      foreign = detail::join_foreign(foreign, me_.block->threads[static_cast<size_t>(i)].foreign);
    }
    for (int i : named) {
      detail::State& s = me_.block->threads[static_cast<size_t>(i)];
      s.seen = joined;
      ++s.seen[static_cast<size_t>(i)];
      s.foreign = foreign;
      s.at = detail::Op::none;
      if (i != me_.index) grid_.ready_.push_back(&s);
    }
    named.clear();
  }
  void sync_warp() { grid_.collective(me_, detail::Op::syncwarp); }
  void sync_block() { grid_.sync_block(me_); }
  uint32_t shuffle(uint32_t value, int from) {
    me_.lane.value = value;
    me_.lane.from = static_cast<uint32_t>(from);
    grid_.collective(me_, detail::Op::shuffle);
    return me_.lane.out[0];
  }
  float shuffle(float value, int from) {
    return __builtin_bit_cast(float, shuffle(__builtin_bit_cast(uint32_t, value), from));
  }
  uint32_t shuffle_xor(uint32_t value, int mask) { return shuffle(value, (me_.index % 32) ^ mask); }
  float shuffle_xor(float value, int mask) {
    return __builtin_bit_cast(
        float, shuffle(__builtin_bit_cast(uint32_t, value), (me_.index % 32) ^ mask));
  }
  uint32_t ballot(bool value) {
    me_.lane.value = value;
    grid_.collective(me_, detail::Op::vote);
    return me_.lane.out[0];
  }
  template <bool Transposed>
  void load_matrices(uint32_t (&out)[4], uint32_t row) {
    me_.lane.address = row;
    grid_.collective(me_, Transposed ? detail::Op::ldmatrix_trans : detail::Op::ldmatrix);
    std::copy(std::begin(me_.lane.out), std::end(me_.lane.out), std::begin(out));
  }
  template <DType Type>
  void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    me_.lane.c = c;
    me_.lane.a = a;
    me_.lane.dtype = Type;
    me_.lane.b[0] = b0;
    me_.lane.b[1] = b1;
    grid_.collective(me_, detail::Op::mma);
  }

  // ---- arithmetic
  float exp2(float x) { return machine_exp2(x); }
  float log2(float x) { return std::log2(x); }
  float tanh(float x) { return std::tanh(x); }
  float fma(float x, float y, float z) { return std::fma(x, y, z); }
  template <DType Type>
  uint32_t pack(float low, float high) {
    return machine_pack<Type>(low, high);
  }
  template <DType Type>
  float unpack(uint32_t pair, int part) {
    return machine_unpack<Type>(pair, part);
  }
  uint32_t half_pair_of_e4m3(uint16_t pair) { return machine_half_pair<f8_e4m3>(pair); }
  uint32_t half_pair_of_e5m2(uint16_t pair) { return machine_half_pair<f8_e5m2>(pair); }
  uint16_t to_e4m3(float low, float high) { return machine_fp8_pair<f8_e4m3>(low, high); }
  uint16_t to_e5m2(float low, float high) { return machine_fp8_pair<f8_e5m2>(low, high); }

 private:
  bool in_shared(uint32_t at, size_t bytes, const char* verb) {
    if (at + bytes <= me_.block->shared.size() &&
        at % (bytes <= 16 && (bytes & (bytes - 1)) == 0 ? bytes : 4) == 0)
      return true;
    grid_.fail(
        me_, std::string(verb) + " shared byte " + std::to_string(at) + ": outside or misaligned");
    grid_.stop_here(me_);
    return false;
  }
  tma::TensorMap map_of(const tma::EncodedTensorMap& encoded) {
    const std::optional<tma::TensorMap> map = decode_tile_map(encoded);
    if (!map) grid_.fail(me_, "copies by a tensor map that the emulator has not encoded");
    grid_.stop_here(me_);
    return *map;
  }
  void tracked(const void* p, size_t bytes, bool writes) {
    auto* range = grid_.range_of(p, static_cast<int64_t>(bytes));
    if (range == nullptr || !range->is_tracked) {
      grid_.fail(me_, writes ? "writes global memory that it was not given"
                             : "reads global memory that it was not given");
      grid_.stop_here(me_);
      return;
    }
    const int64_t at = static_cast<const std::byte*>(p) - range->begin;
    if (writes)
      grid_.check_write(me_, range->order, at, static_cast<int64_t>(bytes), grid_.now(me_),
                        range->label);
    else
      grid_.check_read(me_, range->order, at, static_cast<int64_t>(bytes), range->label);
    grid_.stop_here(me_);
  }
  int barrier_at(uint32_t at) {
    auto& barriers = me_.block->barriers;
    for (size_t i = 0; i < barriers.size(); ++i)
      if (barriers[i].address == at) {
        grid_.check_read(me_, me_.block->order, at, 8, "barrier at shared");
        grid_.stop_here(me_);
        return static_cast<int>(i);
      }
    grid_.fail(me_, "uses a barrier that was not made");
    grid_.stop_here(me_);
    return -1;
  }
  void release_to(int b) {
    detail::join_ticks(me_.block->barriers[static_cast<size_t>(b)].arriving, me_.seen);
    tick();
  }
  void tick() { ++me_.seen[static_cast<size_t>(me_.index)]; }
  void yield() {
    grid_.ready_.push_back(&me_);
    grid_.suspend(me_);
  }

  Grid& grid_;
  detail::State& me_;
};

inline void Grid::start(int index) {
  constexpr size_t stack_bytes = 64 << 10;
  if (blocks_.empty()) blocks_.resize(static_cast<size_t>(shape_.blocks));
  for (Block* old : finished_) blocks_[static_cast<size_t>(old->index)].reset();
  finished_.clear();
  auto block = std::make_unique<Block>();
  block->index = index;
  block->shared.assign(static_cast<size_t>(shape_.shared_bytes), std::byte{0xff});
  block->order.resize(static_cast<size_t>(shape_.shared_bytes / 4));
  block->arrived_warp.assign(static_cast<size_t>(shape_.threads / 32), 0);
  block->warp_op.assign(static_cast<size_t>(shape_.threads / 32), detail::Op::none);
  block->barriers.reserve(detail::max_barriers);
  block->live = shape_.threads;
  block->threads.resize(static_cast<size_t>(shape_.threads));
  for (int t = 0; t < shape_.threads; ++t) {
    State& s = block->threads[static_cast<size_t>(t)];
    s.block = block.get();
    s.index = t;
    s.seen.assign(static_cast<size_t>(2 * shape_.threads + detail::max_barriers), 0);
    s.seen[static_cast<size_t>(t)] = 1;
    s.fiber = boost::context::fiber(std::allocator_arg, detail::StackPool{&stacks_, stack_bytes},
                                    [this, &s](boost::context::fiber&& scheduler) {
                                      s.scheduler = std::move(scheduler);
                                      EmulatedThread thread(*this, s);
                                      body_(thread);
                                      s.is_done = true;
                                      return std::move(s.scheduler);
                                    });
    ready_.push_back(&s);
  }
  ++live_blocks_;
  blocks_[static_cast<size_t>(index)] = std::move(block);
}

inline void Grid::perform(detail::Op op, State* lanes) {
  using detail::Op;
  switch (op) {
    case Op::syncwarp: ++counts_.syncwarps; return join_all(lanes, 32);
    case Op::shuffle:
      ++counts_.shuffles;
      for (int i = 0; i < 32; ++i) lanes[i].lane.out[0] = lanes[lanes[i].lane.from % 32].lane.value;
      return;
    case Op::vote: {
      ++counts_.votes;
      uint32_t bits = 0;
      for (int i = 0; i < 32; ++i) bits |= (lanes[i].lane.value & 1u) << i;
      for (int i = 0; i < 32; ++i) lanes[i].lane.out[0] = bits;
      return;
    }
    case Op::ldmatrix:
    case Op::ldmatrix_trans: {
      ++counts_.ldmatrix;
      Block& block = *lanes[0].block;
      std::array<int64_t, 32> rows;
      for (int i = 0; i < 32; ++i) {
        const uint32_t at = lanes[i].lane.address;
        rows[static_cast<size_t>(i)] = at;
        if (at % 16 != 0 || at + 16 > block.shared.size())
          return fail(lanes[i], "gives ldmatrix an address outside or misaligned");
        check_read(lanes[i], block.order, at, 16, "shared (ldmatrix)");
      }
      for (size_t m = 0; m < 4; ++m)
        counts_.ldmatrix_extra_passes +=
            ldmatrix_passes(std::span<const int64_t, 8>(rows.data() + 8 * m, 8)) - 1;
      for (int lane = 0; lane < 32; ++lane)
        for (int reg = 0; reg < 4; ++reg) {
          uint32_t value = 0;
          for (int part = 0; part < 2; ++part) {
            const MatrixElement unit =
                ldmatrix_element(op == Op::ldmatrix_trans, {lane, reg, part});
            uint16_t half;
            std::memcpy(
                &half,
                &block.shared[static_cast<size_t>(rows[static_cast<size_t>(8 * reg + unit.row)]) +
                              2u * static_cast<unsigned>(unit.column)],
                2);
            value |= uint32_t{half} << (16 * part);
          }
          lanes[lane].lane.out[reg] = value;
        }
      return;
    }
    case Op::mma: {
      ++counts_.mma;
      float a[16][16], b[8][16];
      for (int lane = 0; lane < 32; ++lane) {
        for (int reg = 0; reg < 4; ++reg)
          for (int part = 0; part < 2; ++part) {
            const MatrixElement e = mma_a_element(16, {lane, reg, part});
            a[e.row][e.column] =
                register_part(lanes[lane].lane.dtype, lanes[lane].lane.a[reg], part);
          }
        for (int reg = 0; reg < 2; ++reg)
          for (int part = 0; part < 2; ++part) {
            const MatrixElement e = mma_b_element(16, {lane, reg, part});
            b[e.column][e.row] =
                register_part(lanes[lane].lane.dtype, lanes[lane].lane.b[reg], part);
          }
      }
      for (int lane = 0; lane < 32; ++lane)
        for (int reg = 0; reg < 4; ++reg) {
          const MatrixElement d = mma_c_element(lane, reg);
          double sum = static_cast<double>(lanes[lane].lane.c[reg]);
          for (int k = 0; k < 16; ++k)
            sum += static_cast<double>(a[d.row][k]) * static_cast<double>(b[d.column][k]);
          lanes[lane].lane.c[reg] = static_cast<float>(sum);
        }
      return;
    }
    default: return;
  }
}

}  // namespace folio::inline v1::emulator
