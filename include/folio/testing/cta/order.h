// SPDX-License-Identifier: Apache-2.0
/// folio/testing/cta/order.h: accesses of emulated threads, checked: that the memory is theirs,
/// that they are aligned, and that they are ordered.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <string>

#include "folio/testing/cta/world.h"

namespace folio::inline v1::emulator::cta {

/// Where shared memory begins for a kernel. Not 0, so that an address without shared_base() is
/// found.
inline constexpr uint32_t shared_begin = 1024;

/// Of one access to a value: as cuda::Thread makes them.
template <class T>
[[nodiscard]] constexpr int64_t access_alignment() noexcept {
  if (sizeof(T) <= 16 && (sizeof(T) & (sizeof(T) - 1)) == 0) return sizeof(T);
  return alignof(T) < 16 ? alignof(T) : 16;
}

class Order {
 public:
  explicit Order(World& world) : world_(world) {}

  /// The offset of a shared address in the block's memory.
  int64_t shared_offset(const ThreadState& s, uint32_t at, int64_t bytes, int64_t alignment,
                        const char* verb) {
    const int64_t offset = int64_t{at} - shared_begin;
    if (offset < 0 || offset + bytes > s.block->shared.size()) [[unlikely]]
      world_.fail(s, text(verb, "shared byte", offset) + ", which is outside of its " +
                         std::to_string(s.block->shared.size()));
    if (at % alignment != 0) [[unlikely]]
      world_.fail(s, text(verb, "shared byte", offset) + ", which is no multiple of " +
                         std::to_string(alignment));
    return offset;
  }
  void shared_read(const ThreadState& s, int64_t at, int64_t bytes, const Epoch& epoch,
                   const char* how) {
    if (!world_.checks()) return;
    if (const AccessFault fault = s.block->order.read(at, bytes, epoch, s.clock);
        fault.disorder != Disorder::none) [[unlikely]]
      report(s, fault, "reads", "shared", how);
  }
  void shared_write(const ThreadState& s, int64_t at, int64_t bytes, const Epoch& epoch,
                    const char* how) {
    if (!world_.checks()) return;
    if (const AccessFault fault = s.block->order.write(at, bytes, epoch, s.clock);
        fault.disorder != Disorder::none) [[unlikely]]
      report(s, fault, "writes", "shared", how);
  }
  /// The async proxy is about to touch bytes: what threads wrote there needs their fence_async.
  void need_fence(const ThreadState& s, int64_t at, int64_t bytes, const char* how) {
    if (!world_.checks()) return;
    Epoch unfenced;
    const bool found = s.block->order.any_write(at, bytes, [&](const Epoch& write) {
      unfenced = write;
      return write.kind == s.clock.kind && is_generic(write) && !is_fenced(s, write);
    });
    if (found)
      world_.fail(s, std::string("lets ") + how + " touch shared byte " + std::to_string(at) +
                         " or one behind it, which " + who(unfenced) +
                         " has written without a fence_async before they met");
  }

  /// Inputs, or tracked memory that this kernel has not written.
  void global_read(const ThreadState& s, const void* p, int64_t bytes, const char* verb) {
    GlobalRange* range = world_.ranges.find(p, bytes);
    if (range == nullptr) {
      if (world_.shape.is_open || world_.ranges.are_inputs(p, bytes)) return;
      no_memory(s, p, bytes, verb);
    }
    if (!range->is_tracked || !world_.checks()) return;
    const int64_t at = offset(*range, p);
    if (range->order.any_write(at, bytes,
                               [](const Epoch& write) { return write.kind >= Epoch::first_block; }))
      world_.fail(s, text(verb, range->label.c_str(), at) +
                         " as an input, though this kernel writes it: load is for that");
    track(s, *range, at, bytes, s.clock.epoch(), false);
  }
  void global_access(const ThreadState& s, const void* p, int64_t bytes, const Epoch& epoch,
                     bool writes, const char* verb) {
    GlobalRange* range = world_.ranges.find(p, bytes);
    if (range == nullptr) {
      if (world_.shape.is_open || (!writes && world_.ranges.are_inputs(p, bytes))) return;
      no_memory(s, p, bytes, verb);
    }
    if (!range->is_tracked) {
      if (writes)
        world_.fail(s, text(verb, range->label.c_str(), offset(*range, p)) + ", an input");
      return;
    }
    if (world_.checks()) track(s, *range, offset(*range, p), bytes, epoch, writes);
  }
  /// An atomic: in order with ordinary accesses, and never in conflict with its like.
  void global_atomic(const ThreadState& s, const void* p, int64_t bytes) {
    GlobalRange* range = world_.ranges.find(p, bytes);
    if (range == nullptr && world_.shape.is_open) return;
    if (range == nullptr || !range->is_tracked) no_memory(s, p, bytes, "counts in");
    if (world_.checks()) track(s, *range, offset(*range, p), bytes, s.clock.epoch(), false);
  }
  void need_alignment(const ThreadState& s, const void* p, int64_t alignment, const char* verb) {
    if (reinterpret_cast<uintptr_t>(p) % static_cast<uintptr_t>(alignment) != 0) [[unlikely]]
      world_.fail(s, std::string(verb) + " global memory " + named(p) +
                         ", which is at no multiple of " + std::to_string(alignment));
  }

  /// A thread or what moves data for it.
  [[nodiscard]] std::string who(const Epoch& e) const {
    const int threads = world_.slots.threads, slot = e.slot;
    if (slot >= world_.slots.multiplies(0))
      return "multiply_group of warpgroup " + std::to_string(slot - world_.slots.multiplies(0));
    if (slot >= world_.slots.barrier(0))
      return "a copy that reports to barrier " + std::to_string(slot - world_.slots.barrier(0));
    constexpr const char* kinds[] = {"", "copy_async of ", "a store of ", "a store of "};
    const int thread = slot % threads;
    return kinds[slot / threads] + ("block " + std::to_string(e.block())) + " warp " +
           std::to_string(thread / 32) + " lane " + std::to_string(thread % 32);
  }

 private:
  [[nodiscard]] static std::string text(const char* verb, const char* what, int64_t at) {
    return std::string(verb) + " " + what + " " + std::to_string(at);
  }
  [[nodiscard]] static int64_t offset(const GlobalRange& range, const void* p) {
    return static_cast<int64_t>(reinterpret_cast<uintptr_t>(p) - range.begin);
  }
  [[nodiscard]] std::string named(const void* p) {
    const GlobalRange* range = world_.ranges.find(p, 1);
    if (range == nullptr) return "of nobody";
    return range->label + " byte " + std::to_string(offset(*range, p));
  }
  [[noreturn]] void no_memory(const ThreadState& s, const void* p, int64_t bytes,
                              const char* verb) {
    world_.fail(s, std::string(verb) + " " + std::to_string(bytes) +
                       " bytes of global memory that it was not given, from " + named(p) + " on");
  }
  void track(const ThreadState& s, GlobalRange& range, int64_t at, int64_t bytes,
             const Epoch& epoch, bool writes) {
    const AccessFault fault = writes ? range.order.write(at, bytes, epoch, s.clock)
                                     : range.order.read(at, bytes, epoch, s.clock);
    if (fault.disorder != Disorder::none) [[unlikely]]
      report(s, fault, writes ? "writes" : "reads", range.label, "");
  }
  [[noreturn]] void report(const ThreadState& s, const AccessFault& fault, const char* verb,
                           const std::string& memory, const char* how) {
    const std::string place = memory + " byte " + std::to_string(fault.at) + how;
    if (fault.disorder == Disorder::unwritten)
      world_.fail(s, "reads " + place + ", which nothing has written");
    if (fault.disorder == Disorder::after_read)
      world_.fail(s, "overwrites " + place + ", which " + who(fault.other) + " reads unordered");
    world_.fail(s, std::string(verb) + " " + place + " before the write of " + who(fault.other) +
                       " is ordered");
  }

  /// Written by threads or their cp.async, not by TMA.
  [[nodiscard]] bool is_generic(const Epoch& e) const { return e.slot < world_.slots.stores(0); }
  /// Whether the writer has fenced since, and `s` has seen that.
  [[nodiscard]] bool is_fenced(const ThreadState& s, const Epoch& write) const {
    const int threads = world_.slots.threads, writer = write.slot % threads;
    const bool is_copy = write.slot >= threads;
    const Time seen = s.clock.seen(writer);
    const std::vector<Fence>& fences = s.block->threads[static_cast<size_t>(writer)].fences;
    const auto first = std::partition_point(fences.begin(), fences.end(), [&](const Fence& fence) {
      return (is_copy ? fence.copies : fence.now) < write.time;
    });
    return first != fences.end() && first->now <= seen;
  }

  World& world_;
};

}  // namespace folio::inline v1::emulator::cta
