// SPDX-License-Identifier: Apache-2.0
/// src/c/convert.cpp: the checks and conversions that all calls of the C interface share.
#include "c/convert.h"

namespace folio::inline v1::c {
namespace {

// beyond this it is no size but an uninitialised word
constexpr uint32_t struct_size_max = 1u << 16;

/// `struct_size` of the caller's struct.
Result<uint32_t> size_of(const char* function, const char* argument, const void* at) {
  if (at == nullptr) return null_argument(function, argument);
  uint32_t size = 0;
  std::memcpy(&size, at, sizeof size);
  if (size >= sizeof size && size <= struct_size_max) return size;
  return fail(Errc::invalid_argument, "{}: {}->struct_size is {}, expected sizeof of the struct",
              function, argument, size);
}

bool is_zero(const unsigned char* bytes, uint32_t count) {
  return std::all_of(bytes, bytes + count, [](unsigned char b) { return b == 0; });
}

template <class CTensor, int Rank>
Status convert_tensor(const char* function, const char* argument, const CTensor* tensor,
                      AnyTensor<Rank>& to) {
  to = {};
  if (tensor == nullptr) return {};
  CTensor t = {};
  if (Status status = read(function, argument, tensor, t); !status.is_ok()) return status;
  to.data = t.data;
  to.dtype = dtype_of(t.dtype);
  std::copy_n(t.extent, Rank, to.extent);
  std::copy_n(t.stride_bytes, Rank, to.stride_bytes);
  return {};
}

Status convert_scales(const char* function, const folio_scale_view* from, ScaleView& to) {
  folio_scale_view s = {};
  if (Status status = read(function, "scales", from, s); !status.is_ok()) return status;
  to.data = s.data;
  to.dtype = dtype_of(s.dtype);
  to.granularity = s.granularity;
  to.page_stride_bytes = s.page_stride_bytes;
  to.slot_stride_bytes = s.slot_stride_bytes;
  to.head_stride_bytes = s.head_stride_bytes;
  to.granule_stride_bytes = s.granule_stride_bytes;
  to.tensor_scale = s.tensor_scale;
  to.zero_offset_bytes = s.zero_offset_bytes;
  if (s.zeros < FOLIO_ZEROS_NONE || s.zeros > FOLIO_ZEROS_IN_SCALE)
    return fail(Errc::invalid_argument, "{}: scales->zeros is {}, expected a FOLIO_ZEROS_...",
                function, s.zeros);
  to.zeros = static_cast<Zeros>(s.zeros);
  return {};
}

}  // namespace

static_assert(FOLIO_U4_HALVES + 1 == detail::num_dtypes,
              "folio/c/base.h has a name for each dtype");

DType dtype_of(int32_t value) noexcept {
  return value >= 0 && value < detail::num_dtypes ? static_cast<DType>(value) : DType::invalid;
}

folio_code report(const Status& status, folio_message* message) noexcept {
  if (message != nullptr) {
    const std::string_view text = status.message();
    const size_t length = std::min(text.size(), sizeof message->text - 1);
    std::copy_n(text.data(), length, message->text);  // no text has no data
    message->text[length] = '\0';
  }
  return static_cast<folio_code>(status.code());
}

Status read_bytes(const char* function, const char* argument, const void* from, void* whole,
                  uint32_t size) noexcept {
  const Result<uint32_t> given = size_of(function, argument, from);
  if (!given) return given.error();
  std::memcpy(whole, from, std::min(*given, size));
  if (*given <= size || is_zero(static_cast<const unsigned char*>(from) + size, *given - size))
    return {};
  return fail(Errc::unsupported,
              "{}: {}->struct_size is {}, {} are known here, and the rest is not zero", function,
              argument, *given, size);
}

Status check_array(const char* function, const char* argument, const void* elements,
                   const char* count_name, int64_t count, size_t element_bytes) noexcept {
  constexpr int64_t bytes_max = int64_t{1} << 56;  // no address space has more
  const int64_t most = bytes_max / static_cast<int64_t>(element_bytes);
  if (count < 0 || count > most)
    return fail(Errc::invalid_argument, "{}: {} is {}, expected 0 to {}", function, count_name,
                count, most);
  return count > 0 && elements == nullptr ? null_argument(function, argument) : Status();
}

Status read_flag(const char* function, const char* field, int32_t value, bool& to) noexcept {
  if (value != 0 && value != 1)
    return fail(Errc::invalid_argument, "{}: {} is {}, expected 0 or 1", function, field, value);
  to = value != 0;
  return {};
}

Status write_bytes(const char* function, const char* argument, const void* whole, void* to,
                   uint32_t size) noexcept {
  const Result<uint32_t> given = size_of(function, argument, to);
  if (!given) return given.error();
  const uint32_t known = std::min(*given, size), head = sizeof(uint32_t);
  std::memcpy(static_cast<unsigned char*>(to) + head,
              static_cast<const unsigned char*>(whole) + head, known - head);
  std::memset(static_cast<unsigned char*>(to) + known, 0, *given - known);
  return {};
}

Status check_room_bytes(const char* function, const char* argument, const void* whole,
                        const void* to, uint32_t size) noexcept {
  const Result<uint32_t> given = size_of(function, argument, to);
  if (!given) return given.error();
  if (*given >= size || is_zero(static_cast<const unsigned char*>(whole) + *given, size - *given))
    return {};
  return fail(Errc::unsupported,
              "{}: {}->struct_size is {}, {} are known here, and what is to be said there is not "
              "zero",
              function, argument, *given, size);
}

Status convert(const char* function, const char* argument, const folio_tensor* tensor,
               AnyTensor<3>& to) noexcept {
  return convert_tensor(function, argument, tensor, to);
}

Status convert(const char* function, const char* argument, const folio_tensor* tensor,
               ConstTensor<3>& to) noexcept {
  AnyTensor<3> whole;
  Status status = convert(function, argument, tensor, whole);
  to = whole;
  return status;
}

Status convert(const char* function, const char* argument, const folio_matrix* matrix,
               AnyTensor<2>& to) noexcept {
  return convert_tensor(function, argument, matrix, to);
}

Status convert(const char* function, const char* argument, const folio_matrix* matrix,
               ConstTensor<2>& to) noexcept {
  AnyTensor<2> whole;
  Status status = convert(function, argument, matrix, whole);
  to = whole;
  return status;
}

Status convert(const char* function, const char* argument, const folio_kv_view* view,
               PagedKVView& to) noexcept {
  to = {};
  if (view == nullptr) return {};
  folio_kv_view v = {};
  if (Status status = read(function, argument, view, v); !status.is_ok()) return status;
  to.data = v.data;
  to.dtype = dtype_of(v.dtype);
  to.num_heads = v.num_heads;
  to.head_size = v.head_size;
  to.page_size = v.page_size;
  to.num_pages = v.num_pages;
  to.page_stride_bytes = v.page_stride_bytes;
  to.slot_stride_bytes = v.slot_stride_bytes;
  to.head_stride_bytes = v.head_stride_bytes;
  to.hadamard = {v.hadamard_block, v.hadamard_sign_seed};
  to.channel_scales = v.channel_scales;
  if (Status s =
          read_flag(function, "has_channel_scales", v.has_channel_scales, to.has_channel_scales);
      !s.is_ok())
    return s;
  return v.scales == nullptr ? Status() : convert_scales(function, v.scales, to.scales);
}

static_assert(static_cast<int32_t>(SummaryKind::bounds) == FOLIO_SUMMARY_BOUNDS &&
              static_cast<int32_t>(SummaryKind::mean) == FOLIO_SUMMARY_MEAN);

Status convert(const char* function, const char* argument, const folio_page_summaries* summaries,
               PageSummaries& to) noexcept {
  folio_page_summaries s = {};
  if (Status status = read(function, argument, summaries, s); !status.is_ok()) return status;
  if (Status status = read_choice(function, "summaries->kind", s.kind, SummaryKind::mean, to.kind);
      !status.is_ok())
    return status;
  if (s.rows == nullptr) return null_argument(function, "summaries->rows");
  return convert(function, "summaries->rows", s.rows, to.rows);
}

Status convert(const char* function, const folio_batch* batch, Batch& to) noexcept {
  folio_batch b = {};
  if (Status status = read(function, "batch", batch, b); !status.is_ok()) return status;
  to.size = b.size;
  to.query_offsets = b.query_offsets;
  to.context_lengths = b.context_lengths;
  to.table = {b.table_entries, b.table_row_stride, b.table_row_starts};
  to.query_positions = b.query_positions;
  to.key_positions = b.key_positions;
  to.visible_begin = b.visible_begin;
  to.visible_end = b.visible_end;
  to.tree = b.tree;
  to.tree_words = b.tree_words;
  to.selected = b.selected;
  to.selected_stride = b.selected_stride;
  to.alibi_positions = b.alibi_positions;
  to.alibi_positions_stride = b.alibi_positions_stride;
  return {};
}

folio_batch to_c(const Batch& batch) noexcept {
  folio_batch b = {};
  b.struct_size = sizeof b;
  b.size = batch.size;
  b.query_offsets = batch.query_offsets;
  b.context_lengths = batch.context_lengths;
  b.table_entries = batch.table.entries;
  b.table_row_stride = batch.table.row_stride;
  b.table_row_starts = batch.table.row_starts;
  b.query_positions = batch.query_positions;
  b.key_positions = batch.key_positions;
  b.visible_begin = batch.visible_begin;
  b.visible_end = batch.visible_end;
  b.tree = batch.tree;
  b.tree_words = batch.tree_words;
  b.selected = batch.selected;
  b.selected_stride = batch.selected_stride;
  b.alibi_positions = batch.alibi_positions;
  b.alibi_positions_stride = batch.alibi_positions_stride;
  return b;
}

folio_tensor to_c(const ConstTensor<3>& tensor) noexcept {
  folio_tensor t = {};
  t.struct_size = sizeof t;
  t.dtype = static_cast<int32_t>(tensor.dtype);
  t.data = const_cast<void*>(tensor.data);  // C has one struct for what is read and written
  std::copy_n(tensor.extent, 3, t.extent);
  std::copy_n(tensor.stride_bytes, 3, t.stride_bytes);
  return t;
}

Status ExecutorAdapter::init(const char* function, const folio_executor* executor) noexcept {
  executor_ = serial_executor();
  if (executor == nullptr) return {};
  if (Status status = read(function, "executor", executor, caller_); !status.is_ok()) return status;
  if (caller_.concurrency == nullptr || caller_.parallel_for == nullptr)
    return fail(Errc::invalid_argument, "{}: executor->{} is null, expected a function", function,
                caller_.concurrency == nullptr ? "concurrency" : "parallel_for");
  executor_.context = &caller_;
  executor_.concurrency = [](void* context) {
    const auto& caller = *static_cast<const folio_executor*>(context);
    return caller.concurrency(caller.context);
  };
  executor_.parallel_for = [](void* context, int64_t n, void (*task)(void*, int64_t) noexcept,
                              void* arg) {
    const auto& caller = *static_cast<const folio_executor*>(context);
    caller.parallel_for(caller.context, n, task, arg);
  };
  return {};
}

Result<Device> device_of(const char* function, int32_t kind, int32_t index) noexcept {
  if (kind != FOLIO_CPU && kind != FOLIO_CUDA)
    return fail(Errc::invalid_argument, "{}: device_kind is {}, expected FOLIO_CPU or FOLIO_CUDA",
                function, kind);
  return Device{kind == FOLIO_CPU ? Device::Kind::cpu : Device::Kind::cuda, index};
}

}  // namespace folio::inline v1::c
