// SPDX-License-Identifier: Apache-2.0
/// src/sparse/page_lists.cpp: scores of heads joined, the best pages chosen, their slots listed.
#include "sparse/page_lists.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/index/top.h"
#include "sparse/check_pages.h"

namespace folio::inline v1 {
namespace {

constexpr float none = -std::numeric_limits<float>::infinity();

class PageList {
 public:
  PageList(const pages::Kernel& kernel, const PageArgs& args, const ScoredQuery& query,
           int32_t list, const PageScratch& scratch)
      : kernel_(kernel),
        args_(args),
        query_(query),
        scratch_(scratch),
        size_(query.seen.size()),
        heads_(static_cast<int32_t>(args.q.extent[1]) / lists_of(args)),
        first_head_(list * heads_),
        to_(args.selected + (query.token * lists_of(args) + list) * args.stride) {}

  void write() {
    join_heads();
    const int64_t assigned = count_assigned();
    const int64_t first = std::min<int64_t>(args_.first_pages, assigned);
    const int64_t last = std::min<int64_t>(args_.last_pages, assigned - first);
    for (int64_t i = 0, n = 0; n < first; ++i)
      if (is_assigned(i)) take(i), ++n;
    int64_t last_begin = size_;
    for (int64_t n = 0; n < last; ++n) {
      do --last_begin;
      while (!is_assigned(last_begin));
      scratch_.joined[last_begin] = none;
    }
    choose(args_.k_pages - first - last);
    for (int64_t i = last_begin; i < size_; ++i)
      if (is_assigned(i)) take(i);
    put_slots();
    if (args_.missed != nullptr) put_missed();
  }

 private:
  [[nodiscard]] uint32_t page_id(int64_t i) const { return query_.entries[query_.seen.page(i)]; }
  [[nodiscard]] bool is_assigned(int64_t i) const {
    return page_id(i) < args_.summaries.rows.num_pages;
  }
  /// Chosen: no candidate any more.
  void take(int64_t i) {
    scratch_.best[count_++] = static_cast<int32_t>(i);
    scratch_.joined[i] = none;
  }

  /// No score is NaN: -inf is that of unassigned pages alone.
  void join_heads() {
    const float* head = query_.scores + first_head_ * query_.stride;
    float* const joined = scratch_.joined;
    std::copy_n(head, size_, joined);
    for (int32_t h = 1; h < heads_; ++h) {
      head += query_.stride;
      if (args_.score == PageScore::sum) {
        for (int64_t i = 0; i < size_; ++i) joined[i] += head[i];
      } else {
        for (int64_t i = 0; i < size_; ++i) joined[i] = joined[i] > head[i] ? joined[i] : head[i];
      }
    }
  }

  /// Sums that overflowed stay candidates.
  int64_t count_assigned() {
    constexpr float lowest = std::numeric_limits<float>::lowest();
    int64_t count = 0;
    for (int64_t i = 0; i < size_; ++i) {
      if (!is_assigned(i)) {
        scratch_.joined[i] = none;
        continue;
      }
      scratch_.joined[i] = std::max(scratch_.joined[i], lowest);
      ++count;
    }
    return count;
  }

  void choose(int64_t count) {
    if (count <= 0) return;
    indexer::Top top = indexer::Top::empty(scratch_.kept, static_cast<int32_t>(count));
    kernel_.collect(scratch_.joined, 0, size_, top, scratch_.spare);
    int32_t* const at = scratch_.best + count_;
    indexer::write_list(top, scratch_.spare, at);
    count_ += std::find(at, at + count, -1) - at;
  }

  void put_slots() const {
    int32_t* to = to_;
    for (int64_t n = 0; n < count_; ++n) {
      const int32_t i = scratch_.best[n];
      const int64_t page = query_.seen.page(i);
      const int64_t shift = (int64_t{page_id(i)} - page) * args_.page_size;
      query_.seen.for_each_part(i, [&](const mask::Interval& keys) {
        for (int64_t key = keys.begin; key < keys.end; ++key)
          *to++ = static_cast<int32_t>(key + shift);
      });
    }
    std::fill(to, to_ + int64_t{args_.k_pages} * args_.page_size, -1);
  }

  void put_missed() const {
    for (int64_t i = 0; i < size_; ++i)
      scratch_.left_out[i] = is_assigned(i) ? static_cast<float>(query_.seen.keys(i)) : 0.0f;
    for (int64_t n = 0; n < count_; ++n) scratch_.left_out[scratch_.best[n]] = 0.0f;
    for (int32_t h = first_head_; h < first_head_ + heads_; ++h) {
      const pages::LogSum terms =
          kernel_.sum_of_exps(query_.scores + h * query_.stride, scratch_.left_out, size_);
      float& missed = args_.missed[query_.token * args_.q.extent[1] + h];
      missed = terms.greatest;
      if (std::isfinite(terms.greatest))
        missed = static_cast<float>(double{terms.greatest} + std::log(double{terms.sum}));
    }
  }

  const pages::Kernel& kernel_;
  const PageArgs& args_;
  const ScoredQuery& query_;
  const PageScratch& scratch_;
  int64_t size_;
  int32_t heads_;
  int32_t first_head_;
  int32_t* to_;
  int64_t count_ = 0;  // of pages chosen
};

}  // namespace

void write_page_list(const pages::Kernel& kernel, const PageArgs& args, const ScoredQuery& query,
                     int32_t list, const PageScratch& scratch) noexcept {
  PageList(kernel, args, query, list, scratch).write();
}

}  // namespace folio::inline v1
