// SPDX-License-Identifier: Apache-2.0
/// folio/testing/cta/fiber_stacks.h: stacks of emulated threads: reused, and guarded by a page that
/// nobody may touch.
///
/// Consecutive stacks begin at different cache sets, since their hot ends would otherwise fall into
/// the same few. Externally synchronised; throws std::bad_alloc.
#pragma once

#include <sys/mman.h>

#include <boost/context/stack_context.hpp>
#include <cstddef>
#include <new>
#include <vector>

namespace folio::inline v1::emulator::cta {

class FiberStacks {
 public:
  static constexpr size_t stack_bytes = size_t{128} << 10;

  FiberStacks() = default;
  FiberStacks(const FiberStacks&) = delete;
  /// Leaves the memory to the next grid of this OS thread: most grids are small and many.
  ~FiberStacks() {
    for (char* slab : slabs_) idle().slabs.push_back(slab);
  }

  [[nodiscard]] char* take() {
    if (free_.empty()) grow();
    char* stack = free_.back();
    free_.pop_back();
    return stack;
  }
  void give_back(char* stack) { free_.push_back(stack); }

  /// What Boost.Context asks for a stack. It keeps a copy on the stack itself.
  struct Allocator {
    FiberStacks* stacks;
    boost::context::stack_context allocate() {
      boost::context::stack_context context;
      context.size = stack_bytes;
      context.sp = stacks->take() + stack_bytes;
      return context;
    }
    void deallocate(boost::context::stack_context& context) noexcept {
      stacks->give_back(static_cast<char*>(context.sp) - context.size);
    }
  };

 private:
  static constexpr size_t page = 4096, per_slab = 32, colour = 1088;
  static constexpr size_t stride = stack_bytes + 2 * page + (per_slab * colour / page + 1) * page;
  static constexpr size_t slab_bytes = per_slab * stride;

  struct Idle {
    std::vector<char*> slabs;
    ~Idle() {
      for (char* slab : slabs) munmap(slab, slab_bytes);
    }
  };
  static Idle& idle() {
    static thread_local Idle slabs;
    return slabs;
  }

  void grow() {
    if (!idle().slabs.empty()) {
      slabs_.push_back(idle().slabs.back());
      idle().slabs.pop_back();
    } else {
      slabs_.push_back(make_slab());
    }
    for (size_t i = 0; i < per_slab; ++i)
      free_.push_back(slabs_.back() + i * stride + page + i * colour);
  }
  static char* make_slab() {
    void* memory = mmap(nullptr, slab_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    auto* slab = static_cast<char*>(memory);
    for (size_t i = 0; i < per_slab; ++i)
      mprotect(slab + i * stride, page, PROT_NONE);  // below the stack
    return slab;
  }

  std::vector<char*> slabs_;
  std::vector<char*> free_;
};

}  // namespace folio::inline v1::emulator::cta
