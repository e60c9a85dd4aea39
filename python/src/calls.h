// SPDX-License-Identifier: Apache-2.0
/// python/src/calls.h: the arrays of one call, read and checked, as folio's functions take them.
#pragma once

#include <vector>

#include "array.h"
#include "batch.h"
#include "folio/attention/append.h"
#include "folio/attention/attend.h"
#include "folio/attention/rotate.h"
#include "kind.h"
#include "scratch.h"

namespace folio::python {

/// Rotary embedding by table; what Python's `Rope` holds.
struct RopeTable {
  Rope rope = {};
  Array cos_sin = {};
  std::vector<int32_t> positions = {};
  /// Throws Error where positions are fewer than the tokens.
  void expect_tokens(int64_t tokens) const;
};

/// The optional arrays of an attention call; None where not given.
struct AttendArrays {
  nb::handle q, bias, sinks, alibi, out, lse;
};

/// An attention call: reads its arrays, makes those that are to be returned.
class AttendCall {
 public:
  /// tokens: rows of q that take part; rows beyond are padding, their output is left as it is, or
  /// zero where the output is made here.
  AttendCall(const AttendArrays& arrays, const Kind& kind, const Pages& pages,
             const BatchHolder& batch);

  [[nodiscard]] const CallOptions& options() const { return options_; }
  [[nodiscard]] const AttentionArgs& args() const { return args_; }
  /// Throws Error where sinks or bias have not the form that `problem` was made for: of what their
  /// pointers mean, folio's own checks see nothing.
  void expect_forms(const AttentionProblem& problem) const;
  /// q from elsewhere (rotated).
  void set_q(const ConstTensor<3>& q) { args_.q = q; }
  /// out, or (out, lse) where lse was to be made.
  [[nodiscard]] nb::object result() const;

 private:
  void take_out(const AttendArrays& arrays, int32_t v_head_size, int64_t tokens);
  void take_lse(const AttendArrays& arrays, int64_t tokens);
  void take_sinks(nb::handle sinks, int64_t tokens);
  void take_bias(nb::handle bias, const BatchHolder& batch);

  AttentionArgs args_ = {};
  CallOptions options_ = {};
  int32_t q_heads_ = 0;
  Array q_, out_, bias_, sinks_, alibi_, lse_;
  nb::object out_result_, lse_result_;
};

/// The optional arrays of a norm: of a LayerNorm both.
struct NormArrays {
  nb::handle weights = nb::none(), shifts = nb::none();
  float eps = 1e-6f;
};

/// The optional arrays of an append.
struct AppendArrays {
  nb::handle k, v, slots;
  const RopeTable* rope = nullptr;
  NormArrays k_norm = {};
  const Pages* summaries = nullptr;  ///< of the pages; null: there are none
};

/// Reads the arrays and appends, with the GIL released. `batch` may be null where slots are given.
void append_rows(const BatchHolder* batch, const Pages& pages, const AppendArrays& arrays);

/// What is done to q beside the rope.
struct RotateOptions {
  NormArrays q_norm = {};
  const Pages* pages = nullptr;  ///< for whose keys q is turned
};

/// Rotates `q` into `out`. `batch` may be null where the rope has positions or is not given.
void rotate_rows(const BatchHolder* batch, const Array& q, const RopeTable* rope,
                 const RotateOptions& options, const AnyTensor<3>& out);

/// Python's `rotate`: reads q, makes `out` where it is None, and returns it.
nb::object rotate_q(const BatchHolder* batch, nb::handle q, const RopeTable* rope,
                    const RotateOptions& options, nb::handle out);

}  // namespace folio::python
