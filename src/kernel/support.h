// SPDX-License-Identifier: Apache-2.0
/// src/kernel/support.h: what a problem needs of a kernel, and what a kernel supports: bits, so
/// that whatever a kernel does not name, it refuses.
///
/// Each option of a problem is a Feature, the types of its elements are sets of DTypes. Kernels
/// list theirs one by one; there is no "all". `features_of` takes a problem apart field by field:
/// it does not compile until a new field has its feature (or a reason to need none), and then every
/// kernel refuses it until it says otherwise. Shapes (head sizes) are for Kernel::refuse.
#pragma once

#include <cstdint>
#include <string_view>

#include "folio/attention/problem.h"
#include "folio/core/dtype.h"
#include "kernel/bits.h"

namespace folio::inline v1 {

enum class Feature : uint8_t {
  value_plane,     ///< V lies in a plane of its own
  value_in_key,    ///< V is the first columns of K's rows
  key_tail,        ///< further key columns with a dtype of their own
  key_scales,      ///< K has scales, one per token and head at the most
  key_granules,    ///< K's scales vary along a head
  value_scales,    ///< as of K
  value_granules,  ///< as of K
  zero_points,     ///< of K's or V's scales
  key_turned,      ///< K is rotated, or has channel scales: queries are turned likewise
  value_turned,    ///< V is: outputs are turned back
  window,          ///< mask.left
  lookahead,       ///< mask.right other than 0
  chunks,          ///< mask.chunk
  sink_tokens,     ///< mask.sink_tokens
  intervals,       ///< instead of the mask
  tree,
  selection,
  softcap,
  sink_logits,
  alibi,
  bias,
  sink_per_query,
  sink_dtype,  ///< other than f32
  bias_per_sequence,
  bias_dtype,  ///< other than f32
  alibi_positions,
  selection_per_head,
};
inline constexpr int num_features = static_cast<int>(Feature::selection_per_head) + 1;

using Features = Bits<Feature>;

/// What joins logits and denominators, in every form: kernels that take all of them name it.
inline constexpr Features every_term = {Feature::softcap,
                                        Feature::sink_logits,
                                        Feature::alibi,
                                        Feature::bias,
                                        Feature::sink_per_query,
                                        Feature::sink_dtype,
                                        Feature::bias_per_sequence,
                                        Feature::bias_dtype,
                                        Feature::alibi_positions};
using DTypes = Bits<DType>;

/// What a kernel supports.
struct Support {
  Features features = {};
  DTypes q = {};
  DTypes key = {};
  DTypes value = {};  ///< of planes of their own
  DTypes out = {};
  DTypes rounded = {};  ///< of q, K and V, too, where the problem lets them be rounded to bf16
  /// Data and strides of K's and V's planes are multiples of so many bytes, whatever their type.
  int32_t plane_alignment = 1;
};

constexpr DTypes types_of(detail::DTypeFamily family) {
  DTypes types;
  for (int i = 0; i < detail::num_dtypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (detail::row_of(dtype).family == family) types |= dtype;
  }
  return types;
}
/// Of four bits, two to a byte.
inline constexpr DTypes packed_types = types_of(detail::DTypeFamily::packed);
/// Of 32 elements beside their scale.
inline constexpr DTypes block_types = types_of(detail::DTypeFamily::block);
inline constexpr DTypes activation_types = types_of(detail::DTypeFamily::activation);

/// What a resolved problem needs.
[[nodiscard]] Features features_of(const AttentionProblem& problem) noexcept;

/// Whether q, K and V of more bits than bf16 may be rounded to it.
[[nodiscard]] bool allows_rounding(const AttentionProblem& problem) noexcept;

/// Whether the scales of a plane vary along a head.
[[nodiscard]] bool has_granules(const PagedKVView& plane) noexcept;

/// The word for a feature in messages: its name above.
[[nodiscard]] const char* name(Feature feature) noexcept;

/// Null if `support` holds what the problem needs, else why not, by the first thing that is
/// missing: "<option>: ...", a string literal.
[[nodiscard]] const char* unsupported(const Support& support,
                                      const AttentionProblem& problem) noexcept;

/// A sentence for the end of a message; split off where it would be too long.
struct Sentence {
  char text[1024] = {};
};

/// What the problem needs, what the kernel called `kernel` supports, and what is missing; empty if
/// nothing is.
[[nodiscard]] Sentence explain(std::string_view kernel, const Support& support,
                               const AttentionProblem& problem) noexcept;

}  // namespace folio::inline v1
