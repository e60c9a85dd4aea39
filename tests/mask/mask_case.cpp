// SPDX-License-Identifier: Apache-2.0
/// tests/mask/mask_case.cpp: makes masks.
#include "mask/mask_case.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "folio/core/element.h"

namespace folio::test {
namespace {

constexpr float hidden = -std::numeric_limits<float>::infinity();

constexpr float odd_numbers[] = {std::numeric_limits<float>::infinity(),
                                 std::numeric_limits<float>::quiet_NaN(), 65504.0f, -65504.0f,
                                 1e-8f};

/// Who stands where: of each key and query a sequence and a position.
struct Places {
  std::vector<int32_t> key_sequence, key_position, query_sequence, query_position, query_begin,
      query_end;
};

Places make_places(const MaskSpec& spec, Rng& rng) {
  Places p;
  const bool several = spec.kind == MaskKind::sequences || spec.kind == MaskKind::shifted;
  const int32_t count = several ? rng.int_between(2, 4) : 1;
  const bool is_holed = spec.kind == MaskKind::holes || spec.kind == MaskKind::scattered;
  const bool is_anywhere = spec.kind == MaskKind::scattered || spec.kind == MaskKind::intervals;
  std::vector<int32_t> lengths(static_cast<size_t>(count), 0);
  for (int32_t j = 0; j < spec.keys; ++j) {
    const int32_t s = rng.int_between(0, count - 1);
    const bool is_gone = is_holed && rng.chance(0.2);
    p.key_sequence.push_back(is_gone ? -1 : s);
    p.key_position.push_back(is_holed ? j : lengths[static_cast<size_t>(s)]++);
  }
  if (spec.kind == MaskKind::shifted) {
    std::vector<size_t> order(static_cast<size_t>(spec.keys));
    std::iota(order.begin(), order.end(), size_t{0});
    rng.shuffle(order);
    const Places old = p;
    for (size_t j = 0; j < order.size(); ++j) {
      p.key_sequence[j] = old.key_sequence[order[j]];
      p.key_position[j] = old.key_position[order[j]];
    }
  }
  const int32_t past = rng.int_between(-2, std::max(spec.keys - spec.queries, 0));
  std::vector<int32_t> next(static_cast<size_t>(count), several ? past / count : past);
  for (int32_t t = 0; t < spec.queries; ++t) {
    const bool is_interleaved = spec.seed % 2 == 0;
    const int32_t s =
        is_interleaved ? t % count : static_cast<int32_t>(int64_t{t} * count / spec.queries);
    p.query_sequence.push_back(s);
    p.query_position.push_back(is_anywhere ? rng.int_between(0, spec.keys)
                                           : next[static_cast<size_t>(s)]++);
    p.query_begin.push_back(rng.int_between(0, std::max(spec.keys - 1, 0)));
    p.query_end.push_back(rng.int_between(p.query_begin.back(), spec.keys));
  }
  return p;
}

bool sees(const MaskSpec& spec, const Places& p, size_t t, size_t j, int32_t window) {
  if (p.key_sequence[j] != p.query_sequence[t]) return false;
  const auto key = static_cast<int32_t>(j);
  if (spec.kind == MaskKind::intervals) return p.query_begin[t] <= key && key < p.query_end[t];
  const int32_t distance = p.query_position[t] - p.key_position[j];
  if (spec.kind == MaskKind::full) return true;
  return distance >= 0 && (spec.kind != MaskKind::window || distance < window);
}

}  // namespace

MaskCase::MaskCase(const MaskSpec& spec) : spec_(spec) {
  Rng rng(spec.seed);
  if (spec.first_rows) {
    for (int32_t s = 0; s < spec.streams; ++s)
      first_rows_.push_back((spec.streams - 1 - s) * (spec.keys + 3) + rng.between(0, 3));
    options_.first_rows = first_rows_.data();
  }
  options_.q_heads = spec.heads > 1 ? spec.heads : 0;
  make_numbers(rng);
  if (spec.dtype == DType::invalid) {
    store_bits();
  } else {
    store(rng);
  }
}

int64_t MaskCase::rows() const {
  int64_t rows = 0;
  for (int64_t s = 0; s < spec_.streams; ++s) rows = std::max(rows, first_row(s) + spec_.keys);
  return rows;
}

bool MaskCase::is_seen(int64_t stream, int64_t query, int64_t key) const {
  for (int64_t h = 0; h < spec_.heads; ++h)
    if (number(stream, h, query, key) != hidden) return true;
  return false;
}

void MaskCase::make_numbers(Rng& rng) {
  numbers_.assign(static_cast<size_t>(index(spec_.streams, 0, 0, 0)), hidden);
  for (int64_t s = 0; s < spec_.streams; ++s) {
    if (s > 0 && spec_.shares_streams) {
      std::copy_n(numbers_.begin(), index(1, 0, 0, 0), numbers_.begin() + index(s, 0, 0, 0));
      continue;
    }
    for (int64_t h = 0; h < spec_.heads; ++h) make_stream(rng, s, h);
  }
}

void MaskCase::make_stream(Rng& rng, int64_t stream, int64_t head) {
  const Places p = make_places(spec_, rng);
  const int32_t window = rng.int_between(1, 40);
  std::vector<std::vector<bool>> ancestors;
  for (int32_t t = 0; t < spec_.queries; ++t) {
    const bool is_hidden = spec_.hides_queries && rng.chance(0.2);
    // a node sees what its parent, one of those before it, sees, and itself
    const int32_t parent = rng.int_between(-1, t - 1);
    std::vector<bool> row = parent < 0 ? std::vector<bool>(static_cast<size_t>(spec_.keys))
                                       : ancestors[static_cast<size_t>(parent)];
    const int32_t prefix = std::max(spec_.keys - spec_.queries, 0);
    std::fill_n(row.begin(), prefix, true);
    if (prefix + t < spec_.keys) row[static_cast<size_t>(prefix + t)] = true;
    ancestors.push_back(row);
    for (int32_t j = 0; j < spec_.keys; ++j) {
      const auto k = static_cast<size_t>(j), q = static_cast<size_t>(t);
      bool is_shown = sees(spec_, p, q, k, window);
      if (spec_.kind == MaskKind::tree) is_shown = row[k];
      if (spec_.kind == MaskKind::random_bits || spec_.kind == MaskKind::numbers)
        is_shown = rng.chance(0.6);
      float x = 0.0f;
      if (spec_.kind == MaskKind::numbers && spec_.dtype != DType::invalid)
        x = spec_.has_odd_numbers && rng.chance(0.1) ? rng.pick(odd_numbers)
                                                     : rng.uniform(-3.0f, 3.0f);
      if (spec_.alibi) x = -std::abs(static_cast<float>(p.query_position[q] - p.key_position[k]));
      if (is_shown && !is_hidden) numbers_[static_cast<size_t>(index(stream, head, t, j))] = x;
    }
  }
}

void MaskCase::store(Rng& rng) {
  const int64_t element = bit_width(spec_.dtype) / 8;
  const int64_t row = (spec_.keys + spec_.padding) * element;
  const int64_t head = spec_.queries * row + spec_.padding * element;
  const int64_t stream = spec_.shares_streams ? 0 : spec_.heads * head;
  const int64_t total = spec_.queries * spec_.keys == 0
                            ? 0
                            : (spec_.shares_streams ? 0 : (spec_.streams - 1) * stream) +
                                  (spec_.heads - 1) * head + (spec_.queries - 1) * row +
                                  spec_.keys * element;
  memory_ = GuardedMemory(total, element);
  matrix_.values = {memory_.data(),
                    spec_.dtype,
                    {spec_.streams, spec_.heads, spec_.queries, spec_.keys},
                    {stream, head, row, element}};
  for (int64_t s = 0; s < spec_.streams; ++s)
    for (int64_t h = 0; h < spec_.heads; ++h)
      for (int64_t t = 0; t < spec_.queries; ++t)
        for (int64_t j = 0; j < spec_.keys; ++j) {
          float& x = numbers_[static_cast<size_t>(index(s, h, t, j))];
          const float signed_zero = rng.chance(0.5) ? -0.0f : 0.0f;
          detail::visit_dtype(spec_.dtype, [&](auto tag) {
            using T = typename decltype(tag)::type;
            if constexpr (Element<T>) {
              const T stored = from_float<T>(x == 0.0f ? signed_zero : x);
              std::memcpy(memory_.data() + s * stream + h * head + t * row + j * element, &stored,
                          sizeof stored);
              x = to_float(stored);
            }
          });
          if (spec_.shares_streams && s > 0) x = number(0, h, t, j);
        }
}

void MaskCase::store_bits() {
  const int64_t row = (spec_.keys + 7) / 8 + spec_.padding;
  const int64_t stream = spec_.shares_streams ? 0 : spec_.queries * row;
  const int64_t total = std::max<int64_t>(
      (spec_.shares_streams ? 1 : spec_.streams) * spec_.queries * row - spec_.padding, 0);
  memory_ = GuardedMemory(total);  // bits behind the last key are set
  bits_ = {memory_.data(), spec_.streams, spec_.queries, spec_.keys, stream, row};
  for (int64_t s = 0; s < spec_.streams; ++s)
    for (int64_t t = 0; t < spec_.queries; ++t)
      for (int64_t j = 0; j < spec_.keys; ++j) {
        if (number(s, 0, t, j) != hidden) continue;
        memory_.data()[s * stream + t * row + j / 8] &= ~(std::byte{1} << (j % 8));
      }
}

uint32_t bits_of(DType dtype, float number) {
  if (number == 0.0f) number = 0.0f;
  uint32_t bits = 0;
  detail::visit_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (Element<T>) {
      const T element = from_float<T>(number == 0.0f ? 0.0f : number);
      std::memcpy(&bits, &element, sizeof element);
    }
  });
  return bits;
}

}  // namespace folio::test
