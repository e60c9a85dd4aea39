// SPDX-License-Identifier: Apache-2.0
/// src/c/mask.cpp: masks given as matrices through the C interface.
#include <algorithm>
#include <new>

#include "c/convert.h"
#include "c/problem.h"
#include "folio/attention/mask_matrix.h"

struct folio_mask_reader {
  folio::MaskReader reader;
  // what the last masked batch points to; without struct_size no call takes them
  folio_batch batch = {};
  folio_tensor bias = {};
};

namespace folio::inline v1::c {
namespace {

static_assert(static_cast<int32_t>(MaskForm::runs) == FOLIO_MASK_RUNS &&
              static_cast<int32_t>(MaskForm::cells) == FOLIO_MASK_CELLS &&
              static_cast<int32_t>(MaskForm::bias) == FOLIO_MASK_BIAS);

Status read_options(const char* function, const folio_mask_options* options, MaskOptions& to) {
  if (options == nullptr) return {};
  folio_mask_options o = {};
  if (Status s = read(function, "options", options, o); !s.is_ok()) return s;
  to = {o.first_rows, o.slopes, o.q_heads};
  return {};
}

Status read_mask(const char* function, const folio_mask_matrix* mask, MaskMatrix& to) {
  folio_mask_matrix m = {};
  if (Status s = read(function, "mask", mask, m); !s.is_ok()) return s;
  to.values.data = m.data;
  to.values.dtype = dtype_of(m.dtype);
  std::copy_n(m.extent, 4, to.values.extent);
  std::copy_n(m.stride_bytes, 4, to.values.stride_bytes);
  return {};
}

Status read_mask(const char* function, const folio_mask_bits* mask, MaskBits& to) {
  folio_mask_bits m = {};
  if (Status s = read(function, "mask", mask, m); !s.is_ok()) return s;
  to = {m.bits, m.streams, m.queries, m.keys, m.stream_stride_bytes, m.query_stride_bytes};
  return {};
}

Status hand_out(const char* function, const MaskedBatch& from, folio_mask_reader& reader,
                folio_masked_batch* to) {
  folio_masked_batch m = {};
  m.form = static_cast<int32_t>(from.form);
  m.page_size = from.page_size;
  m.alibi = from.alibi;
  m.alibi_positions = from.alibi_positions;
  m.bias_per_sequence = from.bias_per_sequence;
  m.tokens = from.tokens;
  m.context = from.context;
  m.batch = &reader.batch;
  if (from.form == MaskForm::bias) m.bias = &reader.bias;
  m.bias_sequence_stride_bytes = from.bias_sequence_stride_bytes;
  if (Status s = check_room(function, "masked", m, to); !s.is_ok()) return s;
  reader.batch = to_c(from.batch);
  if (m.bias != nullptr) reader.bias = to_c(from.bias);
  return write(function, "masked", m, to);
}

/// `CMask` and `Mask`: a matrix or bits.
template <class Mask, class CMask>
Status read_by(const char* function, folio_mask_reader* reader, const CMask* mask,
               const folio_mask_options* options, folio_masked_batch* masked) {
  if (reader == nullptr) return null_argument(function, "reader");
  reader->batch = {};
  reader->bias = {};
  if (masked == nullptr) return null_argument(function, "masked");
  Mask m;
  MaskOptions o;
  if (Status s = read_mask(function, mask, m); !s.is_ok()) return s;
  if (Status s = read_options(function, options, o); !s.is_ok()) return s;
  const Result<MaskedBatch> read = reader->reader.read(m, o);
  return read ? hand_out(function, *read, *reader, masked) : read.error();
}

Status check_form(const char* function, const folio_masked_batch& m) {
  if (m.form < FOLIO_MASK_RUNS || m.form > FOLIO_MASK_BIAS)
    return fail(Errc::invalid_argument, "{}: masked->form is {}, expected 0 to 2", function,
                m.form);
  const int32_t page_size = m.form == FOLIO_MASK_CELLS ? 1 : FOLIO_UNBOUNDED_PAGE_SIZE;
  if (m.page_size != page_size)
    return fail(Errc::invalid_argument, "{}: masked->page_size is {}, expected {} of form {}",
                function, m.page_size, page_size, m.form);
  return {};
}

Status read_bias(const char* function, const folio_masked_batch& m, MaskedBatch& to) {
  if (to.form != MaskForm::bias) return {};
  if (m.bias == nullptr) return null_argument(function, "masked->bias");
  if (Status s = convert(function, "masked->bias", m.bias, to.bias); !s.is_ok()) return s;
  const DType dtype = to.bias.dtype;
  if (dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16) return {};
  return fail(Errc::invalid_argument, "{}: masked->bias is {}, expected f16, bf16 or f32", function,
              dtype);
}

/// What a problem knows of a masked batch.
Status read_masked(const char* function, const folio_masked_batch* masked, MaskedBatch& to) {
  folio_masked_batch m = {};
  if (Status s = read(function, "masked", masked, m); !s.is_ok()) return s;
  if (Status s = check_form(function, m); !s.is_ok()) return s;
  // A problem takes nothing of it; this refuses the batch of a read that failed.
  if (Status s = convert(function, m.batch, to.batch); !s.is_ok()) return s;
  to.form = static_cast<MaskForm>(m.form);
  to.page_size = m.page_size;
  const struct {
    const char* name;
    int32_t value;
    bool& to;
  } flags[] = {{"masked->alibi", m.alibi, to.alibi},
               {"masked->alibi_positions", m.alibi_positions, to.alibi_positions},
               {"masked->bias_per_sequence", m.bias_per_sequence, to.bias_per_sequence}};
  for (const auto& flag : flags)
    if (Status s = read_flag(function, flag.name, flag.value, flag.to); !s.is_ok()) return s;
  return read_bias(function, m, to);
}

/// The problem's plane with the page size of what was read.
Status read_plane(const char* function, const char* argument, const folio_kv_view* from,
                  const PagedKVView& masked, folio_kv_view& to) {
  to = {};
  if (from == nullptr) return {};
  if (Status s = read(function, argument, from, to); !s.is_ok()) return s;
  to.page_size = masked.page_size;
  return {};
}

/// What a mask decides of a problem.
void say_terms(const AttentionProblem& from, folio_problem& to) {
  to.mask_left = from.mask.left;
  to.mask_right = from.mask.right;
  to.mask_chunk = from.mask.chunk;
  to.mask_sink_tokens = from.mask.sink_tokens;
  to.options = options_of(from);
  to.bias_dtype = static_cast<int32_t>(from.bias_dtype);
}

Status make_problem(const folio_problem* problem, const folio_masked_batch* masked,
                    folio_problem* made, folio_kv_view* key, folio_kv_view* value) {
  constexpr auto function = "folio_masked_problem";
  folio_problem whole;
  AttentionProblem p;
  MaskedBatch m;
  if (Status s = read_problem(function, problem, whole, p); !s.is_ok()) return s;
  if (Status s = read_masked(function, masked, m); !s.is_ok()) return s;
  p = masked_problem(p, m);
  folio_kv_view k, v;
  if (Status s = read_plane(function, "problem->key", whole.key, p.key, k); !s.is_ok()) return s;
  if (Status s = read_plane(function, "problem->value", whole.value, p.value, v); !s.is_ok())
    return s;
  const bool has_value = whole.value != nullptr;
  say_terms(p, whole);
  whole.key = key;
  whole.value = has_value ? value : nullptr;
  if (Status s = check_room(function, "made", whole, made); !s.is_ok()) return s;
  if (Status s = check_room(function, "key", k, key); !s.is_ok()) return s;
  if (has_value) {
    if (Status s = check_room(function, "value", v, value); !s.is_ok()) return s;
    if (Status s = write(function, "value", v, value); !s.is_ok()) return s;
  }
  if (Status s = write(function, "key", k, key); !s.is_ok()) return s;
  return write(function, "made", whole, made);
}

}  // namespace
}  // namespace folio::inline v1::c

using namespace folio;  // NOLINT(google-build-using-namespace): the calls below are thin

folio_code folio_create_mask_reader(folio_mask_reader** reader, folio_message* message) {
  constexpr auto function = "folio_create_mask_reader";
  if (reader == nullptr) return c::report(c::null_argument(function, "reader"), message);
  *reader = new (std::nothrow) folio_mask_reader;
  return c::report(*reader != nullptr
                       ? Status()
                       : fail(Errc::out_of_memory, "{}: no memory for the handle", function),
                   message);
}

void folio_destroy_mask_reader(folio_mask_reader* reader) { delete reader; }

folio_code folio_read_mask_matrix(folio_mask_reader* reader, const folio_mask_matrix* mask,
                                  const folio_mask_options* options, folio_masked_batch* masked,
                                  folio_message* message) {
  return c::report(c::read_by<MaskMatrix>("folio_read_mask_matrix", reader, mask, options, masked),
                   message);
}

folio_code folio_read_mask_bits(folio_mask_reader* reader, const folio_mask_bits* mask,
                                const folio_mask_options* options, folio_masked_batch* masked,
                                folio_message* message) {
  return c::report(c::read_by<MaskBits>("folio_read_mask_bits", reader, mask, options, masked),
                   message);
}

folio_code folio_masked_problem(const folio_problem* problem, const folio_masked_batch* masked,
                                folio_problem* made, folio_kv_view* key, folio_kv_view* value,
                                folio_message* message) {
  return c::report(c::make_problem(problem, masked, made, key, value), message);
}
