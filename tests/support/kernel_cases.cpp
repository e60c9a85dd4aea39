// SPDX-License-Identifier: Apache-2.0
/// tests/support/kernel_cases.cpp: the changes that make a case acceptable, least first, and the
/// count of what ran.
#include "support/kernel_cases.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "attention/check.h"
#include "attention/kernel_list.h"
#include "support/test_device.h"

namespace folio::test {
namespace {

/// What became of the cases that one kernel was offered.
struct Tally {
  int64_t as_given = 0;
  int64_t adapted = 0;
  int64_t refused = 0;
  const char* reason = "";  // of the last refusal
};

std::map<std::string, Tally>& tallies() {
  static std::map<std::string, Tally> all;
  return all;
}

/// The lines at the end of the program.
class Summary : public ::testing::Environment {
  void TearDown() override {
    const bool is_whole_program = GTEST_FLAG_GET(filter) == "*";
    for (const auto& [kernel, tally] : tallies()) {
      std::printf("[ KERNELS  ] %s: %lld cases as given, %lld adapted, %lld refused%s%s\n",
                  kernel.c_str(), static_cast<long long>(tally.as_given),
                  static_cast<long long>(tally.adapted), static_cast<long long>(tally.refused),
                  tally.refused != 0 ? ", the last for " : "", tally.reason);
      if (is_whole_program && tally.as_given + tally.adapted == 0)
        ADD_FAILURE() << kernel << " accepted no case of this program";
    }
  }
};

[[maybe_unused]] const ::testing::Environment* const summary =
    ::testing::AddGlobalTestEnvironment(new Summary);

bool is_eight_bit(DType dtype) { return bit_width(dtype) == 8; }

void set_types(CaseOptions& o, DType q, DType kv, const ScaleOptions& scales) {
  o.key_turn = o.value_turn = {};
  o.q_dtype = q;
  o.key_dtype = o.value_dtype = kv;
  o.key_scales = o.value_scales = scales;
}

constexpr ScaleOptions per_token_and_head = {ScaleKind::token_and_head, DType::f32, 16, false};

using Change = void (*)(CaseOptions& o);

constexpr Change type_changes[] = {
    [](CaseOptions&) {},
    [](CaseOptions& o) { o.q_dtype = DType::bf16; },
    [](CaseOptions& o) { set_types(o, DType::bf16, o.key_dtype, o.key_scales); },
    [](CaseOptions& o) { set_types(o, DType::bf16, o.value_dtype, o.value_scales); },
    [](CaseOptions& o) {
      const DType stored = is_eight_bit(o.key_dtype) ? o.key_dtype : o.value_dtype;
      if (is_eight_bit(stored)) set_types(o, DType::bf16, stored, per_token_and_head);
    },
    [](CaseOptions& o) { set_types(o, DType::bf16, DType::bf16, {}); },
    [](CaseOptions& o) { set_types(o, DType::f16, DType::f16, {}); },
    [](CaseOptions& o) { set_types(o, DType::f32, DType::f32, {}); },
    [](CaseOptions& o) { set_types(o, DType::bf16, DType::i8, per_token_and_head); },
    [](CaseOptions& o) {
      set_types(o, DType::bf16, DType::i8, per_token_and_head);
      o.int8_operands = true;
    },
    [](CaseOptions& o) {
      set_types(o, DType::bf16, DType::i4, per_token_and_head);
      o.int8_operands = true;
    },
    [](CaseOptions& o) { set_types(o, DType::bf16, DType::f8_e4m3, per_token_and_head); },
    [](CaseOptions& o) { set_types(o, DType::bf16, DType::f8_e5m2, per_token_and_head); },
};

constexpr Change out_changes[] = {[](CaseOptions&) {},
                                  [](CaseOptions& o) { o.out_dtype = DType::bf16; }};

/// Rows of K and V that begin at multiples of 16 bytes, where the head size allows; those of q and
/// out stay where they were.
constexpr Change stride_changes[] = {
    [](CaseOptions&) {},
    [](CaseOptions& o) {
      o.gap_bytes = (o.gap_bytes + 15) / 16 * 16;
      for (ScaleOptions* scales : {&o.key_scales, &o.value_scales}) {
        if (scales->kind == ScaleKind::behind_row) *scales = per_token_and_head;
      }
    },
};

int32_t round_up(int32_t n, int32_t multiple) { return (n + multiple - 1) / multiple * multiple; }

constexpr Change shape_changes[] = {
    [](CaseOptions&) {},
    [](CaseOptions& o) {
      o.head_size = round_up(o.head_size, 32);
      o.v_head_size = round_up(o.v_head_size, 32);
    },
    [](CaseOptions& o) {
      o.head_size = o.v_head_size = std::min(128, round_up(o.head_size, 32));
      o.value_in_key = false;
    },
    [](CaseOptions& o) {  // of 64 and 128 columns alone
      o.head_size = o.v_head_size = o.head_size <= 64 ? 64 : 128;
      o.value_in_key = false;
    },
    [](CaseOptions& o) {  // the latent rows of DeepSeek-V3; their scales are the key's
      o.head_size = 576;
      o.v_head_size = 512;
      o.q_heads /= o.kv_heads;
      o.kv_heads = 1;
      o.value_in_key = true;
    },
};

/// Packed types have scales, and zero points are those of u4.
void hold_scales(DType dtype, ScaleOptions& scales) {
  if (folio::detail::is_packed(dtype) && scales.kind == ScaleKind::none)
    scales = per_token_and_head;
  if (dtype != DType::u4 && dtype != DType::u4_halves) scales.zeros = Zeros::none;
}

/// A type of blocks, or a rotation, may have come to a plane of another size.
void hold_whole_blocks(CaseOptions& o) {
  hold_scales(o.key_dtype, o.key_scales);
  if (!o.value_in_key) hold_scales(o.value_dtype, o.value_scales);
  if (block_elements(o.key_dtype) > 1) o.head_size = round_up(o.head_size, 32);
  if (block_elements(o.value_in_key ? o.key_dtype : o.value_dtype) > 1)
    o.v_head_size = round_up(o.v_head_size, 32);
  const auto turns = [](const TurnOptions& turn, int32_t head_size) {
    return turn.hadamard.block == 0 || head_size % turn.hadamard.block == 0;
  };
  if (!turns(o.key_turn, o.head_size) || (o.value_in_key && !turns(o.key_turn, o.v_head_size)))
    o.key_turn = {};
  if (o.value_in_key || !turns(o.value_turn, o.v_head_size)) o.value_turn = {};
}

/// Every combination of changes, those of types varying fastest.
std::vector<CaseOptions> adaptations(const CaseOptions& given, Adapt adapt) {
  std::vector<CaseOptions> all;
  const size_t shapes = adapt == Adapt::shapes ? std::size(shape_changes) : 1;
  const size_t strides = adapt == Adapt::nothing ? 1 : std::size(stride_changes);
  const size_t types = adapt == Adapt::nothing ? 1 : std::size(type_changes);
  const size_t outs = adapt == Adapt::nothing ? 1 : std::size(out_changes);
  for (size_t shape = 0; shape < shapes; ++shape)
    for (size_t stride = 0; stride < strides; ++stride)
      for (size_t out = 0; out < outs; ++out)
        for (size_t type = 0; type < types; ++type) {
          CaseOptions options = given;
          shape_changes[shape](options);
          type_changes[type](options);
          out_changes[out](options);
          stride_changes[stride](options);
          hold_whole_blocks(options);
          all.push_back(std::move(options));
        }
  return all;
}

/// The problem of a case without its memory: of one key.
AttentionProblem problem_of(CaseOptions options) {
  options.sequences = {{1, 1}};
  return AttentionCase(std::move(options)).problem();
}

const char* refusal_of(const Kernel& kernel, const AttentionProblem& problem) {
  return refusal(kernel, resolve(problem).value(), test_capabilities());
}

/// A plane's memory ends with the case's last byte, and so begins anywhere.
bool is_aligned(const Kernel& kernel, const AttentionArgs& args) {
  const auto alignment = static_cast<uintptr_t>(kernel.supports.plane_alignment);
  return reinterpret_cast<uintptr_t>(args.key.data) % alignment == 0 &&
         reinterpret_cast<uintptr_t>(args.value.data) % alignment == 0;
}

/// The cases of one call, by what describes them.
class Cases {
 public:
  Cases(CaseOptions options, const CaseRules& rules) : rules_(rules) {
    if (options.v_head_size == 0) options.v_head_size = options.head_size;
    if (options.row_gap_bytes < 0) options.row_gap_bytes = options.gap_bytes;
    // attend_async takes rows of q and out that begin at multiples of 16 bytes
    if (test_device().kind == Device::Kind::cuda)
      options.row_gap_bytes = round_up(options.row_gap_bytes, 16);
    options_ = adaptations(options, rules.adapt);
    problems_.resize(options_.size());
  }

  /// The first case that the kernel accepts, or null. `reason`: why it refuses the case as given.
  AttentionCase* find(const Kernel& kernel, const char*& reason) {
    for (size_t i = 0; i < options_.size(); ++i) {
      if (i != 0 && refusal_of(kernel, problem(i)) != nullptr) continue;
      AttentionCase& c = at(i);
      // strides of unbounded pages depend on their number
      const char* refused = refusal_of(kernel, c.problem());
      if (refused == nullptr && !is_aligned(kernel, c.args()))
        refused = "the case's planes begin where the kernel takes none";
      if (refused == nullptr) return &c;
      if (i == 0) reason = refused;
    }
    return nullptr;
  }
  AttentionCase& as_given() { return at(0); }

  /// Hands over a case that `find` returned.
  std::unique_ptr<AttentionCase> release(const AttentionCase* c) {
    for (auto& [text, owned] : built_) {
      if (owned.get() == c) return std::move(owned);
    }
    return nullptr;
  }

 private:
  const AttentionProblem& problem(size_t i) {
    if (!problems_[i]) problems_[i] = problem_of(options_[i]);
    return *problems_[i];
  }

  AttentionCase& at(size_t i) {
    std::unique_ptr<AttentionCase>& c = built_[describe(options_[i])];
    if (c == nullptr) {
      c = std::make_unique<AttentionCase>(options_[i]);
      if (rules_.arrange) rules_.arrange(*c);
    }
    return *c;
  }

  const CaseRules& rules_;
  std::vector<CaseOptions> options_;
  std::vector<std::optional<AttentionProblem>> problems_;
  std::map<std::string, std::unique_ptr<AttentionCase>> built_;
};

/// What refuse() says, create says too.
void expect_refused(const AttentionCase& c, const std::string& kernel, const char* reason) {
  const Result<Attention> attention =
      Attention::create(c.problem(), c.limits(), test_device(), kernel);
  ASSERT_FALSE(attention.has_value()) << kernel << " refuses: " << reason;
  EXPECT_EQ(attention.error().code(), Errc::unsupported);
  EXPECT_NE(attention.error().message().find(reason), std::string_view::npos)
      << attention.error().message();
}

}  // namespace

void for_each_kernel_case(const CaseOptions& options, const CaseRules& rules,
                          const CaseBody& body) {
  Cases cases(options, rules);
  for (const std::string& name : kernel_names()) {
    const Kernel& kernel = kernel_of(name);
    const char* reason = nullptr;
    AttentionCase* const c = cases.find(kernel, reason);
    Tally& tally = tallies()[name];
    ++(c == nullptr ? tally.refused : reason == nullptr ? tally.as_given : tally.adapted);
    if (reason != nullptr) expect_refused(cases.as_given(), name, reason);
    if (c == nullptr) tally.reason = reason;
    if (c == nullptr) continue;
    SCOPED_TRACE(name + " on " + describe(c->options()));
    c->set_precision(precision_of(kernel, c->problem()));
    body(*c, name);
  }
}

void for_each_kernel_case(const CaseOptions& options, const CaseBody& body) {
  for_each_kernel_case(options, {}, body);
}

void expect_every_kernel_right(const CaseOptions& options, const CaseRules& rules) {
  for_each_kernel_case(options, rules, [](AttentionCase& c, const std::string& kernel) {
    ASSERT_TRUE(kernel_is_right(c, kernel));
  });
}

std::unique_ptr<AttentionCase> accepted_case(const Kernel& kernel, const CaseOptions& options,
                                             const CaseRules& rules) {
  Cases cases(options, rules);
  const char* reason = nullptr;
  return cases.release(cases.find(kernel, reason));
}

void for_each_kernel(const std::function<void(const std::string& kernel)>& body) {
  for (const std::string& name : kernel_names()) {
    SCOPED_TRACE(name);
    body(name);
  }
}

}  // namespace folio::test
