// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/decode_quantised_scales_test.cpp: decode over 8-bit K and V in the emulator: scales
/// of every granularity, kind and type, and where they lie.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "cuda/quantised_case.h"
#include "support/bias_cases.h"

namespace folio::test {
namespace {

constexpr DType stored_types[] = {DType::f8_e4m3, DType::f8_e5m2, DType::i8};
constexpr DType scale_types[] = {DType::f32, DType::bf16, DType::f16, DType::f8_e8m0,
                                 DType::f8_e4m3};
/// One scale a row, staged granules, fine ones.
constexpr ScaleOptions forms[] = {per_token, granules_of(16), granules_of(3)};

TEST(QuantisedScales, rows_are_right_without_them) {
  for (const DType stored : stored_types) {
    CaseOptions o = byte_case({{1, 77}, {3, 40}}, stored, no_scales);
    if (stored == DType::i8) o.q_amplitude = 0.1f;
    EXPECT_TRUE(is_right(o));
  }
}

TEST(QuantisedScales, of_every_kind_and_type_are_right) {
  for (const ScaleKind kind : {ScaleKind::tensor, ScaleKind::head, ScaleKind::page,
                               ScaleKind::page_and_head, ScaleKind::token_and_head})
    for (const DType dtype : scale_types)
      for (const int32_t head_size : {128, 256}) {
        CaseOptions o =
            byte_case({{1, 50}, {2, 20}}, DType::f8_e4m3, {kind, dtype, 16, true}, head_size);
        o.value_scales.tensor_scale = dtype != DType::f32;
        EXPECT_TRUE(is_right(o));
      }
}

TEST(QuantisedScales, of_any_number_of_elements_are_right) {
  int i = 0;
  for (const int32_t granularity : {1, 2, 3, 4, 5, 7, 8, 12, 16, 24, 32, 40, 48, 64, 65, 100, 128})
    for (const int32_t head_size : {64, 128, 256})
      for (const DType stored : stored_types) {
        if (granularity >= head_size) continue;
        const ScaleKind kind = i % 2 == 0 ? ScaleKind::granule : ScaleKind::calibrated_granule;
        const ScaleOptions scales = {kind, scale_types[i / 2 % 5], granularity, i % 7 == 1};
        EXPECT_TRUE(is_right(byte_case({{1, 37}, {2, 20}}, stored, scales, head_size)));
        ++i;
      }
}

TEST(QuantisedScales, of_one_plane_may_differ_from_the_other) {
  const std::pair<ScaleOptions, ScaleOptions> pairs[] = {
      {per_token, granules_of(32)},
      {no_scales, granules_of(32)},
      {per_token, granules_of(1)},
      {no_scales, granules_of(5)},
      {granules_of(16), granules_of(8)},
      {granules_of(2), granules_of(7)},
      {granules_of(16), {ScaleKind::granule, DType::f16, 2, true}}};
  for (const auto& [one, other] : pairs)
    for (const int32_t head_size : {64, 256}) {
      CaseOptions o = byte_case({{1, 50}, {2, 20}}, DType::f8_e4m3, one, head_size);
      o.value_scales = other;
      EXPECT_TRUE(is_right(o));
      std::swap(o.key_scales, o.value_scales);
      EXPECT_TRUE(is_right(o));
    }
}

TEST(QuantisedScales, are_found_in_pages_of_any_size) {
  for (const int32_t page_size : {1, 2, 3, 8, 15, 16, 17, 24, 64, unbounded_page_size})
    for (const int32_t head_size : {128, 256}) {
      CaseOptions o = byte_case({{1, 70}, {2, 33}}, DType::i8, granules_of(4), head_size);
      o.page_size = page_size;
      EXPECT_TRUE(is_right(o));
      o.key_order = StorageOrder::head_major;
      o.gap_bytes = 32;
      o.unassigned = 0.3;
      EXPECT_TRUE(is_right(o));
    }
}

TEST(QuantisedScales, are_right_round_edges_of_slabs_and_spans) {
  for (const int32_t context : {1, 2, 15, 16, 17, 31, 33, 63, 64, 65, 255, 256, 257}) {
    EXPECT_TRUE(is_right(byte_case({{1, context}}, DType::f8_e5m2, granules_of(5))));
    EXPECT_TRUE(is_right(byte_case({{1, context}}, DType::f8_e4m3, per_token, 256)));
  }
}

/// A plane with scales behind its rows, moved to a multiple of 16 bytes.
void align(PagedKVView& view, GuardedMemory& memory) {
  const auto behind =
      static_cast<std::byte*>(view.scales.data) - static_cast<std::byte*>(view.data);
  const int64_t bytes = behind + reach_of_scales(view);
  memory = GuardedMemory(bytes, 16);
  std::memcpy(memory.data(), view.data, static_cast<size_t>(bytes));
  view.data = memory.data();
  view.scales.data = memory.data() + behind;
}

TEST(QuantisedScales, may_lie_behind_the_row) {
  CaseOptions o = byte_case({{1, 50}, {2, 20}});
  o.key_scales.kind = o.value_scales.kind = ScaleKind::behind_row;
  o.gap_bytes = 16;  // rows of 128 + 16 + 16 bytes
  AttentionCase c(o);
  GuardedMemory key, value;
  align(c.args().key, key);
  align(c.args().value, value);
  EXPECT_TRUE(is_right(c));
}

TEST(QuantisedScales, may_lie_gigabytes_apart) {
  for (const ScaleOptions& scales : forms) {
    AttentionCase c(byte_case({{1, 40}, {2, 33}}, DType::f8_e4m3, scales));
    PagedKVView& plane = c.args().value;
    const ScaleView near = plane.scales;
    const int64_t stride = (int64_t{1} << 32) + 64, bytes = plane.num_pages * stride;
    void* const far = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(far, MAP_FAILED);
    for (int64_t page = 0; page < plane.num_pages; ++page)  // a gap of one scale between tokens
      std::memcpy(static_cast<std::byte*>(far) + page * stride,
                  static_cast<std::byte*>(near.data) + page * near.page_stride_bytes,
                  static_cast<size_t>(near.page_stride_bytes - 4));
    plane.scales.data = far;
    plane.scales.page_stride_bytes = stride;
    EXPECT_TRUE(is_right(c));
    plane.scales = near;
    munmap(far, static_cast<size_t>(bytes));
  }
}

/// Every scale of a plane, whatever lies there, as the function makes it of its slot and granule.
template <class Make>
void change_scales(const PagedKVView& view, Make make) {
  const ScaleView& s = view.scales;
  for (int64_t page = 0; page < view.num_pages; ++page)
    for (int64_t slot = 0; slot < view.page_size; ++slot)
      for (int64_t head = 0; head < view.num_heads; ++head)
        for (int64_t g = 0; g * s.granularity < view.head_size; ++g) {
          auto* const scale =
              reinterpret_cast<float*>(static_cast<std::byte*>(s.data) +
                                       folio::detail::scale_offset_bytes(s, page, slot, head, g));
          *scale = make(*scale, page * view.page_size + slot, g);  // NaN stays
        }
}

TEST(QuantisedScales, of_tokens_far_from_one_another_keep_their_weights) {
  for (const ScaleOptions& scales : forms) {
    CaseOptions o = byte_case({{1, 60}, {2, 33}}, DType::f8_e4m3, scales);
    o.out_dtype = DType::f32;
    AttentionCase c(o);
    change_scales(c.args().value, [](float scale, int64_t slot, int64_t) {
      return std::ldexp(scale, static_cast<int>(slot * 7 % 61) - 30);
    });
    EXPECT_TRUE(is_right(c));
  }
}

TEST(QuantisedScales, are_right_where_they_vary_manyfold_along_a_row) {
  for (const DType stored : stored_types)
    for (const int32_t granularity : {1, 4, 16}) {
      AttentionCase c(byte_case({{1, 60}, {2, 33}}, stored, granules_of(granularity)));
      for (const PagedKVView* view : {&c.args().key, &c.args().value})
        change_scales(*view, [](float scale, int64_t, int64_t g) {
          return std::ldexp(g % 3 == 1 ? -scale : scale, -static_cast<int>(g * 5 % 7));
        });
      EXPECT_TRUE(is_right(c));
    }
}

TEST(QuantisedScales, round_no_elements_where_those_of_each_row_are_one) {
  for (const int32_t granularity : {1, 5, 16})
    for (const DType stored : stored_types) {
      CaseOptions o = byte_case({{1, 60}, {2, 33}}, stored, granules_of(granularity));
      o.out_dtype = DType::f32;
      AttentionCase c(o);
      for (const PagedKVView* view : {&c.args().key, &c.args().value})
        change_scales(*view, [](float scale, int64_t slot, int64_t) {
          return std::isnan(scale) ? scale : 0.001f * static_cast<float>(1 + slot % 5);
        });
      EXPECT_TRUE(is_right_unrounded(c));
    }
}

TEST(QuantisedScales, may_differ_from_the_first_at_the_end_of_a_row_alone) {
  for (const int32_t granularity : {1, 5, 16}) {
    AttentionCase c(byte_case({{1, 60}, {2, 33}}, DType::i8, granules_of(granularity)));
    const int64_t last = 127 / granularity;
    for (const PagedKVView* view : {&c.args().key, &c.args().value})
      change_scales(*view, [&](float scale, int64_t, int64_t g) {
        return std::isnan(scale) ? scale : g == last ? 0.01f : 0.001f;
      });
    EXPECT_TRUE(is_right(c));
  }
}

TEST(QuantisedScales, of_zero_make_rows_of_zero) {
  for (const ScaleOptions& scales : forms) {
    AttentionCase c(byte_case({{1, 60}, {2, 33}}, DType::i8, scales));
    for (const PagedKVView* view : {&c.args().key, &c.args().value})
      change_scales(*view, [](float scale, int64_t slot, int64_t g) {
        return slot % 3 == 0 || (slot + g) % 5 == 0 ? scale * 0.0f : scale;
      });
    EXPECT_TRUE(is_right(c));
  }
}

TEST(QuantisedScales, of_what_a_bias_hides_are_ignored) {
  constexpr float lowest = -std::numeric_limits<float>::infinity();
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  for (const ScaleOptions& scales : forms)
    for (const int32_t head_size : {128, 256}) {
      CaseOptions o = byte_case({{1, 50}, {2, 33}}, DType::f8_e4m3, scales, head_size);
      o.bias = BiasForm::shared;
      AttentionCase c(o);
      const auto is_hidden = [](int64_t key) { return key % 5 == 2 || key == 20; };
      set_bias(c, [&](int64_t, int64_t key) { return is_hidden(key) ? lowest : 0.5f; });
      poison_keys(c, is_hidden, std::numeric_limits<double>::quiet_NaN());
      for (const PagedKVView* view : {&c.args().key, &c.args().value}) {
        std::vector<bool> is_dead(static_cast<size_t>(view->num_pages * view->page_size));
        for (int32_t b = 0; b < c.batch().size; ++b)
          for (int64_t key = 0; key < c.batch().context_lengths[b]; ++key) {
            const reference::Slot at = reference::slot_of(*view, c.batch(), b, key);
            if (is_hidden(key) && at.page >= 0)
              is_dead[static_cast<size_t>(at.page * view->page_size + at.slot)] = true;
          }
        change_scales(*view, [&](float scale, int64_t slot, int64_t) {
          return is_dead[static_cast<size_t>(slot)] ? nan : scale;
        });
      }
      EXPECT_TRUE(is_right(c));
    }
}

TEST(QuantisedScales, of_unassigned_pages_are_invisible) {
  for (const ScaleOptions& scales : forms) {
    CaseOptions o = byte_case({{1, 100}, {2, 64}, {1, 40}, {1, 16}}, DType::f8_e4m3, scales);
    o.unassigned = 0.5;
    EXPECT_TRUE(is_right(o));
  }
}

TEST(QuantisedScales, are_right_beside_every_mask_and_term) {
  for (const int32_t head_size : {64, 128, 256}) {
    CaseOptions o = byte_case({{1, 90}, {3, 60}, {2, 30}}, DType::i8, granules_of(6), head_size);
    o.mask = {20, 3, 0, 4};
    EXPECT_TRUE(is_right(o));
    o.softcap = 3.0f;
    o.alibi = o.intervals = true;
    o.bias = BiasForm::per_head;
    EXPECT_TRUE(is_right(o));
    CaseOptions tree = byte_case({{5, 70}, {9, 33}}, DType::f8_e4m3, granules_of(6), head_size);
    tree.tree = TreeForm::random;
    tree.sink_logits = true;
    EXPECT_TRUE(is_right(tree));
  }
}

TEST(QuantisedScales, give_the_same_bits_however_spans_are_cut) {
  for (const int32_t head_size : {128, 256}) {
    CaseOptions o = byte_case({{1, 600}, {2, 300}}, DType::f8_e4m3, granules_of(8), head_size);
    o.out_dtype = DType::f32;
    o.reproducible = Reproducible::per_query;
    AttentionCase whole(o);
    EXPECT_TRUE(is_right(whole, {.blocks = 1}));
    for (const int blocks : {2, 5}) {
      AttentionCase cut(o);
      EXPECT_TRUE(is_right(cut, {.blocks = blocks, .seed = 3}));
      EXPECT_EQ(whole.output_bits(), cut.output_bits()) << blocks;
    }
  }
}

TEST(QuantisedScales, are_right_on_any_schedule) {
  for (const ScaleOptions& scales : forms)
    for (uint64_t seed = 10; seed < 16; ++seed)
      EXPECT_TRUE(is_right(byte_case({{1, 200}, {2, 140}}, DType::f8_e4m3, scales),
                           {.blocks = 4, .resident = 4, .seed = seed}));
  for (uint64_t seed = 20; seed < 24; ++seed)
    EXPECT_TRUE(is_right(byte_case({{1, 200}, {2, 90}}, DType::i8, granules_of(9), 256),
                         {.blocks = 3, .resident = 1, .seed = seed}));
}

}  // namespace
}  // namespace folio::test
