// SPDX-License-Identifier: Apache-2.0
/// bench/append_workload.cpp: inputs of append_bench, and their check against the reference.
#include "append_workload.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "folio/core/element.h"
#include "reference/append.h"
#include "reference/attention.h"

namespace folio::bench {
namespace {

constexpr int32_t heads = 8, q_heads = 32, head_size = 128, page_size = 64;
constexpr int64_t row_elements = int64_t{q_heads + 2 * heads} * head_size;
constexpr int32_t decode_position = 1000;

int64_t tokens_beyond_caches() {
  // of both planes, in the narrowest type
  const int64_t token_bytes = int64_t{2} * heads * head_size;
  return std::clamp<int64_t>(cache_bytes() / token_bytes, 16 * 1024, 64 * 1024) / page_size *
         page_size;
}

}  // namespace

AppendWorkload::AppendWorkload(const AppendCase& c, int threads)
    : case_(c), executor_(threads == 1 ? serial_executor() : default_executor(threads)) {
  tokens_ = c.tokens != 0 ? c.tokens : tokens_beyond_caches();
  const int64_t from_bytes = bit_width(c.from) / 8, to_bytes = bit_width(c.to) / 8;
  // of a plane
  const int64_t elements = (decodes() ? tokens_ * page_size : tokens_) * heads * head_size;
  const bool copies = c.work == AppendWork::copy_pages || c.work == AppendWork::copy_slots;
  source_ = std::make_unique<HugeMemory>(copies ? 2 * elements * from_bytes
                                                : tokens_ * row_elements * from_bytes);
  target_ =
      std::make_unique<HugeMemory>(c.work == AppendWork::rotate ? 1 : 2 * elements * to_bytes);
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
  if (c.work != AppendWork::copy_slots) return;
  for (int64_t t = 0; t < tokens_; ++t) slot_copies_.push_back({t, (t * 37 + 5) % tokens_});
}

void AppendWorkload::run() {
  switch (case_.work) {
    case AppendWork::append: return append(batch_, append_args(), executor_).or_throw();
    case AppendWork::rotate: return rotate(batch_, rotate_args(), executor_).or_throw();
    case AppendWork::copy_pages: return copy_pages(from_, to_, page_copies_, executor_).or_throw();
    case AppendWork::copy_slots: return copy_slots(from_, to_, slot_copies_, executor_).or_throw();
  }
}

double AppendWorkload::bytes() const {
  const int width = bit_width(case_.from) / 8 + bit_width(case_.to) / 8;
  const int32_t rows = case_.work == AppendWork::rotate ? q_heads : 2 * heads;
  return static_cast<double>(tokens_) * rows * head_size * width;
}

std::string AppendWorkload::check() {
  run();
  if (case_.work != AppendWork::append) return {};
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

int64_t AppendWorkload::granules_per_head() const { return head_size / case_.granule; }

void AppendWorkload::fill() const {
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
void AppendWorkload::make_batch() {
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
  for (int64_t b = 0; b < size; ++b) slots_.push_back(b * page_size + decode_position % page_size);
}

void AppendWorkload::make_table() {
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

PagedKVView AppendWorkload::plane(std::byte* data, DType dtype, std::byte* scales) const {
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

AnyTensor<3> AppendWorkload::slice(int64_t first_head, int64_t count) const {
  const int64_t width = bit_width(case_.from) / 8;
  AnyTensor<3> t = dense_tensor<3>(source_->data() + first_head * head_size * width, case_.from,
                                   {tokens_, count, head_size});
  t.stride_bytes[0] = row_elements * width;
  return t;
}

AppendArgs AppendWorkload::append_args() const {
  AppendArgs args;
  args.k = slice(q_heads, heads);
  args.v = slice(q_heads + heads, heads);
  args.key = key_;
  args.value = value_;
  if (case_.rotates) args.rope = &rope_;
  if (decodes()) args.slots = slots_.data();
  return args;
}

RotateArgs AppendWorkload::rotate_args() const {
  return {slice(0, q_heads), slice(0, q_heads), &rope_};
}

}  // namespace folio::bench
