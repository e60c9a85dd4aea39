// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/tests/refusal_test.cpp: which nodes are served, on tensors made by hand.
#include "refusal.h"

#include <gmock/gmock.h>

#include <cstring>
#include <limits>

namespace ggml_folio {
namespace {

using testing::HasSubstr;
using testing::NotNull;

/// A dense tensor without data.
ggml_tensor tensor(ggml_type type, size_t bytes_of_block, int64_t block, int64_t n0, int64_t n1,
                   int64_t n2, int64_t n3) {
  ggml_tensor t = {};
  t.type = type;
  const int64_t extents[] = {n0, n1, n2, n3};
  std::memcpy(t.ne, extents, sizeof(extents));
  t.nb[0] = bytes_of_block;
  t.nb[1] = bytes_of_block * static_cast<size_t>(n0 / block);
  t.nb[2] = t.nb[1] * static_cast<size_t>(n1);
  t.nb[3] = t.nb[2] * static_cast<size_t>(n2);
  return t;
}

/// A node of 4 queries, 8 / 2 heads of 64, 32 keys.
struct Tensors {
  ggml_tensor q = tensor(GGML_TYPE_F32, 4, 1, 64, 4, 8, 1);
  ggml_tensor k = tensor(GGML_TYPE_F16, 2, 1, 64, 32, 2, 1);
  ggml_tensor v = tensor(GGML_TYPE_F16, 2, 1, 64, 32, 2, 1);
  ggml_tensor mask = tensor(GGML_TYPE_F16, 2, 1, 32, 4, 1, 1);
  ggml_tensor out = tensor(GGML_TYPE_F32, 4, 1, 64, 8, 4, 1);

  Tensors() {
    out.op = GGML_OP_FLASH_ATTN_EXT;
    out.src[0] = &q;
    out.src[1] = &k;
    out.src[2] = &v;
    out.src[3] = &mask;
    set_scale(0.125f);
  }
  void set_scale(float scale) { std::memcpy(out.op_params, &scale, sizeof(scale)); }
};

TEST(Refusal, an_ordinary_node_is_served) {
  const Tensors tensors;
  EXPECT_EQ(refuse_node(&tensors.out), nullptr);
}

TEST(Refusal, caches_of_blocks_are_served) {
  const struct {
    ggml_type type;
    size_t bytes;
  } blocks[] = {{GGML_TYPE_Q8_0, 34}, {GGML_TYPE_Q4_0, 18}, {GGML_TYPE_Q4_1, 20},
                {GGML_TYPE_Q5_0, 22}, {GGML_TYPE_Q5_1, 24}, {GGML_TYPE_IQ4_NL, 18}};
  for (const auto& [type, bytes] : blocks) {
    Tensors tensors;
    tensors.k = tensors.v = tensor(type, bytes, 32, 64, 32, 2, 1);
    EXPECT_EQ(refuse_node(&tensors.out), nullptr) << type;
  }
}

TEST(Refusal, other_types_are_refused) {
  Tensors key;
  key.k = tensor(GGML_TYPE_Q6_K, 210, 256, 64, 32, 2, 1);
  EXPECT_THAT(refuse_node(&key.out), HasSubstr("K has a type"));
  Tensors value;
  value.v = tensor(GGML_TYPE_Q1_0, 18, 128, 64, 32, 2, 1);
  EXPECT_THAT(refuse_node(&value.out), HasSubstr("V has a type"));
  Tensors query;
  query.q.type = GGML_TYPE_F16;
  EXPECT_THAT(refuse_node(&query.out), HasSubstr("f32"));
  Tensors mask;
  mask.mask.type = GGML_TYPE_F32;
  EXPECT_THAT(refuse_node(&mask.out), HasSubstr("mask is not f16"));
}

TEST(Refusal, what_a_later_ggml_adds_to_a_node_is_refused) {
  Tensors operand;
  operand.out.src[5] = &operand.mask;
  EXPECT_THAT(refuse_node(&operand.out), HasSubstr("an operand that the device does not know"));
  Tensors parameter;
  parameter.out.op_params[5] = 1;
  EXPECT_THAT(refuse_node(&parameter.out), HasSubstr("a parameter that the device does not know"));
  Tensors known;
  known.out.op_params[3] = 10;  // the precision
  known.out.op_params[4] = 32;  // a bound of the keys that a query sees
  EXPECT_EQ(refuse_node(&known.out), nullptr);
}

TEST(Refusal, heads_of_65_are_refused) {
  Tensors tensors;
  tensors.q = tensor(GGML_TYPE_F32, 4, 1, 65, 4, 8, 1);
  tensors.k = tensors.v = tensor(GGML_TYPE_F16, 2, 1, 65, 32, 2, 1);
  EXPECT_THAT(refuse_node(&tensors.out), NotNull());
}

TEST(Refusal, shapes_that_do_not_fit_are_refused) {
  Tensors heads;
  heads.q.ne[2] = 7;
  EXPECT_THAT(refuse_node(&heads.out), HasSubstr("heads"));
  Tensors none;
  none.k.ne[2] = none.v.ne[2] = 0;
  EXPECT_THAT(refuse_node(&none.out), HasSubstr("heads"));
  Tensors streams;
  streams.k.ne[3] = 2;
  EXPECT_THAT(refuse_node(&streams.out), HasSubstr("streams"));
  Tensors keys;
  keys.mask.ne[0] = 31;
  EXPECT_THAT(refuse_node(&keys.out), HasSubstr("mask has fewer"));
  Tensors mask_heads;
  mask_heads.mask.ne[2] = 2;
  EXPECT_THAT(refuse_node(&mask_heads.out), HasSubstr("one head"));
}

TEST(Refusal, extents_beyond_the_limits_are_refused) {
  for (const int64_t extent : {int64_t{-1}, int64_t{1} << 31, std::numeric_limits<int64_t>::max(),
                               std::numeric_limits<int64_t>::min()}) {
    Tensors tensors;
    tensors.k.ne[1] = tensors.v.ne[1] = extent;
    EXPECT_THAT(refuse_node(&tensors.out), HasSubstr("extent")) << extent;
    Tensors query;
    query.q.ne[1] = extent;
    EXPECT_THAT(refuse_node(&query.out), HasSubstr("extent")) << extent;
  }
}

TEST(Refusal, transposed_planes_are_refused) {
  Tensors tensors;
  tensors.v.nb[0] = 64;
  EXPECT_THAT(refuse_node(&tensors.out), HasSubstr("V is transposed"));
}

TEST(Refusal, a_scale_of_zero_is_refused) {
  Tensors tensors;
  tensors.set_scale(0.0f);
  EXPECT_THAT(refuse_node(&tensors.out), HasSubstr("scale is 0"));
}

TEST(Refusal, a_node_without_operands_is_refused) {
  Tensors tensors;
  tensors.out.src[1] = nullptr;
  EXPECT_THAT(refuse_node(&tensors.out), HasSubstr("lacks"));
}

TEST(Refusal, what_is_remembered_is_what_was_said) {
  Refusals refusals;
  for (int i = 0; i < 2; ++i) {
    const Tensors served;
    Tensors refused;
    refused.q = tensor(GGML_TYPE_F32, 4, 1, 65, 4, 8, 1);
    refused.k = refused.v = tensor(GGML_TYPE_F16, 2, 1, 65, 32, 2, 1);
    EXPECT_EQ(refusals.refuse(&served.out), nullptr);
    EXPECT_EQ(refusals.refuse(&refused.out), refuse_node(&refused.out));
  }
}

}  // namespace
}  // namespace ggml_folio
