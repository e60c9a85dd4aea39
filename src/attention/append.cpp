// SPDX-License-Identifier: Apache-2.0
/// src/attention/append.cpp: check, then write: every token is a task's own, and no byte is touched before the last check has passed.
#include "folio/attention/append.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "attention/convert.h"
#include "attention/work_split.h"
#include "cache/check_view.h"
#include "folio/cache/page_walk.h"

namespace folio {
inline namespace v1 {
namespace {

enum class Mode : uint8_t {
  copied,      ///< same element type, no scales
  converted,   ///< no scales
  calibrated,  ///< scales are read
  computed,    ///< scales are written
};

/// One plane and its source, resolved once per call. Without scales, heads that are packed on both sides count as one.
struct Writer {
  AnyTensor<3> source = {};
  PagedKVView view = {};
  Mode mode = Mode::copied;
  WidenRow widen = nullptr;
  NarrowRow narrow = nullptr;
  int64_t heads = 0;
  int64_t row = 0;  ///< elements per head
  float qmax = 1.0f;
};

float qmax_of(DType dtype) { return dtype == DType::i8 ? 127.0f : dtype == DType::f8_e4m3 ? 448.0f : 57344.0f; }

bool is_quantised(DType dtype) { return dtype == DType::i8 || dtype == DType::f8_e4m3 || dtype == DType::f8_e5m2; }

Mode mode_of(const AnyTensor<3>& source, const PagedKVView& view) {
  if (view.scales.data != nullptr) return view.scales.slot_stride_bytes == 0 ? Mode::calibrated : Mode::computed;
  return source.dtype == view.dtype ? Mode::copied : Mode::converted;
}

Writer writer_of(const AnyTensor<3>& source, const PagedKVView& view) {
  Writer w{source,         view,           mode_of(source, view), widen_row_of(source.dtype), narrow_row_of(view.dtype),
           view.num_heads, view.head_size, qmax_of(view.dtype)};
  const bool packed = source.stride_bytes[1] == w.row * bit_width(source.dtype) / 8 &&
                      view.head_stride_bytes == w.row * bit_width(view.dtype) / 8;
  if (packed && view.scales.data == nullptr) {
    w.row *= w.heads;
    w.heads = 1;
  }
  return w;
}

/// Elements [first, first + n) of a row, divided by `divisor` and stored.
void convert(const Writer& w, const std::byte* source, std::byte* target, int64_t first, int64_t n, float divisor) {
  const int64_t source_bytes = bit_width(w.source.dtype) / 8;
  const int64_t target_bytes = bit_width(w.view.dtype) / 8;
  float values[convert_chunk];
  for (int64_t done = 0; done < n; done += convert_chunk) {
    const int64_t count = std::min(convert_chunk, n - done);
    w.widen(source + (first + done) * source_bytes, count, values);
    if (divisor != 1.0f) {
      for (int64_t i = 0; i < count; ++i) values[i] /= divisor;
    }
    w.narrow(values, count, target + (first + done) * target_bytes);
  }
}

/// The largest finite magnitude among elements [first, first + n), at least `largest`.
float finite_amax(const Writer& w, const std::byte* source, int64_t first, int64_t n, float largest) {
  const int64_t source_bytes = bit_width(w.source.dtype) / 8;
  float values[convert_chunk];
  auto bits = static_cast<int32_t>(detail::float_bits(largest));
  for (int64_t done = 0; done < n; done += convert_chunk) {
    const int64_t count = std::min(convert_chunk, n - done);
    w.widen(source + (first + done) * source_bytes, count, values);
    for (int64_t i = 0; i < count; ++i) {  // magnitudes compare as integers
      const auto magnitude = static_cast<int32_t>(detail::float_bits(values[i]) & 0x7fffffffu);
      const int32_t finite = magnitude < 0x7f800000 ? magnitude : 0;
      bits = bits > finite ? bits : finite;
    }
  }
  return detail::bits_float(static_cast<uint32_t>(bits));
}

/// The smallest float that is not below a positive x.
float round_up(double x) {
  const auto nearest = static_cast<float>(x);
  return static_cast<double>(nearest) < x ? detail::bits_float(detail::float_bits(nearest) + 1u) : nearest;
}

/// Largest finite number of a scale's type: a scale beyond it stays finite, and the stored values saturate.
float scale_max(DType dtype) {
  switch (dtype) {
    case DType::f16: return 65504.0f;
    case DType::bf16: return 0x1.fep127f;
    case DType::f8_e8m0: return 0x1p127f;
    case DType::f8_e4m3: return 448.0f;
    default: return std::numeric_limits<float>::max();
  }
}

void store_scale(DType dtype, float scale, std::byte* at) {
  visit_dtype(dtype, [&]<class T>(type_tag<T>) {
    if constexpr (Element<T>) {
      const T element = from_float_up<T>(scale);
      std::memcpy(at, &element, sizeof element);
    }
  });
}

/// Stores the scale for `amax` at (page, slot, head, granule); returns what stored values are to be divided by.
float compute_scale(const Writer& w, float amax, int64_t page, int64_t slot, int64_t head, int64_t granule) {
  const ScaleView& scales = w.view.scales;
  const float tensor_scale = scales.tensor_scale != nullptr ? *scales.tensor_scale : 1.0f;
  const double reach = static_cast<double>(w.qmax) * static_cast<double>(tensor_scale);  // exact
  const float exact = amax == 0.0f ? 1.0f : round_up(static_cast<double>(amax) / reach);
  std::byte* at = static_cast<std::byte*>(scales.data) + scale_offset_bytes(scales, page, slot, head, granule);
  store_scale(scales.dtype, std::min(exact, scale_max(scales.dtype)), at);
  return load_scale(at, scales.dtype) * tensor_scale;
}

/// Heads and granules in groups that share one scale: a stride of 0 makes one group of all.
void quantise_token(const Writer& w, const std::byte* source, std::byte* target, int64_t page, int64_t slot) {
  const ScaleView& scales = w.view.scales;
  const int64_t heads_per_scale = scales.head_stride_bytes != 0 ? 1 : w.heads;
  const int64_t row_per_scale = scales.granule_stride_bytes != 0 ? std::min<int64_t>(scales.granularity, w.row) : w.row;
  for (int64_t head = 0; head < w.heads; head += heads_per_scale) {
    for (int64_t first = 0; first < w.row; first += row_per_scale) {
      const int64_t n = std::min(row_per_scale, w.row - first);
      float divisor = 1.0f;
      if (w.mode == Mode::calibrated) {
        divisor = scale_at(scales, page, slot, head, static_cast<int32_t>(first));
      } else {
        float amax = 0.0f;
        for (int64_t h = head; h < head + heads_per_scale; ++h) {
          amax = finite_amax(w, source + h * w.source.stride_bytes[1], first, n, amax);
        }
        divisor = compute_scale(w, amax, page, slot, head, first / row_per_scale);
      }
      for (int64_t h = head; h < head + heads_per_scale; ++h) {
        convert(w, source + h * w.source.stride_bytes[1], target + h * w.view.head_stride_bytes, first, n, divisor);
      }
    }
  }
}

void write_token(const Writer& w, int64_t token, int64_t page, int64_t slot) {
  const std::byte* source = static_cast<const std::byte*>(w.source.data) + token * w.source.stride_bytes[0];
  std::byte* target = row_of(w.view, page, slot, 0);
  if (w.view.scales.data != nullptr) return quantise_token(w, source, target, page, slot);
  for (int64_t head = 0; head < w.heads; ++head) {
    const std::byte* from = source + head * w.source.stride_bytes[1];
    std::byte* to = target + head * w.view.head_stride_bytes;
    if (w.mode == Mode::copied) {
      std::memcpy(to, from, static_cast<size_t>(w.row * bit_width(w.view.dtype) / 8));
    } else {
      convert(w, from, to, 0, w.row, 1.0f);
    }
  }
}

struct Job {
  const Batch* batch = nullptr;
  const int64_t* slots = nullptr;
  Writer writers[2] = {};
  int num_writers = 0;
  WorkSplit split = {};
};

void write_to_slots(const Writer& w, const int64_t* slots, int64_t begin, int64_t end) {
  const int64_t page_size = slots_per_page(w.view);
  for (int64_t token = begin; token < end; ++token) {
    if (slots[token] >= 0) write_token(w, token, slots[token] / page_size, slots[token] % page_size);
  }
}

void write_to_sequences(const Writer& w, const Batch& batch, int64_t begin, int64_t end) {
  const int32_t* offsets = batch.query_offsets;
  int64_t b = std::upper_bound(offsets, offsets + batch.size + 1, begin) - offsets - 1;
  for (int64_t token = begin; token < end; ++b) {
    const int64_t stop = std::min<int64_t>(end, offsets[b + 1]);
    const uint32_t* row = batch.table.entries + batch.table.row_start(b);
    const int64_t shift = int64_t{batch.context_lengths[b]} - offsets[b + 1];  // from token to row index
    while (token < stop) {
      const PageRun run = run_of(w.view, row, token + shift, stop + shift);
      if (run.data != nullptr) {
        for (int64_t i = 0; i < run.rows; ++i) write_token(w, token + i, run.page, run.slot + i);
      }
      token += run.rows;
    }
  }
}

void write_range(void* arg, int64_t task) noexcept {
  const Job& job = *static_cast<const Job*>(arg);
  for (int i = 0; i < job.num_writers; ++i) {
    if (job.slots != nullptr) {
      write_to_slots(job.writers[i], job.slots, job.split.begin(task), job.split.end(task));
    } else {
      write_to_sequences(job.writers[i], *job.batch, job.split.begin(task), job.split.end(task));
    }
  }
}

/// One element's place must not depend on another's: a stride of 0 over several elements is for reading only.
Status check_distinct(const char* plane, const PagedKVView& view) {
  const struct {
    const char* name;
    int64_t stride;
    int64_t extent;
  } dims[] = {{"head_stride_bytes", view.head_stride_bytes, view.num_heads},
              {"slot_stride_bytes", view.slot_stride_bytes, view.page_size},
              {"page_stride_bytes", view.page_stride_bytes, view.num_pages}};
  for (const auto& dim : dims) {
    if (dim.stride != 0 || dim.extent <= 1) continue;
    return fail(Errc::invalid_argument, "append: {} {} is 0 over {} elements, expected a place for each", plane, dim.name,
                dim.extent);
  }
  return {};
}

Status check_writable_scales(const char* plane, const PagedKVView& view) {
  const ScaleView& scales = view.scales;
  if (scales.data == nullptr) return {};
  if (scales.tensor_scale != nullptr && !(*scales.tensor_scale > 0.0f && *scales.tensor_scale <= scale_max(DType::f32))) {
    return fail(Errc::invalid_argument, "append: {} scales.tensor_scale is {}, expected a positive finite number", plane,
                static_cast<double>(*scales.tensor_scale));
  }
  if (scales.slot_stride_bytes == 0) return {};
  if (!is_quantised(view.dtype)) {
    return fail(Errc::invalid_argument,
                "append: {} has dtype {} and computed scales (slot stride {}), expected f8_e4m3, f8_e5m2 or i8", plane,
                view.dtype, scales.slot_stride_bytes);
  }
  if (scales.page_stride_bytes != 0 || view.num_pages <= 1) return {};
  return fail(Errc::invalid_argument,
              "append: {} scales.page_stride_bytes is 0 with slot stride {}, expected a scale for each token (or slot stride 0: "
              "calibrated)",
              plane, scales.slot_stride_bytes);
}

Status check_source(const char* name, const AnyTensor<3>& source, const char* plane, const PagedKVView& view, int64_t tokens) {
  if (source.data == nullptr) {
    return fail(Errc::invalid_argument, "append: {} data is null, expected [{}, {}, {}] (from {})", name, tokens, view.num_heads,
                view.head_size, plane);
  }
  if (!is_activation_dtype(source.dtype)) {
    return fail(Errc::invalid_argument, "append: {} has dtype {}, expected f32, bf16 or f16", name, source.dtype);
  }
  if (source.extent[0] != tokens || source.extent[1] != view.num_heads || source.extent[2] != view.head_size) {
    return fail(Errc::invalid_argument, "append: {} has shape [{}, {}, {}], expected [{}, {}, {}] (from k and {})", name,
                source.extent[0], source.extent[1], source.extent[2], tokens, view.num_heads, view.head_size, plane);
  }
  const int64_t element = bit_width(source.dtype) / 8;
  if (source.stride_bytes[2] != element) {
    return fail(Errc::invalid_argument, "append: {} has stride {} in its last dimension, expected {} (contiguous {})", name,
                source.stride_bytes[2], element, source.dtype);
  }
  const auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(source.data) % static_cast<uintptr_t>(element));
  if (address != 0 || source.stride_bytes[0] % element != 0 || source.stride_bytes[1] % element != 0) {
    return fail(Errc::invalid_argument, "append: {} data or strides [{}, {}] are not aligned, expected multiples of {} bytes",
                name, source.stride_bytes[0], source.stride_bytes[1], element);
  }
  return {};
}

Status check_plane(const char* plane, const PagedKVView& view) {
  if (Status s = check_view("append", plane, view); !s.is_ok()) return s;
  if (Status s = check_distinct(plane, view); !s.is_ok()) return s;
  return check_writable_scales(plane, view);
}

Status check_slots(const AppendArgs& args, int64_t tokens) {
  int64_t pages = args.key.num_pages;
  if (args.v.data != nullptr) pages = std::min(pages, args.value.num_pages);
  const int64_t slots = pages * slots_per_page(args.key);
  for (int64_t token = 0; token < tokens; ++token) {
    if (args.slots[token] < slots) continue;
    return fail(Errc::invalid_argument, "append: slots[{}] is {}, expected less than {} ({} pages of {})", token,
                args.slots[token], slots, pages, slots_per_page(args.key));
  }
  return {};
}

Status check_batch(const Batch& batch, int64_t tokens) {
  if (batch.size < 0) return fail(Errc::invalid_argument, "append: batch.size is {}, expected at least 0", batch.size);
  if (batch.query_offsets == nullptr || batch.context_lengths == nullptr || batch.table.entries == nullptr) {
    return fail(Errc::invalid_argument, "append: batch.{} is null, expected an array (slots are null)",
                batch.query_offsets == nullptr     ? "query_offsets"
                : batch.context_lengths == nullptr ? "context_lengths"
                                                   : "table.entries");
  }
  if (batch.query_offsets[0] != 0) {
    return fail(Errc::invalid_argument, "append: batch.query_offsets[0] is {}, expected 0", batch.query_offsets[0]);
  }
  for (int32_t b = 0; b < batch.size; ++b) {
    const int64_t count = int64_t{batch.query_offsets[b + 1]} - batch.query_offsets[b];
    if (count < 0) {
      return fail(Errc::invalid_argument, "append: batch.query_offsets[{}] is {}, expected at least {} (ascending)", b + 1,
                  batch.query_offsets[b + 1], batch.query_offsets[b]);
    }
    if (batch.context_lengths[b] >= count) continue;
    return fail(Errc::invalid_argument, "append: batch.context_lengths[{}] is {}, expected at least its {} new tokens", b,
                batch.context_lengths[b], count);
  }
  if (batch.query_offsets[batch.size] == tokens) return {};
  return fail(Errc::invalid_argument, "append: k has {} tokens, expected {} (from batch.query_offsets)", tokens,
              batch.query_offsets[batch.size]);
}

Status check_value(const AppendArgs& args, int64_t tokens) {
  if (args.v.data == nullptr && args.value.data == nullptr) return {};
  if (Status s = check_plane("value", args.value); !s.is_ok()) return s;
  if (args.value.page_size != args.key.page_size) {
    return fail(Errc::invalid_argument, "append: value page_size is {}, expected {} (from key)", args.value.page_size,
                args.key.page_size);
  }
  return check_source("v", args.v, "value", args.value, tokens);
}

Status check(const Batch& batch, const AppendArgs& args, const Executor& executor) {
  if (args.rope != nullptr) return fail(Errc::unsupported, "append: rope is given, expected null (no kernel rotates yet)");
  if (args.k_norm != nullptr) return fail(Errc::unsupported, "append: k_norm is given, expected null (no kernel normalises yet)");
  if (Status s = check_executor("append", executor); !s.is_ok()) return s;
  const int64_t tokens = args.k.extent[0];
  if (tokens < 0) return fail(Errc::invalid_argument, "append: k has {} tokens, expected at least 0", tokens);
  if (tokens == 0) return args.slots != nullptr || batch.size == 0 ? Status() : check_batch(batch, tokens);
  if (Status s = check_plane("key", args.key); !s.is_ok()) return s;
  if (Status s = check_source("k", args.k, "key", args.key, tokens); !s.is_ok()) return s;
  if (Status s = check_value(args, tokens); !s.is_ok()) return s;
  return args.slots != nullptr ? check_slots(args, tokens) : check_batch(batch, tokens);
}

}  // namespace

Status append(const Batch& batch, const AppendArgs& args, const Executor& executor) noexcept {
  if (Status s = check(batch, args, executor); !s.is_ok()) return s;
  const int64_t tokens = args.k.extent[0];
  if (tokens == 0) return {};
  Job job;
  job.batch = &batch;
  job.slots = args.slots;
  job.writers[job.num_writers++] = writer_of(args.k, args.key);
  if (args.v.data != nullptr) job.writers[job.num_writers++] = writer_of(args.v, args.value);
  int64_t token_bytes = 0;
  for (int i = 0; i < job.num_writers; ++i) token_bytes += job.writers[i].heads * job.writers[i].row * 4;
  job.split = split_rows(tokens, token_bytes, executor);
  run_tasks(job.split, write_range, &job, executor);
  return {};
}

}  // namespace v1
}  // namespace folio
