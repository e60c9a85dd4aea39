// SPDX-License-Identifier: Apache-2.0
/// tests/support/attention_case.cpp: the batch of a case, its tables and its per-query arrays;
/// planes are in case_planes.cpp.
#include "support/attention_case.h"

#include <algorithm>

#include "reference/elements.h"
#include "reference/visibility.h"
#include "support/forked_pages.h"

namespace folio::test {
namespace {

template <class T>
GuardedMemory copied(const std::vector<T>& values) {
  GuardedMemory memory(static_cast<int64_t>(values.size() * sizeof(T)), alignof(T));
  if (!values.empty()) std::memcpy(memory.data(), values.data(), values.size() * sizeof(T));
  return memory;
}

/// [rows, heads, size] with gaps, ending at the memory's end.
AnyTensor<3> spaced_tensor(GuardedMemory& memory, DType dtype, int64_t rows, int64_t heads,
                           int64_t size, int64_t gap_bytes) {
  const int64_t element = bit_width(dtype) / 8;
  AnyTensor<3> tensor;
  tensor.dtype = dtype;
  tensor.extent[0] = rows;
  tensor.extent[1] = heads;
  tensor.extent[2] = size;
  tensor.stride_bytes[2] = element;
  tensor.stride_bytes[1] = size * element + gap_bytes;
  tensor.stride_bytes[0] = heads * tensor.stride_bytes[1] + gap_bytes;
  const int64_t bytes = rows == 0 || heads == 0
                            ? 0
                            : (rows - 1) * tensor.stride_bytes[0] +
                                  (heads - 1) * tensor.stride_bytes[1] + size * element;
  memory = GuardedMemory(bytes, element);
  tensor.data = memory.data();
  return tensor;
}

std::byte* element_at(const AnyTensor<3>& tensor, int64_t i, int64_t j, int64_t k) {
  return static_cast<std::byte*>(tensor.data) + i * tensor.stride_bytes[0] +
         j * tensor.stride_bytes[1] + k * tensor.stride_bytes[2];
}

constexpr int poison = 0xff;  // NaN in every type of an output

}  // namespace

AttentionCase::AttentionCase(CaseOptions options)
    : options_(std::move(options)), rng_(options_.seed) {
  if (options_.v_head_size == 0) options_.v_head_size = options_.head_size;
  if (options_.row_gap_bytes < 0) options_.row_gap_bytes = options_.gap_bytes;
  make_lengths();
  make_tree();
  make_problem();
  if (problem_.selection) options_.unassigned = 0.0;  // nobody reads the table
  make_pages();
  if (problem_.selection) {
    make_selection();
  } else {
    mark_alive();
  }
  make_table();
  make_planes();
  make_queries();
  fill_planes();
  make_terms();
}

AttentionLimits AttentionCase::limits() const {
  AttentionLimits limits;
  limits.batch = std::max(1, batch_.size);
  limits.tokens = std::max(1, static_cast<int32_t>(tokens()));
  for (int32_t b = 0; b < batch_.size; ++b)
    limits.context = std::max(limits.context, batch_.context_lengths[b]);
  limits.context = std::max(limits.context, options_.selected);
  limits.parallelism = options_.parallelism;
  return limits;
}

int32_t AttentionCase::sequence_of(int64_t row) const {
  int32_t sequence = 0;
  while (row >= batch_.query_offsets[sequence + 1]) ++sequence;
  return sequence;
}

void AttentionCase::make_lengths() {
  std::vector<int32_t> offsets = {0}, contexts, first_query, first_key;
  for (const SequenceShape& s : options_.sequences) {
    offsets.push_back(offsets.back() + s.new_tokens);
    contexts.push_back(s.context);
    first_key.push_back(rng_.int_between(0, 40));
    const int32_t usual =
        (options_.key_positions ? first_key.back() : 0) + s.context - s.new_tokens;
    first_query.push_back(std::max(0, usual + rng_.int_between(-7, 7)));
  }
  if (!options_.first_key_positions.empty()) first_key = options_.first_key_positions;
  if (!options_.first_query_positions.empty()) first_query = options_.first_query_positions;
  options_.key_positions |= !options_.first_key_positions.empty();
  options_.query_positions |= !options_.first_query_positions.empty();
  query_offsets_ = copied(offsets);
  context_lengths_ = copied(contexts);
  batch_.size = static_cast<int32_t>(contexts.size());
  batch_.query_offsets = query_offsets_.as<int32_t>();
  batch_.context_lengths = context_lengths_.as<int32_t>();
  if (options_.query_positions)
    batch_.query_positions = (query_positions_ = copied(first_query)).as<int32_t>();
  if (options_.key_positions)
    batch_.key_positions = (key_positions_ = copied(first_key)).as<int32_t>();
  if (!options_.intervals) return;

  std::vector<int32_t> begin, end;  // anything from empty to all, also beyond both ends
  for (int32_t b = 0; b < batch_.size; ++b) {
    const int32_t base = options_.key_positions ? first_key[static_cast<size_t>(b)] : 0;
    for (int32_t t = offsets[static_cast<size_t>(b)]; t < offsets[static_cast<size_t>(b) + 1];
         ++t) {
      begin.push_back(base + rng_.int_between(-3, contexts[static_cast<size_t>(b)]));
      end.push_back(begin.back() + rng_.int_between(-2, contexts[static_cast<size_t>(b)] / 2 + 4));
    }
  }
  batch_.visible_begin = (visible_begin_ = copied(begin)).as<int32_t>();
  batch_.visible_end = (visible_end_ = copied(end)).as<int32_t>();
}

/// Bits of tokens that the sequence does not have are set at random: they mean nothing.
void AttentionCase::make_tree() {
  if (options_.tree == TreeForm::none) return;
  int32_t longest = 1;
  for (const SequenceShape& s : options_.sequences) longest = std::max(longest, s.new_tokens);
  batch_.tree_words = (longest + 63) / 64 + rng_.int_between(0, 1);
  const auto words = static_cast<size_t>(batch_.tree_words);
  std::vector<uint64_t> bits;
  for (const SequenceShape& s : options_.sequences) {
    const size_t first = bits.size();
    std::vector<bool> pruned;
    for (int32_t t = 0; t < s.new_tokens; ++t) {
      const int32_t parent =
          options_.tree == TreeForm::chain ? t - 1 : rng_.int_between(std::max(-1, t - 9), t - 1);
      pruned.push_back(options_.tree == TreeForm::random && rng_.chance(0.15));
      for (size_t w = 0; w < words; ++w) {
        uint64_t word = rng_.next();
        for (int32_t j = static_cast<int32_t>(w) * 64;
             j < std::min(s.new_tokens, static_cast<int32_t>(w + 1) * 64); ++j) {
          const uint64_t bit = uint64_t{1} << (j % 64);
          const bool is_own = j == t && !pruned.back();
          const bool is_ancestor =
              parent >= 0 && (bits[first + static_cast<size_t>(parent) * words + w] & bit) != 0;
          if (options_.tree != TreeForm::bits)
            word = is_own || is_ancestor ? word | bit : word & ~bit;
        }
        bits.push_back(word);
      }
    }
  }
  batch_.tree = (tree_ = copied(bits)).as<uint64_t>();
}

void AttentionCase::make_problem() {
  problem_.q_heads = options_.q_heads;
  problem_.v_head_size = options_.v_head_size;
  problem_.q_dtype = options_.q_dtype;
  problem_.out_dtype = options_.out_dtype;
  problem_.value_in_key = options_.value_in_key;
  problem_.mask = options_.mask;
  problem_.scale = options_.scale;
  problem_.softcap = options_.softcap;
  problem_.sink_logits = options_.sink_logits;
  problem_.alibi = options_.alibi;
  problem_.bias = options_.bias != BiasForm::none;
  problem_.selection = options_.selected > 0;
  problem_.selection_per_head = problem_.selection && options_.selected_per_head;
  if (problem_.sink_logits) {
    problem_.sink_per_query = options_.sink_per_query;
    problem_.sink_dtype = options_.sink_dtype;
  }
  if (problem_.bias) {
    problem_.bias_per_sequence = options_.bias_per_sequence;
    problem_.bias_dtype = options_.bias_dtype;
  }
  problem_.alibi_positions = problem_.alibi && options_.alibi_positions;
  problem_.intervals = options_.intervals;
  problem_.tree = options_.tree != TreeForm::none;
  problem_.reproducible = options_.reproducible;
  problem_.bf16_operands = options_.bf16_operands;
  problem_.int8_operands = options_.int8_operands;
}

/// Distinct ids in random order; some sequences begin with the pages of an earlier one.
void AttentionCase::make_pages() {
  if (options_.sharing == Sharing::forks) {
    ForkedPages forked = fork_pages(options_, options_.unassigned, rng_);
    pages_ = std::move(forked.pages);
    num_pages_ = forked.num_pages;
    return;
  }
  const bool unbounded = options_.page_size == unbounded_page_size;
  int64_t needed = 0;
  for (const SequenceShape& s : options_.sequences)
    needed +=
        unbounded ? s.context : (int64_t{s.context} + options_.page_size - 1) / options_.page_size;
  num_pages_ = needed + 3;
  if (unbounded) {  // runs of rows, in random order, with unused rows between them
    std::vector<size_t> order(options_.sequences.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    rng_.shuffle(order);
    pages_.resize(order.size());
    int64_t row = 1;
    for (const size_t b : order) {
      pages_[b] = {row};
      row += options_.sequences[b].context + rng_.between(0, 2);
    }
    num_pages_ = row + 1;
    return;
  }
  std::vector<int64_t> ids;
  for (int64_t id = 0; id < num_pages_; ++id) ids.push_back(id);
  rng_.shuffle(ids);
  for (size_t b = 0; b < options_.sequences.size(); ++b) {
    const auto count = static_cast<size_t>(
        (int64_t{options_.sequences[b].context} + options_.page_size - 1) / options_.page_size);
    std::vector<int64_t> pages;
    if (b > 0 && rng_.chance(options_.shared)) {
      const std::vector<int64_t>& other =
          pages_[static_cast<size_t>(rng_.between(0, static_cast<int64_t>(b) - 1))];
      const size_t share = std::min(count, other.size());
      pages.assign(other.begin(), other.begin() + static_cast<std::ptrdiff_t>(share));
    }
    while (pages.size() < count) {
      pages.push_back(ids.back());
      ids.pop_back();
    }
    pages_.push_back(std::move(pages));
  }
}

void AttentionCase::mark_alive() {
  for (int32_t b = 0; b < batch_.size; ++b) {
    std::vector<bool> alive(static_cast<size_t>(batch_.context_lengths[b]), false);
    for (int64_t row = batch_.query_offsets[b]; row < batch_.query_offsets[b + 1]; ++row) {
      for (size_t key = 0; key < alive.size(); ++key) {
        if (!alive[key])
          alive[key] = reference::is_visible(problem_, batch_, b, row, static_cast<int64_t>(key));
      }
    }
    alive_.push_back(std::move(alive));
  }
}

/// Lists of keys instead of a mask. Those that no list of the sequence has are dead.
void AttentionCase::make_selection() {
  const int64_t slots = options_.page_size;
  const bool unbounded = slots == unbounded_page_size;
  std::vector<int32_t> entries;
  for (size_t b = 0; b < options_.sequences.size(); ++b) {
    const SequenceShape& shape = options_.sequences[b];
    std::vector<bool> alive(static_cast<size_t>(shape.context), false);
    int32_t key = -1;
    const int32_t lists = shape.new_tokens * (options_.selected_per_head ? options_.kv_heads : 1);
    for (int32_t i = 0; i < lists * options_.selected; ++i) {
      if (shape.context == 0 || rng_.chance(0.1)) {
        entries.push_back(-1);
        continue;
      }
      const bool follows = key + 1 < shape.context && rng_.chance(0.4);
      key = follows ? key + 1 : rng_.int_between(0, shape.context - 1);
      alive[static_cast<size_t>(key)] = true;
      const int64_t row = unbounded
                              ? pages_[b][0] + key
                              : pages_[b][static_cast<size_t>(key / slots)] * slots + key % slots;
      entries.push_back(static_cast<int32_t>(row));
    }
    alive_.push_back(std::move(alive));
  }
  batch_.selected = (selected_ = copied(entries)).as<int32_t>();
  batch_.selected_stride = options_.selected;
}

void AttentionCase::make_table() {
  const int64_t page_size = options_.page_size;
  std::vector<std::vector<uint32_t>> rows;
  size_t longest = 0;
  for (size_t b = 0; b < pages_.size(); ++b) {
    std::vector<uint32_t> row;
    for (size_t p = 0; p < pages_[b].size(); ++p) {
      const auto from =
          std::min(static_cast<size_t>(static_cast<int64_t>(p) * page_size), alive_[b].size());
      const auto to = std::min(static_cast<size_t>((static_cast<int64_t>(p) + 1) * page_size),
                               alive_[b].size());
      const bool is_dead = std::none_of(alive_[b].begin() + static_cast<std::ptrdiff_t>(from),
                                        alive_[b].begin() + static_cast<std::ptrdiff_t>(to),
                                        [](bool alive) { return alive; });
      int64_t page = pages_[b][p];
      // of forks it is drawn where pages are, for all that share it
      const bool is_drawn = options_.sharing == Sharing::forks && page_size != unbounded_page_size;
      if (!is_dead && !is_drawn && rng_.chance(options_.unassigned)) page = -rng_.between(1, 3);
      auto entry = static_cast<uint32_t>(page);
      if (is_dead) {  // stale: never read
        entry = static_cast<uint32_t>(rng_.next());
      } else if (page < 0) {
        entry = no_page_entry(page, num_pages_);
        std::fill(alive_[b].begin() + static_cast<std::ptrdiff_t>(from),
                  alive_[b].begin() + static_cast<std::ptrdiff_t>(to), false);
      }
      row.push_back(entry);
    }
    longest = std::max(longest, row.size());
    rows.push_back(std::move(row));
  }

  std::vector<uint32_t> entries;
  std::vector<int64_t> starts;
  for (size_t b = 0; b < rows.size(); ++b) {
    if (options_.table == TableForm::rows_in_larger)
      entries.insert(entries.end(), static_cast<size_t>(rng_.between(0, 5)), 0xdeadbeefu);
    if (options_.table == TableForm::dense && b > 0) entries.resize(b * longest, 0xdeadbeefu);
    starts.push_back(static_cast<int64_t>(entries.size()));
    entries.insert(entries.end(), rows[b].begin(), rows[b].end());
  }
  if (options_.sharing == Sharing::forks && options_.table != TableForm::dense)
    alias_rows(rows, starts, rng_);
  table_ = copied(entries);
  batch_.table.entries = table_.as<uint32_t>();
  batch_.table.row_stride = options_.table == TableForm::dense ? static_cast<int64_t>(longest) : 0;
  if (options_.table != TableForm::dense)
    batch_.table.row_starts = (row_starts_ = copied(starts)).as<int64_t>();
}

void AttentionCase::make_queries() {
  const AnyTensor<3> q = spaced_tensor(q_, options_.q_dtype, tokens(), options_.q_heads,
                                       options_.head_size, options_.row_gap_bytes);
  for (int64_t row = 0; row < tokens(); ++row) {
    for (int32_t head = 0; head < options_.q_heads; ++head) {
      for (int64_t d = 0; d < options_.head_size; ++d) {
        const float x = rng_.uniform(-options_.q_amplitude, options_.q_amplitude);
        reference::store(element_at(q, row, head, d), options_.q_dtype, static_cast<double>(x));
      }
    }
  }
  args_.q = q;
  args_.out = spaced_tensor(out_, options_.out_dtype, tokens(), options_.q_heads,
                            options_.v_head_size, options_.row_gap_bytes);
  lse_ = GuardedMemory(tokens() * options_.q_heads * 4, 4);
  if (options_.lse) args_.lse = lse_.as<float>();
}

void AttentionCase::make_terms() {
  std::vector<float> sinks, slopes;
  for (int32_t head = 0; head < options_.q_heads; ++head) {
    sinks.push_back(rng_.uniform(-3.0f, 5.0f));
    slopes.push_back(rng_.uniform(0.001f, 0.2f));
  }
  if (options_.sink_logits) make_sinks(std::move(sinks));
  if (options_.alibi) args_.alibi_slopes = (alibi_slopes_ = copied(slopes)).as<float>();
  if (problem_.alibi_positions) make_alibi_positions();
  if (problem_.bias) make_bias();
}

void AttentionCase::make_sinks(std::vector<float> of_heads) {
  int64_t stride = options_.q_heads;
  if (problem_.sink_per_query) {
    args_.sink_stride = stride += 3;
    const int64_t count = std::max<int64_t>(tokens() - 1, 0) * stride + options_.q_heads;
    while (static_cast<int64_t>(of_heads.size()) < count)
      of_heads.push_back(rng_.uniform(-3.0f, 5.0f));
  }
  const int64_t element = bit_width(problem_.sink_dtype) / 8;
  sink_logits_ = GuardedMemory(static_cast<int64_t>(of_heads.size()) * element, element);
  for (size_t i = 0; i < of_heads.size(); ++i)
    reference::store(sink_logits_.data() + static_cast<int64_t>(i) * element, problem_.sink_dtype,
                     static_cast<double>(of_heads[i]));
  args_.sink_logits = sink_logits_.data();
}

/// Anywhere about the positions that keys have otherwise.
void AttentionCase::make_alibi_positions() {
  const int32_t longest = limits().context;
  std::vector<int32_t> positions;
  for (int32_t i = 0; i < batch_.size * longest; ++i)
    positions.push_back(rng_.int_between(-20, 2 * longest));
  batch_.alibi_positions = (alibi_positions_ = copied(positions)).as<int32_t>();
  batch_.alibi_positions_stride = longest;
}

void AttentionCase::make_bias() {
  const int64_t heads = options_.bias == BiasForm::shared ? 1 : options_.q_heads;
  const int64_t width = limits().context;
  int64_t rows = tokens(), tensors = 1;
  if (problem_.bias_per_sequence) {
    rows = 1;
    for (const SequenceShape& s : options_.sequences) rows = std::max<int64_t>(rows, s.new_tokens);
    tensors = batch_.size;
  }
  const bool is_turned = options_.bias_layout == BiasLayout::rows_first;
  AnyTensor<3> bias =
      spaced_tensor(bias_, problem_.bias_dtype, tensors * (is_turned ? rows : heads),
                    is_turned ? heads : rows, width, options_.row_gap_bytes);
  int64_t sequence_stride = (is_turned ? rows : heads) * bias.stride_bytes[0];
  if (is_turned) std::swap(bias.stride_bytes[0], bias.stride_bytes[1]);
  if (options_.bias_layout == BiasLayout::backwards && rows > 0) {
    bias.data = element_at(bias, tensors * heads - 1, rows - 1, 0);
    sequence_stride = -sequence_stride;
    for (int64_t* const stride : {&bias.stride_bytes[0], &bias.stride_bytes[1]}) *stride = -*stride;
  }
  bias.extent[0] = heads;
  bias.extent[1] = rows;
  args_.bias = bias;
  if (problem_.bias_per_sequence) args_.bias_sequence_stride_bytes = sequence_stride;
  for (int64_t row = 0; row < tokens(); ++row) {
    const int32_t sequence = sequence_of(row);
    const int64_t start = problem_.bias_per_sequence ? sequence * sequence_stride : 0;
    const int64_t own = problem_.bias_per_sequence ? row - batch_.query_offsets[sequence] : row;
    for (int64_t key = 0; key < batch_.context_lengths[sequence]; ++key) {
      if (!reference::is_visible(problem_, batch_, sequence, row, key)) continue;  // stays NaN
      for (int64_t head = 0; head < heads; ++head) {
        const float x = rng_.uniform(-2.0f, 2.0f);
        reference::store(element_at(bias, head, own, key) + start, problem_.bias_dtype,
                         static_cast<double>(x));
      }
    }
  }
}

const reference::QueryResult& AttentionCase::expected(int64_t row, int32_t q_head) {
  if (expected_.empty()) expected_.resize(static_cast<size_t>(tokens() * options_.q_heads));
  auto& result = expected_[static_cast<size_t>(row * options_.q_heads + q_head)];
  if (!result) {
    result = reference::attend_query(
        problem_, batch_, args_, sequence_of(row), row, q_head,
        error_weights(options_.head_size, precision_, args_.key.hadamard), &decoded_);
  }
  return *result;
}

void AttentionCase::set_precision(const Precision& precision) {
  // the reference weighs its magnitudes by it
  if (precision.keys != precision_.keys || precision.queries != precision_.queries)
    forget_expected();
  precision_ = precision;
}

void AttentionCase::poison_output() {
  out_.fill(poison);
  lse_.fill(poison);
}

double AttentionCase::output(int64_t row, int32_t q_head, int64_t d) const {
  return reference::load(element_at(args_.out, row, q_head, d), options_.out_dtype);
}

void AttentionCase::set_output(int64_t row, int32_t q_head, int64_t d, double value) {
  reference::store(element_at(args_.out, row, q_head, d), options_.out_dtype, value);
}

float AttentionCase::output_lse(int64_t row, int32_t q_head) const {
  return lse_.as<float>()[row * options_.q_heads + q_head];
}

bool AttentionCase::output_gaps_untouched() const {
  std::vector<bool> belongs(static_cast<size_t>(out_.bytes()), false);
  const int64_t row_bytes = int64_t{options_.v_head_size} * bit_width(options_.out_dtype) / 8;
  for (int64_t row = 0; row < tokens(); ++row) {
    for (int32_t head = 0; head < options_.q_heads; ++head) {
      const auto begin = belongs.begin() + (element_at(args_.out, row, head, 0) - out_.data());
      std::fill(begin, begin + row_bytes, true);
    }
  }
  for (size_t i = 0; i < belongs.size(); ++i) {
    if (!belongs[i] && out_.data()[i] != std::byte{poison}) return false;
  }
  return out_.slack_untouched() && lse_.slack_untouched();
}

std::vector<std::byte> AttentionCase::output_bits() const {
  std::vector<std::byte> bits(out_.data(), out_.data() + out_.bytes());
  bits.insert(bits.end(), lse_.data(), lse_.data() + lse_.bytes());
  return bits;
}

}  // namespace folio::test
