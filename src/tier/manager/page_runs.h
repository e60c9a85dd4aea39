// SPDX-License-Identifier: Apache-2.0
/// tier/manager/page_runs.h: the byte runs of any page of a pool, layer after layer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "folio/cache/page_extents.h"
#include "folio/tier/cache_manager.h"

namespace folio::inline v1::tier {

/// In this order tiers keep the bytes of pages, so it never changes. What `page_extents` says of
/// each layer for itself, K before V before scales where they lie apart, without asking it for each
/// page: a run lies in page p at its place in page 0 and p strides.
class PageRuns {
 public:
  /// Errors, of `call`: invalid_argument where a plane has fewer than `num_pages` pages, or pages
  /// that differ in their runs, and where two layers or two pages of one share bytes; throws
  /// std::bad_alloc
  [[nodiscard]] static Result<PageRuns> create(const char* call, std::span<const KVPlanes> planes,
                                               uint32_t num_pages);

  /// Of states, in the order of their layers.
  [[nodiscard]] static Result<PageRuns> create(const char* call, std::span<const StatePages> states,
                                               uint32_t num_pages);

  [[nodiscard]] int64_t page_bytes() const { return bytes_; }
  [[nodiscard]] int32_t num_layers() const { return static_cast<int32_t>(ends_.size()); }
  [[nodiscard]] std::vector<Extent> of(uint32_t page) const;
  /// In the host's memory.
  void copy(uint32_t from, uint32_t to) const noexcept;
  /// Layers that so many leading extents have in full.
  [[nodiscard]] int32_t layers_of(uint32_t extents) const;

 private:
  struct Run {
    Extent first;  ///< of page 0
    int64_t stride = 0;
  };
  [[nodiscard]] Status add_layer(const char* call, const KVPlanes& layer, uint32_t num_pages);
  [[nodiscard]] size_t layer_of(size_t run) const;
  // runs_apart.cpp
  struct Reach;
  [[nodiscard]] Status check_apart(const char* call, uint32_t num_pages) const;
  [[nodiscard]] Status check_each_page(const char* call, std::span<const Reach> together,
                                       uint32_t num_pages) const;

  std::vector<Run> runs_;
  std::vector<uint32_t> ends_;  ///< of each layer in `runs_`
  int64_t bytes_ = 0;
};

}  // namespace folio::inline v1::tier
