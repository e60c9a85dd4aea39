// SPDX-License-Identifier: Apache-2.0
/// tests/c/c_ages_test.cpp: callers that were compiled before structs grew: what they do not have
/// is neither read nor asked for.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <vector>

#include "attention/attend_error_rows.h"
#include "c/c_case.h"
#include "support/run_case.h"

namespace folio::test {
namespace {

// Where callers of folio's first C interface ended their structs.
constexpr size_t first_problem = 72, first_args = offsetof(folio_args, sink_stride),
                 first_batch = offsetof(folio_batch, selected_stride) + sizeof(int32_t);
static_assert(offsetof(folio_problem, sink_dtype) + sizeof(int32_t) == first_problem);
static_assert(first_args == 72 && first_batch == 96);

/// The first `bytes` of a struct, behind which memory ends.
template <class T>
class Older {
 public:
  Older(const T& whole, size_t bytes) : memory_(static_cast<int64_t>(bytes), alignof(T)) {
    std::memcpy(memory_.data(), &whole, bytes);
    const auto size = static_cast<uint32_t>(bytes);
    std::memcpy(memory_.data(), &size, sizeof size);
  }
  const T* get() const { return reinterpret_cast<const T*>(memory_.data()); }

 private:
  GuardedMemory memory_;
};

/// What a caller makes of a case whose problem, batch and args end so early.
std::vector<std::byte> bits_of_older(AttentionCase& c, size_t batch_bytes) {
  CCase newer(c);
  EXPECT_EQ(newer.code, FOLIO_OK) << newer.message.text;
  const Older problem(newer.problem.problem, first_problem);
  const Older batch(newer.batch, batch_bytes);
  const Older args(newer.args.args, first_args);
  folio_attention* made = nullptr;
  folio_message message = {};
  EXPECT_EQ(
      folio_create_attention(problem.get(), &newer.limits, FOLIO_CPU, 0, nullptr, &made, &message),
      FOLIO_OK)
      << message.text;
  const Handle attention(made);
  if (made == nullptr) return {};
  folio_plan plan = {};
  EXPECT_EQ(folio_make_plan(made, batch.get(), newer.plan_memory.data(), newer.plan_memory.bytes(),
                            &plan, &message),
            FOLIO_OK)
      << message.text;
  c.poison_output();
  EXPECT_EQ(folio_attend(made, &plan, args.get(), newer.workspace.data(), newer.workspace.bytes(),
                         nullptr, &message),
            FOLIO_OK)
      << message.text;
  return c.output_bits();
}

TEST(CAges, a_caller_of_the_first_interface_is_served_as_before) {
  AttentionCase c(full_options());
  ASSERT_TRUE(run_case(c, {}).is_ok());
  const std::vector<std::byte> expected = c.output_bits();
  for (const size_t batch : {first_batch, offsetof(folio_batch, alibi_positions),
                             offsetof(folio_batch, alibi_positions_stride)})
    EXPECT_EQ(bits_of_older(c, batch), expected) << batch;
}

TEST(CAges, what_an_older_struct_cannot_say_is_asked_for_by_name) {
  CaseOptions options;
  options.sink_logits = options.alibi = options.alibi_positions = true;
  AttentionCase c(options);
  CCase newer(c);
  ASSERT_EQ(newer.code, FOLIO_OK) << newer.message.text;
  const Older batch(newer.batch, first_batch);
  EXPECT_EQ(folio_make_plan(newer.attention.get(), batch.get(), newer.plan_memory.data(),
                            newer.plan_memory.bytes(), &newer.plan, &newer.message),
            FOLIO_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(newer.message.text, "batch.alibi_positions is null"), nullptr)
      << newer.message.text;
}

}  // namespace
}  // namespace folio::test
