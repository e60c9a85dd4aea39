// SPDX-License-Identifier: Apache-2.0
/// tests/c/c_cache_test.cpp: append, rotate, merge and the copies through the C interface: the
/// bytes of the C++ calls, and their errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "c/sparse_to_c.h"
#include "support/random.h"
#include "support/test_plane.h"

namespace folio::test {
namespace {

PlaneSpec spec() {
  PlaneSpec s;
  s.dtype = DType::f8_e4m3;
  s.scales = {DType::f32, 8, true, true, true, true};
  return s;
}

/// Three tokens of two sequences, with norm and rotation.
struct Writes {
  Writes() {
    Rng rng(7);
    for (float& x : rows) x = rng.uniform(-2.0f, 2.0f);
    for (float& x : table) x = rng.uniform(-1.0f, 1.0f);
    for (float& x : weights) x = rng.uniform(0.5f, 1.5f);
    rope.cos_sin = table.data();
    rope.rows = 4;
    rope.dims = 8;
    rope.first_dim = 4;
    rope.interleaved = true;
    args.rope = &rope;
    args.k_norm = weights.data();
    args.k_norm_shift = weights.data() + 1;
    args.norm_eps = 1e-3f;
  }
  TestPlane key{spec()}, value{spec()};
  std::vector<float> rows = std::vector<float>(3 * 2 * 16), table = std::vector<float>(4 * 8),
                     weights = std::vector<float>(17);
  std::vector<int32_t> offsets{0, 1, 3}, contexts{4, 2};
  std::vector<uint32_t> entries{3, 1};
  Batch batch{2, offsets.data(), contexts.data(), {entries.data(), 1, nullptr}};
  Rope rope;
  AppendArgs args{dense_tensor<3>(rows.data(), DType::f32, {3, 2, 16}),
                  dense_tensor<3>(rows.data(), DType::f32, {3, 2, 16}), key.view, value.view};
};

/// Of the planes of Writes.
PlaneSpec summary_spec(SummaryKind kind) {
  PlaneSpec s;
  s.dtype = DType::bf16;
  s.page_size = summary_rows(kind);
  return s;
}

folio_code append_through_c(const Writes& w, folio_message& message,
                            uint32_t args_size = sizeof(folio_append_args)) {
  const CView key(w.args.key), value(w.args.value);
  const folio_tensor k = to_c(w.args.k), v = to_c(w.args.v);
  const folio_batch batch = to_c(w.batch);
  const folio_rope rope = to_c(w.rope);
  auto args = c_struct<folio_append_args>();
  args.struct_size = args_size;
  args.norm_eps = w.args.norm_eps;
  args.k = &k;
  args.v = &v;
  args.key = &key.view;
  args.value = &value.view;
  args.slots = w.args.slots;
  args.rope = w.args.rope != nullptr ? &rope : nullptr;
  args.k_norm = w.args.k_norm;
  args.k_norm_shift = w.args.k_norm_shift;
  const CSummaries summaries(w.args.summaries != nullptr ? *w.args.summaries : PageSummaries());
  args.summaries = w.args.summaries != nullptr ? &summaries.summaries : nullptr;
  return folio_append(&batch, &args, nullptr, &message);
}

TEST(CCache, append_writes_the_bytes_of_the_cpp_call) {
  const Writes through_cpp, through_c;
  ASSERT_TRUE(append(through_cpp.batch, through_cpp.args, serial_executor()).is_ok());
  const std::vector<std::byte> before = through_c.key.bytes();
  folio_message message = {};
  ASSERT_EQ(append_through_c(through_c, message), FOLIO_OK) << message.text;
  EXPECT_EQ(through_c.key.bytes(), through_cpp.key.bytes());
  EXPECT_EQ(through_c.value.bytes(), through_cpp.value.bytes());
  EXPECT_NE(through_c.key.bytes(), before);
}

TEST(CCache, append_brings_summaries_up_to_date_as_the_cpp_call) {
  for (const SummaryKind kind : {SummaryKind::bounds, SummaryKind::mean}) {
    Writes through_cpp, through_c;
    const TestPlane expected(summary_spec(kind)), rows(summary_spec(kind));
    const std::vector<std::byte> before = rows.bytes();
    const PageSummaries of_cpp{kind, expected.view}, of_c{kind, rows.view};
    through_cpp.args.summaries = &of_cpp;
    through_c.args.summaries = &of_c;
    ASSERT_TRUE(append(through_cpp.batch, through_cpp.args, serial_executor()).is_ok());
    folio_message message = {};
    ASSERT_EQ(append_through_c(through_c, message), FOLIO_OK) << message.text;
    EXPECT_EQ(rows.bytes(), expected.bytes());
    EXPECT_NE(rows.bytes(), before);
    EXPECT_EQ(through_c.key.bytes(), through_cpp.key.bytes());
  }
}

TEST(CCache, a_caller_from_before_there_were_summaries_has_none) {
  Writes through_c;
  const TestPlane rows(summary_spec(SummaryKind::bounds));
  const std::vector<std::byte> before = rows.bytes();
  const PageSummaries summaries{SummaryKind::bounds, rows.view};
  through_c.args.summaries = &summaries;
  folio_message message = {};
  ASSERT_EQ(append_through_c(through_c, message, offsetof(folio_append_args, summaries)), FOLIO_OK)
      << message.text;
  EXPECT_EQ(rows.bytes(), before);
}

TEST(CCache, a_caller_from_before_there_were_shifts_gets_an_RMSNorm) {
  Writes expected, through_c;
  expected.args.k_norm_shift = nullptr;
  ASSERT_TRUE(append(expected.batch, expected.args, serial_executor()).is_ok());
  folio_message message = {};
  ASSERT_EQ(append_through_c(through_c, message, offsetof(folio_append_args, k_norm_shift)),
            FOLIO_OK)
      << message.text;
  EXPECT_EQ(through_c.key.bytes(), expected.key.bytes());
}

TEST(CCache, mistakes_of_append_are_named_and_nothing_is_written) {
  const auto expect_refused = [](const char* words, auto break_it) {
    Writes w;
    break_it(w);
    const std::vector<std::byte> before = w.key.bytes();
    folio_message message = {};
    EXPECT_EQ(append_through_c(w, message), FOLIO_INVALID_ARGUMENT) << words;
    EXPECT_NE(std::strstr(message.text, words), nullptr) << message.text << "\nhas not: " << words;
    EXPECT_EQ(w.key.bytes(), before);
  };
  expect_refused("k has", [](Writes& w) { w.args.k.extent[1] = 3; });
  expect_refused("dtype", [](Writes& w) { w.args.v.dtype = DType::invalid; });
  expect_refused("dims", [](Writes& w) { w.rope.dims = 7; });
  expect_refused("rows", [](Writes& w) { w.rope.rows = 2; });
  expect_refused("eps", [](Writes& w) { w.args.norm_eps = -1.0f; });
  expect_refused("k_norm_shift", [](Writes& w) { w.args.k_norm = nullptr; });
  expect_refused("query_offsets", [](Writes& w) { w.batch.query_offsets = nullptr; });
  folio_message message = {};
  EXPECT_EQ(folio_append(nullptr, nullptr, nullptr, &message), FOLIO_INVALID_ARGUMENT);
  EXPECT_STREQ(message.text, "folio_append: args is null");
}

TEST(CCache, rotate_gives_the_bits_of_the_cpp_call) {
  Writes w;
  std::vector<float> expected(w.rows.size()), got(w.rows.size());
  RotateArgs own{w.args.k, dense_tensor<3>(expected.data(), DType::f32, {3, 2, 16}), &w.rope,
                 w.weights.data(), 1e-3f};
  own.q_norm_shift = w.args.k_norm_shift;
  ASSERT_TRUE(rotate(w.batch, own, serial_executor()).is_ok());
  const folio_tensor q = to_c(own.q),
                     out = to_c(dense_tensor<3>(got.data(), DType::f32, {3, 2, 16}));
  const folio_batch batch = to_c(w.batch);
  const folio_rope rope = to_c(w.rope);
  auto args = c_struct<folio_rotate_args>();
  args.norm_eps = 1e-3f;
  args.q = &q;
  args.out = &out;
  args.rope = &rope;
  args.q_norm = w.weights.data();
  args.q_norm_shift = own.q_norm_shift;
  folio_message message = {};
  ASSERT_EQ(folio_rotate(&batch, &args, nullptr, &message), FOLIO_OK) << message.text;
  EXPECT_EQ(got, expected);
  EXPECT_NE(got, w.rows);
  args.out = nullptr;
  EXPECT_EQ(folio_rotate(&batch, &args, nullptr, &message), FOLIO_INVALID_ARGUMENT);
}

TEST(CCache, rotate_turns_queries_for_the_keys_that_it_is_given) {
  Writes w;
  std::vector<float> expected(w.rows.size()), got(w.rows.size()), scales(16, 2.0f);
  PagedKVView key{.num_heads = 1, .head_size = 16, .hadamard = {16, 5}};
  key.has_channel_scales = true;
  key.channel_scales = scales.data();
  const RotateArgs own{w.args.k, dense_tensor<3>(expected.data(), DType::f32, {3, 2, 16}),
                       nullptr,  nullptr,
                       1e-6f,    &key};
  ASSERT_TRUE(rotate({}, own, serial_executor()).is_ok());
  const folio_tensor q = to_c(own.q),
                     out = to_c(dense_tensor<3>(got.data(), DType::f32, {3, 2, 16}));
  const CView view(key);
  auto args = c_struct<folio_rotate_args>();
  args.q = &q;
  args.out = &out;
  args.key = &view.view;
  folio_message message = {};
  ASSERT_EQ(folio_rotate(nullptr, &args, nullptr, &message), FOLIO_OK) << message.text;
  EXPECT_EQ(got, expected);
  EXPECT_NE(got, w.rows);
}

TEST(CCache, an_eps_of_zero_is_the_default_for_every_caller) {
  Writes expected, zero;
  expected.args.norm_eps = AppendArgs().norm_eps;
  zero.args.norm_eps = 0.0f;
  for (Writes* w : {&expected, &zero}) std::fill(w->rows.begin(), w->rows.end(), 0.0f);
  ASSERT_TRUE(append(expected.batch, expected.args, serial_executor()).is_ok());
  folio_message message = {};
  ASSERT_EQ(append_through_c(zero, message), FOLIO_OK) << message.text;
  EXPECT_EQ(zero.key.bytes(), expected.key.bytes()) << "a zero key has no norm but eps";

  std::vector<float> got(zero.rows.size(), 1.0f);
  const folio_tensor q = to_c(zero.args.k);
  const folio_tensor out = to_c(dense_tensor<3>(got.data(), DType::f32, {3, 2, 16}));
  auto args = c_struct<folio_rotate_args>();
  args.q = &q;
  args.out = &out;
  args.q_norm = zero.weights.data();
  ASSERT_EQ(folio_rotate(nullptr, &args, nullptr, &message), FOLIO_OK) << message.text;
  EXPECT_EQ(got, zero.rows) << "zeros, no NaN";
}

TEST(CCache, pages_and_slots_are_copied) {
  TestPlane source{spec()}, pages{spec()}, slots{spec()}, expected_pages{spec()},
      expected_slots{spec()};
  source.set_bytes(std::vector<std::byte>(source.bytes().size(), std::byte{7}));
  const std::vector<KVPlanes> from{{source.view, {}}};
  const PageCopy page_copies[] = {{0, 1, 4}, {2, 3, 2}};
  const SlotCopy slot_copies[] = {{0, 5}, {7, 2}};
  const std::vector<KVPlanes> want_pages{{expected_pages.view, {}}},
      want_slots{{expected_slots.view, {}}};
  ASSERT_TRUE(copy_pages(from, want_pages, page_copies, serial_executor()).is_ok());
  ASSERT_TRUE(copy_slots(from, want_slots, slot_copies, serial_executor()).is_ok());

  const CPlanes c_from(from), c_pages(std::vector<KVPlanes>{{pages.view, {}}}),
      c_slots(std::vector<KVPlanes>{{slots.view, {}}});
  const folio_page_copy c_page_copies[] = {{0, 1, 4}, {2, 3, 2}};
  const folio_slot_copy c_slot_copies[] = {{0, 5}, {7, 2}};
  folio_message message = {};
  ASSERT_EQ(folio_copy_pages(c_from.planes.data(), c_pages.planes.data(), 1, c_page_copies, 2,
                             nullptr, &message),
            FOLIO_OK)
      << message.text;
  ASSERT_EQ(folio_copy_slots(c_from.planes.data(), c_slots.planes.data(), 1, c_slot_copies, 2,
                             nullptr, &message),
            FOLIO_OK)
      << message.text;
  EXPECT_EQ(pages.bytes(), expected_pages.bytes());
  EXPECT_EQ(slots.bytes(), expected_slots.bytes());

  EXPECT_EQ(folio_copy_pages(c_from.planes.data(), c_pages.planes.data(), 1, c_page_copies, -1,
                             nullptr, &message),
            FOLIO_INVALID_ARGUMENT);
  EXPECT_EQ(folio_copy_pages(c_from.planes.data(), nullptr, 1, c_page_copies, 2, nullptr, &message),
            FOLIO_INVALID_ARGUMENT);
  EXPECT_STREQ(message.text, "folio_copy_pages: to is null");
  EXPECT_EQ(folio_copy_pages(c_from.planes.data(), c_pages.planes.data(), 257, c_page_copies, 2,
                             nullptr, &message),
            FOLIO_INVALID_ARGUMENT);
}

TEST(CCache, merge_joins_parts) {
  std::vector<float> a(2 * 3 * 4, 1.0f), b(a.size(), 3.0f), lse(6, 0.0f), got(a.size()), lse_out(6);
  const folio_tensor first = to_c(dense_tensor<3>(a.data(), DType::f32, {2, 3, 4}));
  const folio_tensor second = to_c(dense_tensor<3>(b.data(), DType::f32, {2, 3, 4}));
  const folio_tensor out = to_c(dense_tensor<3>(got.data(), DType::f32, {2, 3, 4}));
  const folio_partial parts[] = {{&first, lse.data()}, {&second, lse.data()}};
  folio_message message = {};
  ASSERT_EQ(folio_merge(parts, 2, &out, lse_out.data(), nullptr, &message), FOLIO_OK)
      << message.text;
  EXPECT_NEAR(got[5], 2.0f, 1e-6f);
  EXPECT_NEAR(lse_out[0], 0.6931472f, 1e-6f);
  EXPECT_EQ(folio_merge(parts, 0, &out, nullptr, nullptr, &message), FOLIO_INVALID_ARGUMENT);
  std::vector<folio_partial> many(FOLIO_MAX_PARTS + 1, parts[0]);
  EXPECT_EQ(folio_merge(many.data(), FOLIO_MAX_PARTS, &out, nullptr, nullptr, &message), FOLIO_OK)
      << message.text;
  EXPECT_EQ(folio_merge(many.data(), FOLIO_MAX_PARTS + 1, &out, nullptr, nullptr, &message),
            FOLIO_INVALID_ARGUMENT);
  EXPECT_STREQ(message.text, "folio_merge: num_parts is 65, expected 1 to 64");
  EXPECT_EQ(folio_merge(nullptr, 2, &out, nullptr, nullptr, &message), FOLIO_INVALID_ARGUMENT);
  EXPECT_EQ(folio_merge(parts, 2, nullptr, nullptr, nullptr, &message), FOLIO_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace folio::test
