// SPDX-License-Identifier: Apache-2.0
/// bench/append_bench.cpp: append, rotate and the copies against C, the best rate at which this
/// machine copies.
///
///     append_bench [--benchmark_filter=REGEX] [--json=FILE] [--commit=ID]
///
/// Bytes are those of the values, read and written once each. K and V are slices of a fused QKV row
/// of 32 q heads and 8 KV heads of 128; pages hold 64 tokens, token-major, and are permuted. The
/// planes exceed the caches, so that nothing is measured but memory and arithmetic. C is timed
/// between the cases, each of which is held against the better of its neighbours; a case of two
/// cores against that of one and of two, whichever is higher. A case is checked against the
/// reference, on the first tokens, before it is timed.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "cpu/append/rows.h"
#include "folio/attention/append.h"
#include "folio/cache/copy.h"
#include "folio/core/element.h"
#include "reference/append.h"
#include "reference/attention.h"
#include "report.h"
#include "roofs.h"

namespace folio::bench {
namespace {

constexpr int32_t heads = 8, q_heads = 32, head_size = 128, page_size = 64;
constexpr int64_t row_elements = int64_t{q_heads + 2 * heads} * head_size;

enum class Work { append, rotate, copy_pages, copy_slots };

struct Case {
  const char* shape;
  Work work;
  DType from;
  DType to;
  bool rotates = false;
  bool has_scales = false;  ///< computed, one per token and granule of a head
  /// one in each of so many sequences; 0: as many in one sequence as exceed the caches
  int64_t tokens = 0;
  int32_t granule = head_size;
};

constexpr Case cases[] = {
    {"append/f32_to_bf16", Work::append, DType::f32, DType::bf16},
    {"append/rope/f32_to_bf16", Work::append, DType::f32, DType::bf16, true},
    {"append/rope/bf16_to_bf16", Work::append, DType::bf16, DType::bf16, true},
    {"append/rope/bf16_to_i8/scale_per_token_and_head", Work::append, DType::bf16, DType::i8, true,
     true},
    {"append/rope/bf16_to_e4m3", Work::append, DType::bf16, DType::f8_e4m3, true},
    {"append/rope/bf16_to_e4m3/scale_per_token_and_head", Work::append, DType::bf16, DType::f8_e4m3,
     true, true},
    {"append/bf16_to_i8", Work::append, DType::bf16, DType::i8},
    {"append/bf16_to_e4m3", Work::append, DType::bf16, DType::f8_e4m3},
    {"append/bf16_to_e5m2", Work::append, DType::bf16, DType::f8_e5m2},
    {"append/bf16_to_i8/scale_per_token_and_head", Work::append, DType::bf16, DType::i8, false,
     true},
    {"append/bf16_to_i8/scale_per_32", Work::append, DType::bf16, DType::i8, false, true, 0, 32},
    {"append/bf16_to_e4m3/scale_per_token_and_head", Work::append, DType::bf16, DType::f8_e4m3,
     false, true},
    {"append/bf16_to_e4m3/scale_per_32", Work::append, DType::bf16, DType::f8_e4m3, false, true, 0,
     32},
    {"append/f32_to_e4m3/scale_per_token_and_head", Work::append, DType::f32, DType::f8_e4m3, false,
     true},
    {"append/rope/bf16_to_bf16/one_token_in_256_sequences", Work::append, DType::bf16, DType::bf16,
     true, false, 256},
    {"rotate/bf16_in_place", Work::rotate, DType::bf16, DType::bf16, true},
    {"copy_pages/bf16", Work::copy_pages, DType::bf16, DType::bf16},
    {"copy_pages/bf16_to_e4m3", Work::copy_pages, DType::bf16, DType::f8_e4m3},
    {"copy_pages/bf16_to_i8", Work::copy_pages, DType::bf16, DType::i8},
    {"copy_pages/bf16_to_i8/scale_per_token_and_head", Work::copy_pages, DType::bf16, DType::i8,
     false, true},
    {"copy_slots/bf16", Work::copy_slots, DType::bf16, DType::bf16},
};

/// The memory of all cases, and the arguments of one.
class Workload {
 public:
  Workload(const Case& c, int threads)
      : case_(c), executor_(threads == 1 ? serial_executor() : default_executor(threads)) {
    tokens_ = c.tokens != 0 ? c.tokens : tokens_beyond_caches();
    const int64_t from_bytes = bit_width(c.from) / 8, to_bytes = bit_width(c.to) / 8;
    // of a plane
    const int64_t elements = (decodes() ? tokens_ * page_size : tokens_) * heads * head_size;
    const bool copies = c.work == Work::copy_pages || c.work == Work::copy_slots;
    source_ = std::make_unique<HugeMemory>(copies ? 2 * elements * from_bytes
                                                  : tokens_ * row_elements * from_bytes);
    target_ = std::make_unique<HugeMemory>(c.work == Work::rotate ? 1 : 2 * elements * to_bytes);
    scales_ = std::make_unique<HugeMemory>(2 * elements / c.granule * 4);
    fill();
    pages_.resize(static_cast<size_t>(decodes() ? tokens_ : tokens_ / page_size));
    for (size_t i = 0; i < pages_.size(); ++i)
      pages_[i] = static_cast<uint32_t>((i * 37 + 5) % pages_.size());
    make_batch();
    make_table();
    key_ = plane(target_->data(), c.to, c.has_scales ? scales_->data() : nullptr);
    value_ = plane(target_->data() + elements * to_bytes, c.to,
                   c.has_scales ? scales_->data() + elements / c.granule * 4 : nullptr);
    from_[0] = {plane(source_->data(), c.from, nullptr),
                plane(source_->data() + elements * from_bytes, c.from, nullptr)};
    to_[0] = {key_, value_};
    for (size_t i = 0; i < pages_.size(); ++i)
      page_copies_.push_back({static_cast<uint32_t>(i), pages_[i], page_size});
    if (c.work != Work::copy_slots) return;
    for (int64_t t = 0; t < tokens_; ++t) slot_copies_.push_back({t, (t * 37 + 5) % tokens_});
  }

  void run() {
    switch (case_.work) {
      case Work::append: return append(batch_, append_args(), executor_).or_throw();
      case Work::rotate: return rotate(batch_, rotate_args(), executor_).or_throw();
      case Work::copy_pages: return copy_pages(from_, to_, page_copies_, executor_).or_throw();
      case Work::copy_slots: return copy_slots(from_, to_, slot_copies_, executor_).or_throw();
    }
  }

  /// Values read and written, once each.
  [[nodiscard]] double bytes() const {
    const int width = bit_width(case_.from) / 8 + bit_width(case_.to) / 8;
    const int32_t rows = case_.work == Work::rotate ? q_heads : 2 * heads;
    return static_cast<double>(tokens_) * rows * head_size * width;
  }

  /// K of the first tokens as the reference would have it; empty if it is so. Rotation in place is
  /// left to the tests.
  std::string check() {
    run();
    if (case_.work != Work::append) return {};
    const int64_t some = std::min<int64_t>(tokens_, page_size);
    std::vector<std::byte> memory(
        static_cast<size_t>(some * heads * head_size * bit_width(case_.to) / 8));
    std::vector<float> scales(static_cast<size_t>(some * heads * granules_per_head()));
    PagedKVView exact = key_;
    exact.data = memory.data();
    exact.num_pages = 1;
    if (case_.has_scales) exact.scales.data = scales.data();
    AppendArgs args = append_args();
    args.k.extent[0] = some;
    args.v = {};
    args.key = exact;
    std::vector<int64_t> slots(static_cast<size_t>(some));
    std::iota(slots.begin(), slots.end(), int64_t{0});
    std::vector<int32_t> positions(slots.begin(), slots.end());
    if (decodes()) std::fill(positions.begin(), positions.end(), decode_position);
    Rope rope = rope_;
    rope.positions = positions.data();
    if (case_.rotates) args.rope = &rope;
    args.slots = slots.data();
    reference::append({}, args);
    for (int64_t t = 0; t < some; ++t) {
      for (int32_t h = 0; h < heads; ++h) {
        for (int32_t d = 0; d < head_size; ++d) {
          const int64_t page = decodes() ? t : pages_[0],
                        slot = decodes() ? decode_position % page_size : t;
          const double a = reference::element(key_, page, slot, h, d),
                       e = reference::element(exact, 0, t, h, d);
          const double step =
              bit_width(case_.to) == 8 ? std::fabs(e) / 8.0 + 0.02 : std::fabs(e) / 128.0 + 1e-6;
          if (!(std::fabs(a - e) <= step))
            return "token " + std::to_string(t) + " differs from the reference";
        }
      }
    }
    return {};
  }

 private:
  static constexpr int32_t decode_position = 1000;

  [[nodiscard]] bool decodes() const { return case_.tokens != 0; }
  [[nodiscard]] int64_t granules_per_head() const { return head_size / case_.granule; }

  static int64_t tokens_beyond_caches() {
    // of both planes, in the narrowest type
    const int64_t token_bytes = int64_t{2} * heads * head_size;
    return std::clamp<int64_t>(cache_bytes() / token_bytes, 16 * 1024, 64 * 1024) / page_size *
           page_size;
  }

  void fill() const {
    uint32_t state = 1;
    const auto next = [&] {
      state = state * 1664525u + 1013904223u;
      return static_cast<float>(static_cast<int32_t>(state >> 8) - (1 << 23)) /
             static_cast<float>(1 << 22);
    };
    const int64_t width = bit_width(case_.from) / 8;
    constexpr int64_t period = 64 * 1024;  // elements; the rest repeats them
    for (int64_t i = 0; i < std::min(period, source_->bytes() / width); ++i) {
      const float x = next();
      const bf16 half = from_float<bf16>(x);
      std::memcpy(source_->data() + i * width, width == 4 ? static_cast<const void*>(&x) : &half,
                  static_cast<size_t>(width));
    }
    for (int64_t done = period * width; done < source_->bytes(); done += period * width) {
      std::memcpy(source_->data() + done, source_->data(),
                  static_cast<size_t>(std::min(period * width, source_->bytes() - done)));
    }
  }

  /// One sequence of all tokens; or many sequences, each with a page of its own and one new token
  /// at position 1000.
  void make_batch() {
    const auto size = static_cast<int32_t>(decodes() ? tokens_ : 1);
    for (int32_t b = 0; b <= size; ++b)
      offsets_.push_back(decodes() ? b : b * static_cast<int32_t>(tokens_));
    lengths_.assign(static_cast<size_t>(size),
                    static_cast<int32_t>(decodes() ? decode_position + 1 : tokens_));
    batch_.size = size;
    batch_.query_offsets = offsets_.data();
    batch_.context_lengths = lengths_.data();
    batch_.table.entries = pages_.data();
    if (!decodes()) return;
    for (int64_t b = 0; b < size; ++b)
      slots_.push_back(b * page_size + decode_position % page_size);
  }

  void make_table() {
    const int64_t rows = std::max<int64_t>(tokens_, 1024);
    table_.resize(static_cast<size_t>(rows * head_size));
    for (int64_t row = 0; row < rows; ++row) {
      for (int32_t i = 0; i < head_size / 2; ++i) {
        const auto angle = static_cast<float>(row % 4096) *
                           std::pow(10000.0f, -2.0f * static_cast<float>(i) / head_size);
        table_[static_cast<size_t>(row * head_size + i)] = std::cos(angle);
        table_[static_cast<size_t>(row * head_size + head_size / 2 + i)] = std::sin(angle);
      }
    }
    rope_ = {table_.data(), rows, head_size, false, 0, nullptr};
  }

  [[nodiscard]] PagedKVView plane(std::byte* data, DType dtype, std::byte* scales) const {
    const int64_t row = int64_t{head_size} * bit_width(dtype) / 8;
    PagedKVView v;
    v.data = data;
    v.dtype = dtype;
    v.num_heads = heads;
    v.head_size = head_size;
    v.page_size = page_size;
    v.num_pages = static_cast<int64_t>(pages_.size());
    v.head_stride_bytes = row;
    v.slot_stride_bytes = heads * row;
    v.page_stride_bytes = page_size * heads * row;
    const int64_t of_head = 4 * granules_per_head();
    if (scales != nullptr)
      v.scales = {scales,  DType::f32, case_.granule, page_size * heads * of_head, heads * of_head,
                  of_head, 4,          nullptr};
    return v;
  }

  [[nodiscard]] AnyTensor<3> slice(int64_t first_head, int64_t count) const {
    const int64_t width = bit_width(case_.from) / 8;
    AnyTensor<3> t = dense_tensor<3>(source_->data() + first_head * head_size * width, case_.from,
                                     {tokens_, count, head_size});
    t.stride_bytes[0] = row_elements * width;
    return t;
  }
  [[nodiscard]] AppendArgs append_args() const {
    AppendArgs args;
    args.k = slice(q_heads, heads);
    args.v = slice(q_heads + heads, heads);
    args.key = key_;
    args.value = value_;
    if (case_.rotates) args.rope = &rope_;
    if (decodes()) args.slots = slots_.data();
    return args;
  }
  [[nodiscard]] RotateArgs rotate_args() const {
    return {slice(0, q_heads), slice(0, q_heads), &rope_};
  }

  Case case_;
  Executor executor_;
  int64_t tokens_ = 0;
  std::unique_ptr<HugeMemory> source_, target_, scales_;
  std::vector<uint32_t> pages_;
  std::vector<int32_t> offsets_, lengths_;
  std::vector<int64_t> slots_;
  std::vector<float> table_;
  Rope rope_;
  Batch batch_;
  PagedKVView key_, value_;
  KVPlanes from_[1], to_[1];
  std::vector<PageCopy> page_copies_;
  std::vector<SlotCopy> slot_copies_;
};

/// Google Benchmark calls a case several times until it lasts long enough; memory is made once.
struct Session {
  Report report;
  std::string built;
  std::unique_ptr<Workload> workload;
  std::string wrong;
  double copied[3] = {};  ///< C as last timed, for 1 and 2 threads
};

/// C of up to so many threads, timed now and last time: the highest.
double copy_roof(Session& session, int threads) {
  double best = 0.0;
  for (int t = 1; t <= threads; ++t) {
    const double before = session.copied[t];
    session.copied[t] = copy_rate(t);
    best = std::max({best, before, session.copied[t]});
  }
  return best;
}

void run_case(benchmark::State& state, Session* session, const Case& c, int threads) {
  const std::string id = std::string(c.shape) + "/" + std::to_string(threads);
  if (session->built != id) {
    session->workload.reset();
    session->workload = std::make_unique<Workload>(c, threads);
    session->wrong = session->workload->check();
    session->built = id;
  }
  if (!session->wrong.empty()) {
    state.SkipWithError(session->wrong.c_str());
    return;
  }
  if (session->copied[threads] == 0.0) copy_roof(*session, threads);
  std::vector<double> times;
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    session->workload->run();
    times.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    state.SetIterationTime(times.back());
  }
  Row row{std::string(rows::kernel().name), c.shape, threads, median(times),
          session->workload->bytes(),       0.0,     {}};
  row.roof = {"C", copy_roof(*session, threads), "copy, read and written bytes"};
  raise_to_fewer(row, session->report);
  session->report.set(row);
  state.counters["GB/s"] = row.bytes / row.seconds / 1e9;
  state.counters["%roof"] = row.percent_of_roof();
}

/// How much two cores gain, over what a copy gains.
void state_scaling(Report& report, const Case& c) {
  const Row* one = report.find(c.shape, 1);
  const Row* two = report.find(c.shape, 2);
  if (one == nullptr || two == nullptr) return;
  const double gain = one->seconds / two->seconds,
               possible = two->roof.per_second / one->roof.per_second;
  report.set(Ratio{std::string(c.shape) + ": two cores against one, over the roofs' ratio",
                   gain / possible});
}

}  // namespace
}  // namespace folio::bench

int main(int argc, char** argv) {
  using namespace folio::bench;
  Session session{Report(take_options(argc, argv)), {}, nullptr, {}, {}};
  benchmark::Initialize(&argc, argv);
  for (const int threads : {1, 2}) {
    if (threads > static_cast<int>(std::thread::hardware_concurrency())) continue;
    for (const Case& c : cases) {
      const std::string title = std::string(c.shape) + "/threads:" + std::to_string(threads);
      benchmark::RegisterBenchmark(title.c_str(),
                                   [&session, &c, threads](benchmark::State& state) {
                                     run_case(state, &session, c, threads);
                                   })
          ->Unit(benchmark::kMillisecond)
          ->UseManualTime();
    }
  }
  benchmark::RunSpecifiedBenchmarks();
  for (const Case& c : cases) state_scaling(session.report, c);
  session.report.finish();
  return 0;
}
