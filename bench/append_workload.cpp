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

constexpr int32_t page_size = 64;
constexpr int32_t decode_position = 1000;

int64_t tokens_beyond_caches(const AppendShape& shape, DType dtype) {
  // of all planes; a byte an element, which is what most types have at the least
  const int64_t head_bytes = detail::is_packed(dtype) ? shape.head_size / 2 : shape.head_size;
  const int64_t token_bytes = int64_t{shape.planes} * shape.heads * head_bytes;
  return std::clamp<int64_t>(cache_bytes() / token_bytes, 16 * 1024, 64 * 1024) / page_size *
         page_size;
}

}  // namespace

AppendWorkload::AppendWorkload(const AppendCase& c, int threads)
    : case_(c),
      shape_(c.cache),
      executor_(threads == 1 ? serial_executor() : default_executor(threads)) {
  tokens_ = c.tokens != 0 ? c.tokens : tokens_beyond_caches(shape_, c.to);
  elements_ = (decodes() ? tokens_ * page_size : tokens_) * shape_.heads * shape_.head_size;
  const int64_t from_bytes = row_bytes(c.from, elements_), to_bytes = row_bytes(c.to, elements_);
  const bool copies = c.work == AppendWork::copy_pages || c.work == AppendWork::copy_slots;
  source_ = std::make_unique<HugeMemory>(
      copies ? 2 * from_bytes : row_bytes(c.from, tokens_ * shape_.row_elements()));
  target_ = std::make_unique<HugeMemory>(c.work == AppendWork::rotate ? 1 : 2 * to_bytes);
  scales_ = std::make_unique<HugeMemory>(2 * scale_bytes());
  fill();
  pages_.resize(static_cast<size_t>(decodes() ? tokens_ : tokens_ / page_size));
  for (size_t i = 0; i < pages_.size(); ++i)
    pages_[i] = static_cast<uint32_t>((i * 37 + 5) % pages_.size());
  make_batch();
  make_table();
  key_ = plane(target_->data(), c.to, c.has_scales ? scales_->data() : nullptr);
  value_ = plane(target_->data() + to_bytes, c.to,
                 c.has_scales ? scales_->data() + scale_bytes() : nullptr);
  from_[0] = {plane(source_->data(), c.from, nullptr),
              plane(source_->data() + from_bytes, c.from, nullptr)};
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
  const int64_t bytes =
      row_bytes(case_.from, shape_.head_size) + row_bytes(case_.to, shape_.head_size);
  const int32_t rows =
      case_.work == AppendWork::rotate ? shape_.q_heads : shape_.planes * shape_.heads;
  return static_cast<double>(tokens_ * rows * bytes);
}

std::string AppendWorkload::check() {
  run();
  if (case_.work != AppendWork::append) return {};
  const int64_t some = std::min<int64_t>(tokens_, page_size);
  std::vector<std::byte> memory(
      static_cast<size_t>(row_bytes(case_.to, some * shape_.heads * shape_.head_size)));
  std::vector<float> scales(static_cast<size_t>(some * shape_.heads * scale_bytes_of_head() / 4));
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
  return difference(exact, some);
}

std::string AppendWorkload::difference(const PagedKVView& exact, int64_t tokens) const {
  const bool is_packed = detail::is_packed(case_.to);
  int64_t steps = 0;
  for (int64_t t = 0; t < tokens; ++t) {
    for (int32_t h = 0; h < shape_.heads; ++h) {
      for (int32_t d = 0; d < shape_.head_size; ++d) {
        const int64_t page = decodes() ? t : pages_[0],
                      slot = decodes() ? decode_position % page_size : t;
        const double a = reference::element(key_, page, slot, h, d),
                     e = reference::element(exact, 0, t, h, d);
        const bool is_narrow = bit_width(case_.to) == 8 || block_elements(case_.to) > 1;
        double step = is_narrow ? std::fabs(e) / 8.0 + 0.02 : std::fabs(e) / 128.0 + 1e-6;
        if (is_packed) step = std::fabs(e) / 500.0 + 1e-6;
        if (std::fabs(a - e) <= step) continue;
        // K is rotated in double there: a value in many falls on the other side of a tie
        if (is_packed && std::fabs(a - e) < 2.0 && ++steps < tokens * shape_.heads) continue;
        return "token " + std::to_string(t) + " differs from the reference";
      }
    }
  }
  return {};
}

int64_t AppendWorkload::scale_bytes() const {
  return elements_ / shape_.head_size * scale_bytes_of_head();
}
int64_t AppendWorkload::scale_bytes_of_head() const {
  const int64_t numbers = case_.zeros == Zeros::none ? 1 : 2;
  return shape_.head_size / case_.granule * numbers * bit_width(case_.scale_dtype) / 8;
}

void AppendWorkload::fill() const {
  uint32_t state = 1;
  const auto next = [&] {
    state = state * 1664525u + 1013904223u;
    return static_cast<float>(static_cast<int32_t>(state >> 8) - (1 << 23)) /
           static_cast<float>(1 << 22);
  };
  // a small number's pattern in bf16 is one in f16, so blocks may be filled as if they were bf16
  const int64_t width = block_elements(case_.from) > 1 ? 2 : bit_width(case_.from) / 8;
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
  const int32_t dims = shape_.rope_dims;
  table_.resize(static_cast<size_t>(rows * dims));
  for (int64_t row = 0; row < rows; ++row) {
    for (int32_t i = 0; i < dims / 2; ++i) {
      const auto angle =
          static_cast<float>(row % 4096) *
          std::pow(10000.0f, -2.0f * static_cast<float>(i) / static_cast<float>(dims));
      table_[static_cast<size_t>(row * dims + i)] = std::cos(angle);
      table_[static_cast<size_t>(row * dims + dims / 2 + i)] = std::sin(angle);
    }
  }
  rope_ = {table_.data(), rows, dims, false, shape_.head_size - dims, nullptr};
}

PagedKVView AppendWorkload::plane(std::byte* data, DType dtype, std::byte* scales) const {
  const int64_t row = row_bytes(dtype, shape_.head_size);
  PagedKVView v;
  v.data = data;
  v.dtype = dtype;
  v.num_heads = shape_.heads;
  v.head_size = shape_.head_size;
  v.page_size = page_size;
  v.num_pages = static_cast<int64_t>(pages_.size());
  v.head_stride_bytes = row;
  v.slot_stride_bytes = shape_.heads * row;
  v.page_stride_bytes = page_size * shape_.heads * row;
  if (case_.cache == AppendCache::head_major) {
    v.head_stride_bytes = page_size * row;
    v.slot_stride_bytes = row;
  }
  v.hadamard = case_.hadamard;
  if (scales == nullptr) return v;
  const int64_t of_head = scale_bytes_of_head(), number = bit_width(case_.scale_dtype) / 8;
  v.scales = {scales,
              case_.scale_dtype,
              case_.granule,
              page_size * shape_.heads * of_head,
              shape_.heads * of_head,
              of_head,
              case_.zeros == Zeros::none ? number : 2 * number,
              nullptr,
              case_.zeros,
              case_.zeros == Zeros::none ? 0 : number};
  return v;
}

AnyTensor<3> AppendWorkload::slice(int64_t first_head, int64_t count) const {
  const int64_t width = bit_width(case_.from) / 8;
  AnyTensor<3> t = dense_tensor<3>(source_->data() + first_head * shape_.head_size * width,
                                   case_.from, {tokens_, count, shape_.head_size});
  t.stride_bytes[0] = shape_.row_elements() * width;
  return t;
}

AppendArgs AppendWorkload::append_args() const {
  AppendArgs args;
  args.k = slice(shape_.q_heads, shape_.heads);
  if (shape_.planes == 2) {
    args.v = slice(shape_.q_heads + shape_.heads, shape_.heads);
    args.value = value_;
  }
  args.key = key_;
  if (case_.rotates) args.rope = &rope_;
  if (decodes()) args.slots = slots_.data();
  return args;
}

RotateArgs AppendWorkload::rotate_args() const {
  return {slice(0, shape_.q_heads), slice(0, shape_.q_heads), &rope_};
}

}  // namespace folio::bench
