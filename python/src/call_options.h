// SPDX-License-Identifier: Apache-2.0
/// python/src/call_options.h: what comes with a call and selects a kernel, and its arguments in
/// Python.
#pragma once

#include <nanobind/nanobind.h>

#include "array.h"
#include "folio/core/dtype.h"

namespace folio::python {

/// What comes with a call and selects a kernel: fields of AttentionProblem.
struct CallOptions {
  DType q_dtype = DType::bf16;
  DType out_dtype = DType::bf16;
  bool sink_logits = false;
  bool alibi = false;
  bool bias = false;
  bool intervals = false;
  bool tree = false;
  bool selection = false;
  bool selection_per_head = false;
  bool sink_per_query = false;
  DType sink_dtype = DType::f32;
  bool bias_per_sequence = false;
  DType bias_dtype = DType::f32;
  bool alibi_positions = false;
  bool operator==(const CallOptions&) const = default;
};

/// Defines, by `def`, a Python function that takes `others` and by keyword what CallOptions says.
/// arguments: the names of `others`, the last of which are keywords, too, and the text.
template <class Def, class Result, class... Others, class... Arguments>
void def_with_call_options(const Def& def, Result (*function)(const CallOptions&, Others...),
                           const Arguments&... arguments) {
  def(
      [function](Others... others, nb::handle q_dtype, nb::handle out_dtype, bool sinks, bool alibi,
                 bool bias, bool intervals, bool tree, bool selected, bool sinks_per_query,
                 nb::handle sinks_dtype, bool bias_per_sequence, nb::handle bias_dtype,
                 bool alibi_positions, bool selected_per_head) {
        const DType of_q = q_dtype.is_none() ? DType::bf16 : dtype_of(q_dtype, "q_dtype");
        const CallOptions call{
            .q_dtype = of_q,
            .out_dtype = out_dtype.is_none() ? of_q : dtype_of(out_dtype, "out_dtype"),
            .sink_logits = sinks,
            .alibi = alibi,
            .bias = bias,
            .intervals = intervals,
            .tree = tree,
            .selection = selected || selected_per_head,
            .selection_per_head = selected_per_head,
            .sink_per_query = sinks_per_query,
            .sink_dtype = dtype_of(sinks_dtype, "sinks_dtype"),
            .bias_per_sequence = bias_per_sequence,
            .bias_dtype = dtype_of(bias_dtype, "bias_dtype"),
            .alibi_positions = alibi_positions};
        return function(call, others...);
      },
      arguments..., nb::arg("q_dtype").none() = "bf16", nb::arg("out_dtype").none() = nb::none(),
      nb::arg("sinks") = false, nb::arg("alibi") = false, nb::arg("bias") = false,
      nb::arg("intervals") = false, nb::arg("tree") = false, nb::arg("selected") = false,
      nb::arg("sinks_per_query") = false, nb::arg("sinks_dtype") = "f32",
      nb::arg("bias_per_sequence") = false, nb::arg("bias_dtype") = "f32",
      nb::arg("alibi_positions") = false, nb::arg("selected_per_head") = false);
}

}  // namespace folio::python
