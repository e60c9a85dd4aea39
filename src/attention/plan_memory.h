// SPDX-License-Identifier: Apache-2.0
/// src/attention/plan_memory.h: how plan memory and workspace are laid out.
///
///     plan       PlanHeader | offsets, lengths, positions (copies) | tasks | cuts
///     workspace  WorkspaceHeader | places [parallelism] | finished [cuts] | scratch [parallelism]
///                | partials
///
/// Every part begins at a multiple of 64 bytes. A place is one task's scratch memory; `finished`
/// counts the tasks of a cut.
#pragma once

#include <cstddef>
#include <cstdint>

#include "attention/schedule.h"
#include "core/checked.h"
#include "folio/attention/plan.h"

namespace folio::inline v1 {

struct PlanHeader {
  Batch batch = {};  // its offsets, lengths and positions point into the plan memory
  const Task* tasks = nullptr;
  const Cut* cuts = nullptr;
  int64_t num_tasks = 0;
  int64_t num_cuts = 0;
  int64_t longest_context = 0;
};

struct WorkspaceHeader {
  int64_t next_task = 0;
};

/// Hands out consecutive 64-byte aligned parts; with a null base it only adds up sizes. A sum that
/// an int64_t cannot hold is the largest int64_t, which Attention::create refuses: where there is
/// memory, nothing overflows.
class Carver {
 public:
  explicit Carver(void* base) noexcept : base_(static_cast<std::byte*>(base)) {}
  template <class T>
  T* take(CheckedSize count) noexcept {
    constexpr int64_t element = sizeof(T);
    if (base_ == nullptr) {
      bytes_ = (round_up(count * element, 64) + bytes_).value();
      return nullptr;
    }
    T* const part = reinterpret_cast<T*>(base_ + bytes_);
    bytes_ += (count.value() * element + 63) / 64 * 64;
    return part;
  }
  [[nodiscard]] int64_t bytes() const noexcept { return bytes_; }

 private:
  std::byte* base_;
  int64_t bytes_ = 0;
};

struct PlanParts {
  PlanHeader* header = nullptr;
  int32_t* query_offsets = nullptr;
  int32_t* context_lengths = nullptr;
  int32_t* query_positions = nullptr;
  int32_t* key_positions = nullptr;
  Task* tasks = nullptr;
  Cut* cuts = nullptr;
  int64_t bytes = 0;
};

inline PlanParts plan_parts(void* memory, int64_t batch, const ScheduleSize& size) noexcept {
  Carver carver(memory);
  PlanParts parts;
  parts.header = carver.take<PlanHeader>(1);
  parts.query_offsets = carver.take<int32_t>(CheckedSize(batch) + 1);
  parts.context_lengths = carver.take<int32_t>(batch);
  parts.query_positions = carver.take<int32_t>(batch);
  parts.key_positions = carver.take<int32_t>(batch);
  parts.tasks = carver.take<Task>(size.tasks);
  parts.cuts = carver.take<Cut>(size.cuts);
  parts.bytes = carver.bytes();
  return parts;
}

struct WorkspaceParts {
  WorkspaceHeader* header = nullptr;
  uint32_t* places = nullptr;
  int32_t* finished = nullptr;
  std::byte* scratch = nullptr;
  std::byte* partials = nullptr;
  int64_t bytes = 0;
};

inline WorkspaceParts workspace_parts(void* memory, int32_t parallelism, const ScheduleSize& bounds,
                                      const KernelGeometry& geometry) noexcept {
  Carver carver(memory);
  WorkspaceParts parts;
  parts.header = carver.take<WorkspaceHeader>(1);
  parts.places = carver.take<uint32_t>(parallelism);
  parts.finished = carver.take<int32_t>(bounds.cuts);
  parts.scratch = carver.take<std::byte>(CheckedSize(parallelism) * geometry.scratch_bytes);
  parts.partials = carver.take<std::byte>(bounds.partial_bytes);
  parts.bytes = carver.bytes();
  return parts;
}

}  // namespace folio::inline v1
