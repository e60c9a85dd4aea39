// SPDX-License-Identifier: Apache-2.0
/// tests/c/c_packed_test.cpp: planes of four bits through the C interface: zero points, rotations
/// and channel scales arrive as they were given, and are refused by name where they cannot be.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "c/convert.h"
#include "c/to_c.h"
#include "folio/attention/plan.h"
#include "folio/core/buffer.h"
#include "support/guarded_memory.h"
#include "support/random.h"

namespace folio::test {
namespace {

constexpr bool is(int number, DType dtype) { return static_cast<DType>(number) == dtype; }
static_assert(is(FOLIO_F4_E2M1, DType::f4_e2m1) && is(FOLIO_I4, DType::i4) &&
              is(FOLIO_U4, DType::u4) && is(FOLIO_I4_HALVES, DType::i4_halves) &&
              is(FOLIO_U4_HALVES, DType::u4_halves));
constexpr bool is(int number, Zeros zeros) { return static_cast<Zeros>(number) == zeros; }
static_assert(is(FOLIO_ZEROS_NONE, Zeros::none) && is(FOLIO_ZEROS_PATTERNS, Zeros::patterns) &&
              is(FOLIO_ZEROS_MINIMUM, Zeros::minimum) && is(FOLIO_ZEROS_IN_SCALE, Zeros::in_scale));

constexpr int32_t heads = 2, head_size = 64, page_size = 4, pages = 3, tokens = 9;

/// u4 with zero points, rotated with signs, of scaled channels.
struct Plane {
  Plane() {
    for (size_t i = 0; i < std::size(channels); ++i) channels[i] = 0.5f + static_cast<float>(i % 7);
    view = {.data = values,
            .dtype = DType::u4,
            .num_heads = heads,
            .head_size = head_size,
            .page_size = page_size,
            .num_pages = pages,
            .page_stride_bytes = page_size * heads * 32,
            .slot_stride_bytes = heads * 32,
            .head_stride_bytes = 32,
            .scales = {.data = scales,
                       .dtype = DType::f16,
                       .granularity = 32,
                       .page_stride_bytes = page_size * heads * 8,
                       .slot_stride_bytes = heads * 8,
                       .head_stride_bytes = 8,
                       .granule_stride_bytes = 4,
                       .tensor_scale = &tensor_scale,
                       .zeros = Zeros::minimum,
                       .zero_offset_bytes = 2},
            .hadamard = {.block = 32, .sign_seed = 0x9e3779b9},
            .has_channel_scales = true,
            .channel_scales = channels};
  }
  Plane(const Plane&) = delete;
  Plane& operator=(const Plane&) = delete;
  [[nodiscard]] std::string bytes() const {
    return {std::string(reinterpret_cast<const char*>(values), sizeof values) +
            std::string(reinterpret_cast<const char*>(scales), sizeof scales)};
  }

  alignas(64) std::byte values[pages * page_size * heads * 32] = {};
  alignas(4) std::byte scales[pages * page_size * heads * 8] = {};
  float channels[heads * head_size] = {};
  float tensor_scale = 0.25f;
  PagedKVView view;
};

TEST(CPacked, every_field_of_a_plane_arrives) {
  Plane plane;
  for (const Zeros zeros : {Zeros::none, Zeros::patterns, Zeros::minimum, Zeros::in_scale}) {
    plane.view.scales.zeros = zeros;
    plane.view.scales.zero_offset_bytes = -(int64_t{1} << 40);
    const CView through_c(plane.view);
    PagedKVView got;
    ASSERT_TRUE(c::convert("f", "key", &through_c.view, got).is_ok());
    EXPECT_EQ(got, plane.view);
  }
}

/// Rows of keys, values and queries.
struct Rows {
  Rows() {
    Rng rng(7);
    for (std::vector<float>* values : {&k, &v, &q})
      for (float& x : *values) x = rng.uniform(-1.0f, 1.0f);
  }
  std::vector<float> k = std::vector<float>(tokens * heads * head_size), v = k,
                     q = std::vector<float>(4 * head_size);
  std::vector<int64_t> slots{0, 1, 2, 3, 4, 5, 6, 7, 8};
  const int32_t offsets[2] = {0, 1}, lengths[1] = {tokens};
  const uint32_t table[pages] = {0, 1, 2};
  Batch batch{.size = 1,
              .query_offsets = offsets,
              .context_lengths = lengths,
              .table = {.entries = table, .row_stride = pages}};

  [[nodiscard]] ConstTensor<3> tensor(const std::vector<float>& of) const {
    return dense_tensor<3>(of.data(), DType::f32, {tokens, heads, head_size});
  }
};

folio_code append_through_c(const Rows& rows, const folio_kv_view* key, const folio_kv_view* value,
                            folio_message& message) {
  const folio_tensor k = to_c(rows.tensor(rows.k)), v = to_c(rows.tensor(rows.v));
  auto args = c_struct<folio_append_args>();
  args.k = &k, args.v = &v, args.key = key, args.value = value, args.slots = rows.slots.data();
  return folio_append(nullptr, &args, nullptr, &message);
}

TEST(CPacked, append_and_attend_give_the_bits_of_the_cpp_calls) {
  const Rows rows;
  Plane cpp_key, cpp_value, c_key, c_value;
  AppendArgs args;
  args.k = rows.tensor(rows.k), args.v = rows.tensor(rows.v);
  args.key = cpp_key.view, args.value = cpp_value.view, args.slots = rows.slots.data();
  ASSERT_EQ(append({}, args, serial_executor()).message(), "");
  const CView key(c_key.view), value(c_value.view);
  folio_message message = {};
  ASSERT_EQ(append_through_c(rows, &key.view, &value.view, message), FOLIO_OK) << message.text;
  EXPECT_EQ(c_key.bytes(), cpp_key.bytes());
  EXPECT_EQ(c_value.bytes(), cpp_value.bytes());
  EXPECT_NE(c_key.bytes(), Plane().bytes());

  AttentionProblem problem;
  problem.key = cpp_key.view, problem.value = cpp_value.view;
  problem.q_heads = 4;
  problem.q_dtype = problem.out_dtype = DType::f32;
  const AttentionLimits limits{.batch = 1, .tokens = 1, .context = tokens};
  const Attention attention = Attention::create(problem, limits).value();
  const Buffer plan_memory = Buffer::allocate(attention.plan_bytes()).value(),
               work = Buffer::allocate(attention.workspace_bytes()).value();
  std::vector<float> expected(rows.q.size()), got(rows.q.size());
  AttentionArgs attend_args;
  attend_args.q = dense_tensor<3>(rows.q.data(), DType::f32, {1, 4, head_size});
  attend_args.out = dense_tensor<3>(expected.data(), DType::f32, {1, 4, head_size});
  attend_args.key = cpp_key.view, attend_args.value = cpp_value.view;
  const AttentionPlan planned = plan(attention, rows.batch, plan_memory.span()).value();
  ASSERT_EQ(attend(attention, planned, attend_args, work.span(), serial_executor()).message(), "");

  attend_args.out.data = got.data();
  attend_args.key = c_key.view, attend_args.value = c_value.view;
  const CProblem c_problem(problem);
  const CArgs c_args(attend_args);
  const folio_limits c_limits = to_c(limits);
  const folio_batch c_batch = to_c(rows.batch);
  folio_attention* made = nullptr;
  ASSERT_EQ(
      folio_create_attention(&c_problem.problem, &c_limits, FOLIO_CPU, 0, nullptr, &made, &message),
      FOLIO_OK)
      << message.text;
  folio_plan c_plan;
  EXPECT_EQ(
      folio_make_plan(made, &c_batch, plan_memory.data(), plan_memory.bytes(), &c_plan, &message),
      FOLIO_OK)
      << message.text;
  EXPECT_EQ(folio_attend(made, &c_plan, &c_args.args, work.data(), work.bytes(), nullptr, &message),
            FOLIO_OK)
      << message.text;
  folio_destroy_attention(made);
  EXPECT_EQ(got, expected);
}

/// The first `bytes` of a struct, behind which memory ends.
template <class T>
class Older {
 public:
  Older(const T& whole, size_t bytes) : memory_(static_cast<int64_t>(bytes), alignof(T)) {
    std::memcpy(memory_.data(), &whole, bytes);
    const auto size = static_cast<uint32_t>(bytes);
    std::memcpy(memory_.data(), &size, sizeof size);
  }
  [[nodiscard]] const T* get() const { return reinterpret_cast<const T*>(memory_.data()); }

 private:
  GuardedMemory memory_;
};

// Where structs ended before rows had four bits.
constexpr size_t older_view = 72, older_scales = 64;
static_assert(offsetof(folio_kv_view, hadamard_sign_seed) == older_view);
static_assert(offsetof(folio_scale_view, zero_offset_bytes) == older_scales);

TEST(CPacked, structs_of_callers_that_know_nothing_of_them_are_read_as_far_as_they_go) {
  Plane plane;
  plane.view.dtype = DType::i4;
  plane.view.scales.zeros = Zeros::none;
  plane.view.scales.zero_offset_bytes = 0;
  plane.view.hadamard = {};
  plane.view.has_channel_scales = false;
  plane.view.channel_scales = nullptr;
  CView whole(plane.view);
  const Older scales(whole.scales, older_scales);
  whole.view.scales = scales.get();
  const Older view(whole.view, older_view);
  PagedKVView got;
  ASSERT_TRUE(c::convert("f", "key", view.get(), got).is_ok());
  EXPECT_EQ(got, plane.view);
}

TEST(CPacked, mistakes_are_named_and_nothing_is_written) {
  struct Case {
    const char* words;
    void (*break_it)(folio_kv_view&, folio_scale_view&);
    folio_code code = FOLIO_INVALID_ARGUMENT;
  };
  using V = folio_kv_view;
  using S = folio_scale_view;
  const Case cases[] = {
      {"dtype invalid", [](V& v, S&) { v.dtype = FOLIO_U4_HALVES + 1; }},
      {"dtype invalid", [](V& v, S&) { v.dtype = -1; }},
      {"key.scales are missing", [](V& v, S&) { v.scales = nullptr; }},
      {"key.scales.data is null", [](V&, S& s) { s.data = nullptr; }},
      {"scales->zeros is 4, expected", [](V&, S& s) { s.zeros = 4; }},
      {"scales->zeros is -1, expected", [](V&, S& s) { s.zeros = -1; }},
      {"scales->zeros is 257, expected", [](V&, S& s) { s.zeros = 257; }},
      {"zeros are in_scale beside scales of f16", [](V&, S& s) { s.zeros = FOLIO_ZEROS_IN_SCALE; }},
      {"i4 has no zero points", [](V& v, S&) { v.dtype = FOLIO_I4; }},
      {"zero_offset_bytes is 0, expected", [](V&, S& s) { s.zero_offset_bytes = 0; }},
      {"zero_offset_bytes is 3, expected", [](V&, S& s) { s.zero_offset_bytes = 3; }},
      {"zero_offset_bytes is 9223372036854775806",
       [](V&, S& s) { s.zero_offset_bytes = INT64_MAX - 1; }},
      {"zero_offset_bytes is 2, expected 0", [](V&, S& s) { s.zeros = FOLIO_ZEROS_NONE; }},
      {"hadamard.block is 24, expected", [](V& v, S&) { v.hadamard_block = 24; }},
      {"hadamard.block is -2147483648", [](V& v, S&) { v.hadamard_block = INT32_MIN; }},
      {"hadamard.block is 0, expected", [](V& v, S&) { v.hadamard_block = 0; }},
      {"has_channel_scales is 2, expected 0 or 1", [](V& v, S&) { v.has_channel_scales = 2; }},
      {"channel_scales are given, expected none", [](V& v, S&) { v.has_channel_scales = 0; }},
      {"channel_scales are null, expected", [](V& v, S&) { v.channel_scales = nullptr; }},
      {"scales->struct_size is 80", [](V&, S& s) { s.struct_size += 8, (&s)[1].struct_size = 7; },
       FOLIO_UNSUPPORTED},
  };
  const Rows rows;
  for (const Case& c : cases) {
    const Plane key, value;
    CView broken(key.view);
    const CView sound(value.view);
    folio_scale_view scales[2] = {broken.scales, {}};
    broken.view.scales = scales;
    c.break_it(broken.view, scales[0]);
    folio_message message = {};
    EXPECT_EQ(append_through_c(rows, &broken.view, &sound.view, message), c.code) << c.words;
    EXPECT_NE(std::strstr(message.text, c.words), nullptr)
        << message.text << "\nhas not: " << c.words;
    EXPECT_EQ(value.bytes(), Plane().bytes());
  }
}

}  // namespace
}  // namespace folio::test
