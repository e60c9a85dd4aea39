// SPDX-License-Identifier: Apache-2.0
/// tests/support/describe_case.cpp: the words for a case in failure messages.
#include <sstream>

#include "support/attention_case.h"

namespace folio::test {
namespace {

std::string listed(const std::vector<int32_t>& positions) {
  std::ostringstream text;
  for (const int32_t position : positions) text << " " << position;
  return text.str();
}

std::string described(const ScaleOptions& scales, const TurnOptions& turn) {
  std::ostringstream text;
  text << " scales " << static_cast<int>(scales.kind) << " " << name(scales.dtype) << "/"
       << scales.granularity << (scales.tensor_scale ? "*t" : "");
  if (scales.zeros != Zeros::none) text << " zeros " << static_cast<int>(scales.zeros);
  if (turn.hadamard.block != 0)
    text << " hadamard " << turn.hadamard.block << "/" << turn.hadamard.sign_seed;
  if (turn.channel_scales) text << " channels";
  return text.str();
}

}  // namespace

std::string describe(const CaseOptions& o) {
  std::ostringstream text;
  text << "seed " << o.seed << ", heads " << o.q_heads << "/" << o.kv_heads << ", head_size "
       << o.head_size << "/" << o.v_head_size << ", page_size " << o.page_size << ", q "
       << name(o.q_dtype) << ", out " << name(o.out_dtype) << ", K " << name(o.key_dtype)
       << described(o.key_scales, o.key_turn) << ", V " << name(o.value_dtype)
       << described(o.value_scales, o.value_turn) << ", order " << static_cast<int>(o.key_order)
       << static_cast<int>(o.value_order) << ", gap " << o.gap_bytes << "/" << o.row_gap_bytes
       << (o.value_in_key ? ", value_in_key" : "") << ", pair " << static_cast<int>(o.pair)
       << ", mask {" << o.mask.left << "," << o.mask.right << "," << o.mask.chunk << ","
       << o.mask.sink_tokens << "}, scale " << o.scale << ", softcap " << o.softcap
       << (o.sink_logits ? ", sink" : "") << (o.alibi ? ", alibi" : "")
       << (o.sink_per_query ? " per query " : " ") << name(o.sink_dtype)
       << (o.alibi_positions ? ", alibi_positions" : "") << ", selected " << o.selected
       << (o.selected_per_head ? " per head" : "") << ", bias " << static_cast<int>(o.bias)
       << (o.bias_per_sequence ? " per sequence " : " ") << name(o.bias_dtype) << "/"
       << static_cast<int>(o.bias_layout) << (o.intervals ? ", intervals" : "")
       << (o.tree != TreeForm::none ? ", tree " : "")
       << (o.tree != TreeForm::none ? std::to_string(static_cast<int>(o.tree)) : "")
       << (o.query_positions ? ", query_positions" : "")
       << (o.key_positions ? ", key_positions" : "") << listed(o.first_query_positions)
       << listed(o.first_key_positions) << ", table " << static_cast<int>(o.table)
       << (o.sharing == Sharing::forks ? ", forks" : "") << ", unassigned " << o.unassigned
       << ", reproducible " << static_cast<int>(o.reproducible)
       << (o.bf16_operands ? ", bf16_operands" : "") << (o.int8_operands ? ", int8_operands" : "")
       << ", outliers " << o.outliers << ", parallelism " << o.parallelism << ", sequences";
  for (const SequenceShape& s : o.sequences) text << " " << s.new_tokens << "/" << s.context;
  return text.str();
}

}  // namespace folio::test
