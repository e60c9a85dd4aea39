// SPDX-License-Identifier: Apache-2.0
/// examples/cold_pages.cpp: a cache four times the pool's memory. Pages that leave the pool lie in
/// a host tier, and are attended where they lie: those alone that matter to a query.
///
/// A sequence of 16,384 tokens goes through a pool of 4,096. Of every page its bounds stay at hand.
/// A step chooses 24 of 512 pages by them, holds those that are cold, attends to the hot ones in
/// the pool and to the cold ones in the tier's slab, and merges. All keys in double check it.
#include <folio/attention/append.h>
#include <folio/attention/attend.h>
#include <folio/attention/merge.h>
#include <folio/cache/planes.h>
#include <folio/core/buffer.h>
#include <folio/core/convert.h>
#include <folio/sparse/pages.h>
#include <folio/sparse/select.h>
#include <folio/tier/host_pages.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <thread>
#include <utility>
#include <vector>

using namespace folio;

namespace {

constexpr int32_t q_heads = 8, kv_heads = 2, head_size = 64, page_size = 32;
constexpr int32_t prompt_tokens = 16384, steps = 8, max_tokens = prompt_tokens + page_size;
constexpr int32_t max_pages = max_tokens / page_size, pool_pages = 128, k_pages = 24;
constexpr int32_t list_size = k_pages * page_size, topics = 64;
constexpr uint32_t unassigned = 0xffffffffU;
constexpr size_t row_elements = size_t{kv_heads} * head_size;

constexpr KVShape shape_of(int32_t slots) {
  return {.num_layers = 1,
          .num_heads = kv_heads,
          .head_size = head_size,
          .page_size = slots,
          .dtype = DType::bf16};
}

/// Planes and the memory they lie in.
struct Planes {
  Planes(const KVShape& shape, int64_t pages)
      : memory(Buffer::allocate(pages * page_bytes(shape).value()).value()),
        layers(make_planes(shape, pages, memory.span()).value()) {}
  Buffer memory;
  std::vector<KVPlanes> layers;
};

/// What a model computes. Each page has a topic, and a query asks for one.
class Model {
 public:
  Model() : topics_(size_t{topics} * head_size), random_(7) {
    for (float& x : topics_) x = normal_(random_);
  }
  std::vector<float> key(int32_t token) { return row(token / page_size % topics, kv_heads, 1.0f); }
  std::vector<float> value() { return row(0, kv_heads, 0.0f); }
  std::vector<float> query(int32_t topic) { return row(topic, q_heads, 3.0f); }

 private:
  std::vector<float> row(int32_t topic, int32_t heads, float share) {
    std::vector<float> row(static_cast<size_t>(heads) * head_size);
    for (size_t i = 0; i < row.size(); ++i)
      row[i] = share * topics_[static_cast<size_t>(topic) * head_size + i % head_size] +
               0.25f * normal_(random_);
    return row;
  }
  std::vector<float> topics_;
  std::mt19937 random_;
  std::normal_distribution<float> normal_;
};

PageName name_of(int32_t page) {
  PageName name;  // an engine has the names of its pool (docs/names.md)
  std::memcpy(name.bytes.data(), &page, sizeof page);
  return name;
}

/// Outputs and lse of a call.
struct Outcome {
  std::vector<float> out = std::vector<float>(size_t{q_heads} * head_size);
  std::vector<float> lse = std::vector<float>(q_heads);
  AnyTensor<3> tensor() { return dense_tensor(out.data(), DType::f32, {1, q_heads, head_size}); }
};

class Cache {
 public:
  Cache()
      : pool_(shape_of(page_size), pool_pages),
        bounds_of_pool_(shape_of(summary_rows(SummaryKind::bounds)), pool_pages),
        bounds_(shape_of(summary_rows(SummaryKind::bounds)), max_pages),
        executor_(default_executor(2)) {
    const int64_t bytes = page_bytes(shape_of(page_size)).value();
    tier_ = tier::make_host_tier({.max_bytes = max_pages * (bytes + 128)}, bytes).value();
    cold_planes_ = tier::planes_in(tier_->slab(), pool_.layers).value();
    for (uint32_t page = 0; page < static_cast<uint32_t>(max_pages); ++page) pages_[page] = page;
    std::fill_n(hot_, max_pages, unassigned);
    attention_ = Attention::create({.key = pool_.layers[0].key,
                                    .value = pool_.layers[0].value,
                                    .q_heads = q_heads,
                                    .q_dtype = DType::f32,
                                    .out_dtype = DType::f32,
                                    .selection = true},
                                   {.context = max_tokens})
                     .value();
    plan_memory_ = Buffer::allocate(attention_.plan_bytes()).value();
    workspace_ = Buffer::allocate(attention_.workspace_bytes()).value();
  }

  /// The next token, in the pool. Where that has no page left its oldest goes to the tier.
  void append(const std::vector<float>& k, const std::vector<float>& v) {
    const int32_t page = length_ / page_size;
    if (hot_[page] == unassigned) hot_[page] = free_page(page);
    ++length_;
    const PageSummaries summaries{.rows = bounds_of_pool_.layers[0].key};
    const AppendArgs args{.k = row_of(k),
                          .v = row_of(v),
                          .key = pool_.layers[0].key,
                          .value = pool_.layers[0].value,
                          .summaries = &summaries};
    folio::append(batch(hot_), args, serial_executor()).or_throw();
    const PagedKVView& kept = bounds_.layers[0].key;
    std::memcpy(static_cast<std::byte*>(kept.data) + page * kept.page_stride_bytes,
                static_cast<std::byte*>(summaries.rows.data) +
                    hot_[page] * summaries.rows.page_stride_bytes,
                static_cast<size_t>(kept.page_stride_bytes));
  }

  /// Attention over the best pages, wherever they are.
  Outcome attend(const std::vector<float>& q) {
    choose(q);
    const std::vector<uint32_t> cold = held_row();
    Outcome hot_part = part(q, pool_.layers[0], hot_, pool_pages);
    Outcome cold_part = part(q, cold_planes_[0], cold.data(), tier_->slab().pages);
    tier_->give_back(held_);
    const Partial parts[] = {{cold_part.tensor(), cold_part.lse.data()},
                             {hot_part.tensor(), hot_part.lse.data()}};
    Outcome joined;
    merge(parts, joined.tensor(), joined.lse.data(), serial_executor()).or_throw();
    return joined;
  }

  [[nodiscard]] size_t cold_pages_read() const { return held_.size(); }
  [[nodiscard]] const std::vector<float>& missed() const { return missed_; }
  [[nodiscard]] int64_t pages_in_tier() const { return tier_->figures().pages; }

 private:
  static ConstTensor<3> row_of(const std::vector<float>& row) {
    return dense_tensor<3>(static_cast<const void*>(row.data()), DType::f32,
                           {1, std::ssize(row) / head_size, head_size});
  }
  /// The sequence, whose pages are the entries of `row`.
  [[nodiscard]] Batch batch(const uint32_t* row) const {
    return {1, offsets_, &length_, {row, max_pages}};
  }
  uint32_t free_page(int32_t page) {
    if (page < pool_pages) return static_cast<uint32_t>(page);
    const int32_t oldest = page - pool_pages;
    const uint32_t freed = std::exchange(hot_[oldest], unassigned);
    const std::vector<Extent> extents = tier::payload_extents(pool_.layers, freed).value();
    const tier::TierPage leaving[] = {{name_of(oldest), extents}};
    static_cast<void>(tier_->store(leaving).value());
    tier::TierCompletion stored;  // an engine goes on, and asks once a step
    while (tier_->poll({&stored, 1}) == 0) std::this_thread::yield();
    if (stored.outcome != tier::TierOutcome::done) std::terminate();
    return freed;
  }
  /// Lists keys by their pages in the sequence: the bounds' table says that page i is page i.
  void choose(const std::vector<float>& q) {
    const PageArgs args{.q = row_of(q),
                        .summaries = {.rows = bounds_.layers[0].key},
                        .page_size = page_size,
                        .k_pages = k_pages,
                        .selected = keys_.data(),
                        .stride = list_size,
                        .missed = missed_.data()};
    const Buffer memory = Buffer::allocate(select_pages_bytes(args, max_tokens, 2)).value();
    select_pages(batch(pages_), args, memory.span(), executor_).or_throw();
  }
  /// Holds the chosen pages that the pool has not: a row of the table with their places.
  std::vector<uint32_t> held_row() {
    std::set<int32_t> chosen;
    for (const int32_t key : keys_)
      if (key >= 0 && hot_[key / page_size] == unassigned) chosen.insert(key / page_size);
    std::vector<PageName> names;
    for (const int32_t page : chosen) names.push_back(name_of(page));
    held_.assign(names.size(), -1);
    tier_->hold(names, held_).or_throw();
    std::vector<uint32_t> row(max_pages, unassigned);
    for (auto place = held_.begin(); const int32_t page : chosen) {
      if (*place < 0) std::terminate();  // an engine would compute it again
      row[static_cast<size_t>(page)] = static_cast<uint32_t>(*place++);
    }
    return row;
  }
  /// Over the chosen keys whose pages `row` has.
  Outcome part(const std::vector<float>& q, const KVPlanes& layer, const uint32_t* row,
               int64_t num_pages) {
    std::vector<int32_t> slots(list_size);
    remap(batch(row),
          {.indices = keys_.data(),
           .stride = list_size,
           .count = list_size,
           .page_size = page_size,
           .num_pages = num_pages,
           .slots = slots.data(),
           .slots_stride = list_size},
          serial_executor())
        .or_throw();
    Batch chosen = batch(row);
    chosen.selected = slots.data();
    chosen.selected_stride = list_size;
    const AttentionPlan planned = plan(attention_, chosen, plan_memory_.span()).value();
    Outcome outcome;
    const AttentionArgs args{.q = row_of(q),
                             .out = outcome.tensor(),
                             .key = layer.key,
                             .value = layer.value,
                             .lse = outcome.lse.data()};
    folio::attend(attention_, planned, args, workspace_.span(), executor_).or_throw();
    return outcome;
  }

  Planes pool_, bounds_of_pool_, bounds_;
  std::unique_ptr<tier::HostTier> tier_;
  std::vector<KVPlanes> cold_planes_;
  uint32_t hot_[max_pages], pages_[max_pages];
  int32_t offsets_[2] = {0, 1}, length_ = 0;
  std::vector<int32_t> keys_ = std::vector<int32_t>(list_size);
  std::vector<int32_t> held_;
  std::vector<float> missed_ = std::vector<float>(q_heads);
  Attention attention_;
  Buffer plan_memory_, workspace_;
  Executor executor_;
};

/// All that the model has computed, and attention over all of it in double.
struct Everything {
  std::vector<float> keys, values;

  static void add(std::vector<float>& all, const std::vector<float>& row) {
    for (const float x : row) all.push_back(to_float(from_float<bf16>(x)));
  }
  [[nodiscard]] std::vector<double> attend(const std::vector<float>& q, int32_t head) const {
    const float* const row = q.data() + static_cast<ptrdiff_t>(head) * head_size;
    const size_t of_head = static_cast<size_t>(head / (q_heads / kv_heads)) * head_size;
    std::vector<double> out(head_size);
    double sum = 0.0;
    for (size_t at = of_head; at < keys.size(); at += row_elements) {
      double score = 0.0;
      for (size_t d = 0; d < head_size; ++d) score += double{row[d]} * double{keys[at + d]};
      const double weight = std::exp(score / std::sqrt(double{head_size}) - 40.0);
      sum += weight;
      for (size_t d = 0; d < head_size; ++d) out[d] += weight * double{values[at + d]};
    }
    for (double& x : out) x /= sum;
    return out;
  }
};

int run() {
  Model model;
  Cache cache;
  Everything everything;
  const auto next_token = [&](int32_t token) {
    const std::vector<float> k = model.key(token), v = model.value();
    Everything::add(everything.keys, k);
    Everything::add(everything.values, v);
    cache.append(k, v);
  };
  for (int32_t token = 0; token < prompt_tokens; ++token) next_token(token);
  std::printf("%d tokens in %d pages; the pool has room for %d, the tier has %lld\n", prompt_tokens,
              prompt_tokens / page_size, pool_pages, static_cast<long long>(cache.pages_in_tier()));
  bool is_close = true;
  for (int32_t step = 0; step < steps; ++step) {
    next_token(prompt_tokens + step);
    const std::vector<float> q = model.query(step * 7 % topics);
    const Outcome chosen = cache.attend(q);
    double furthest = 0.0, share = 0.0;
    for (int32_t head = 0; head < q_heads; ++head) {
      const std::vector<double> exact = everything.attend(q, head);
      const auto h = static_cast<size_t>(head);
      for (size_t d = 0; d < head_size; ++d)
        furthest = std::max(furthest, std::abs(exact[d] - double{chosen.out[h * head_size + d]}));
      const double left_out = std::exp(double{cache.missed()[h]} - double{chosen.lse[h]});
      share = std::max(share, left_out / (1.0 + left_out));
    }
    std::printf(
        "step %d: %zu cold pages read in the tier, %zu hot ones; off by %.4f, left out at "
        "most %.4f of the weights\n",
        step, cache.cold_pages_read(), k_pages - cache.cold_pages_read(), furthest, share);
    is_close = is_close && furthest < 0.005 && cache.cold_pages_read() > 0;
  }
  return is_close ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
  }
  return 1;
}
