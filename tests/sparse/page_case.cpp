// SPDX-License-Identifier: Apache-2.0
/// tests/sparse/page_case.cpp: problems of select_pages.
#include "sparse/page_case.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "folio/core/execution.h"
#include "reference/attention.h"
#include "reference/elements.h"
#include "reference/index.h"
#include "reference/visibility.h"

namespace folio::test {

PlaneSpec PageCase::key_spec(Rng& rng) {
  constexpr int32_t head_sizes[] = {1, 7, 8, 16, 20, 33, 64, 128};
  constexpr int32_t page_sizes[] = {1, 3, 8, 16};
  PlaneSpec spec;
  spec.num_heads = rng.int_between(1, 3);
  spec.head_size = rng.pick(head_sizes);
  spec.page_size = rng.pick(page_sizes);
  spec.num_pages = rng.between(1, 60);
  return spec;
}

PlaneSpec PageCase::summary_spec(const PlaneSpec& key, Rng& rng, SummaryKind kind) {
  constexpr DType dtypes[] = {DType::f32, DType::bf16, DType::f16};
  PlaneSpec spec = key;
  spec.dtype = rng.pick(dtypes);
  spec.page_size = summary_rows(kind);
  spec.order = rng.chance(0.5) ? StorageOrder::head_major : StorageOrder::token_major;
  spec.gap = rng.between(0, 2);
  return spec;
}

PageCase::PageCase(Rng& rng, const PageOptions& options)
    : PageCase(rng, options, key_spec(rng),
               rng.chance(0.8) ? SummaryKind::bounds : SummaryKind::mean) {}

PageCase::PageCase(Rng& rng, const PageOptions& options, const PlaneSpec& spec, SummaryKind kind)
    : key(spec), rows(summary_spec(spec, rng, kind)) {
  constexpr DType dtypes[] = {DType::f32, DType::bf16, DType::f16};
  args.summaries = {kind, rows.view};
  args.page_size = spec.page_size;
  args.lists = rng.chance(0.5) ? PageLists::per_query : PageLists::per_kv_head;
  args.score = rng.chance(0.5) ? PageScore::greatest : PageScore::sum;
  args.scale = options.is_exact ? 1.0f : rng.chance(0.3) ? 0.0f : rng.uniform(-0.5f, 0.5f);
  args.first_pages = rng.int_between(0, 2);
  args.last_pages = rng.int_between(0, 2);
  const int32_t kept = args.first_pages + args.last_pages;
  args.k_pages = rng.int_between(std::max(kept, 1), kept + (rng.chance(0.2) ? 60 : 8));
  make_batch(rng, options);
  const int64_t heads = int64_t{spec.num_heads} * rng.between(1, 7);
  const DType q_dtype = rng.pick(dtypes);
  q_ = std::make_unique<GuardedMemory>(tokens() * heads * spec.head_size * bit_width(q_dtype) / 8,
                                       4);
  args.q = dense_tensor<3>(static_cast<const void*>(q_->data()), q_dtype,
                           {tokens(), heads, spec.head_size});
  args.stride = count() + rng.between(0, 3);
  fill(rng, options);
}

void PageCase::make_batch(Rng& rng, const PageOptions& options) {
  const int64_t num_pages = key.view.num_pages;
  const bool has_positions = options.windows && rng.chance(0.3);
  batch.size = rng.int_between(1, 4);
  for (int32_t b = 0; b < batch.size; ++b) {
    lengths_.push_back(rng.chance(0.1) ? 0 : rng.int_between(1, 40 * args.page_size));
    offsets_.push_back(offsets_.back() + std::min(rng.int_between(0, 4), lengths_.back()));
    key_positions_.push_back(rng.int_between(0, 50));
    positions_.push_back(key_positions_.back() + rng.int_between(-3, lengths_.back()));
    starts_.push_back(std::ssize(entries_));
    for (int64_t p = 0; p < lengths_.back(); p += args.page_size)
      entries_.push_back(rng.chance(options.unassigned)
                             ? 0xffffffffu
                             : static_cast<uint32_t>(rng.between(0, num_pages - 1)));
  }
  if (options.windows && rng.chance(0.6)) {
    args.mask.left = rng.chance(0.5) ? -1 : rng.int_between(0, 100);
    args.mask.right = rng.chance(0.5) ? -1 : rng.int_between(0, 20);
    args.mask.sink_tokens = rng.chance(0.5) ? 0 : rng.int_between(0, 20);
    args.mask.chunk = rng.chance(0.7) ? 0 : rng.int_between(1, 64);
  }
  args.intervals = options.windows && rng.chance(0.2);
  for (int64_t t = 0; t < tokens() && args.intervals; ++t) {
    begins_.push_back(rng.int_between(0, 150));
    ends_.push_back(rng.int_between(-10, 300));
  }
  // what lies behind the entries faults
  table_ = std::make_unique<GuardedMemory>(std::ssize(entries_) * 4, 4);
  if (!entries_.empty()) std::memcpy(table_->data(), entries_.data(), entries_.size() * 4);
  batch.query_offsets = offsets_.data();
  batch.context_lengths = lengths_.data();
  batch.table = {table_->as<uint32_t>(), 0, starts_.data()};
  if (has_positions) {
    batch.query_positions = positions_.data();
    batch.key_positions = key_positions_.data();
  }
  if (args.intervals && tokens() > 0) {
    batch.visible_begin = begins_.data();
    batch.visible_end = ends_.data();
  }
}

/// Whole numbers, or rows of K and summaries that are made of them.
void PageCase::fill(Rng& rng, const PageOptions& options) {
  const auto number = [&] {
    return options.is_exact ? static_cast<float>(rng.int_between(-4, 4)) : rng.uniform(-2.0f, 2.0f);
  };
  for (int64_t t = 0; t < tokens(); ++t)
    for (int32_t h = 0; h < q_heads(); ++h)
      for (int32_t d = 0; d < key.view.head_size; ++d)
        reference::store(q_->data() + ((t * q_heads() + h) * key.view.head_size + d) *
                                          bit_width(args.q.dtype) / 8,
                         args.q.dtype, number());
  std::vector<FilledPage> pages;
  for (int64_t p = 0; p < key.view.num_pages; ++p) {
    pages.push_back({static_cast<uint32_t>(p), key.view.page_size});
    for (int32_t slot = 0; slot < key.view.page_size; ++slot)
      for (int32_t h = 0; h < key.view.num_heads; ++h)
        for (int32_t d = 0; d < key.view.head_size; ++d)
          reference::store(key.element(p, slot, h, d), DType::f32, number());
  }
  summarise(key.view, args.summaries, pages, serial_executor()).or_throw();
  if (!options.is_exact || args.summaries.kind == SummaryKind::bounds) return;
  for (int64_t p = 0; p < key.view.num_pages; ++p)  // means are no whole numbers
    for (int32_t h = 0; h < key.view.num_heads; ++h)
      for (int32_t d = 0; d < key.view.head_size; ++d)
        reference::store(rows.element(p, 0, h, d), rows.view.dtype, number());
}

void PageCase::select(const Executor& executor, int32_t parallelism) {
  selected.assign(static_cast<size_t>(tokens() * lists() * args.stride), -7);
  missed.assign(static_cast<size_t>(tokens() * q_heads()), -7.0f);
  args.selected = selected.data();
  args.missed = args.summaries.kind == SummaryKind::bounds ? missed.data() : nullptr;
  int32_t longest = 0;
  for (const int32_t length : lengths_) longest = std::max(longest, length);
  const GuardedMemory memory(select_pages_bytes(args, longest, parallelism), 64);
  const Status status = select_pages(batch, args, memory.span(), executor);
  ASSERT_TRUE(status.is_ok()) << status.message();
  ASSERT_TRUE(memory.slack_untouched());
}

int32_t PageCase::sequence_of(int64_t token) const {
  int32_t b = 0;
  while (offsets_[static_cast<size_t>(b) + 1] <= token) ++b;
  return b;
}

bool PageCase::sees(int32_t sequence, int64_t token, int64_t key_index) const {
  AttentionProblem problem;
  problem.mask = args.mask;
  problem.intervals = args.intervals;
  return reference::is_visible(problem, batch, sequence, token, key_index);
}

std::vector<PageCase::Seen> PageCase::seen_by(int64_t token) const {
  const int32_t b = sequence_of(token);
  std::vector<Seen> all;
  const int32_t length = lengths_[static_cast<size_t>(b)];
  for (int64_t first = 0; first < length; first += args.page_size) {
    const uint32_t page =
        entries_[static_cast<size_t>(starts_[static_cast<size_t>(b)] + first / args.page_size)];
    Seen seen{page, {}};
    for (int64_t k = first; k < std::min<int64_t>(first + args.page_size, length); ++k)
      if (sees(b, token, k)) seen.keys.push_back(k);
    if (page < key.view.num_pages && !seen.keys.empty()) all.push_back(seen);
  }
  return all;
}

double PageCase::q_at(int64_t token, int32_t q_head, int32_t d) const {
  return reference::load(q_->data() + ((token * q_heads() + q_head) * key.view.head_size + d) *
                                          bit_width(args.q.dtype) / 8,
                         args.q.dtype);
}

double PageCase::scale() const {
  return args.scale != 0.0f ? static_cast<double>(args.scale)
                            : 1.0 / std::sqrt(static_cast<double>(key.view.head_size));
}

double PageCase::score(int64_t token, int32_t q_head, int64_t page) const {
  const int64_t head = q_head / (q_heads() / rows.view.num_heads);
  const bool is_mean = args.summaries.kind == SummaryKind::mean;
  const std::vector<double> lows = reference::row_of(rows.view, {page, 0}, head),
                            highs = reference::row_of(rows.view, {page, is_mean ? 0 : 1}, head);
  double sum = 0.0;
  for (int32_t d = 0; d < rows.view.head_size; ++d) {
    const double q = scale() * q_at(token, q_head, d);
    sum += std::max(q * lows[static_cast<size_t>(d)], q * highs[static_cast<size_t>(d)]);
  }
  return sum;
}

std::vector<size_t> PageCase::chosen(int64_t token, int32_t list,
                                     const std::vector<Seen>& seen) const {
  const int32_t heads = q_heads() / lists();
  std::vector<double> scores;
  for (const Seen& page : seen) {
    double joined = args.score == PageScore::sum ? 0.0 : -INFINITY;
    for (int32_t h = list * heads; h < (list + 1) * heads; ++h) {
      const double s = score(token, h, page.page);
      joined = args.score == PageScore::sum ? joined + s : std::max(joined, s);
    }
    scores.push_back(joined);
  }
  std::vector<size_t> order(seen.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto is_kept = [&](size_t i) {
    return i < static_cast<size_t>(args.first_pages) ||
           i + static_cast<size_t>(args.last_pages) >= seen.size();
  };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (is_kept(a) != is_kept(b)) return is_kept(a);
    return !is_kept(a) && scores[a] > scores[b];
  });
  order.resize(std::min(order.size(), static_cast<size_t>(args.k_pages)));
  std::sort(order.begin(), order.end());
  return order;
}

std::vector<int32_t> PageCase::expected(int64_t token, int32_t list) const {
  const std::vector<Seen> seen = seen_by(token);
  std::vector<int32_t> slots;
  for (const size_t i : chosen(token, list, seen))
    for (const int64_t k : seen[i].keys)
      slots.push_back(static_cast<int32_t>(reference::slot_number(
          batch, sequence_of(token), k, args.page_size, key.view.num_pages)));
  slots.resize(static_cast<size_t>(count()), -1);
  return slots;
}

}  // namespace folio::test
