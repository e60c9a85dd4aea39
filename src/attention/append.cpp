// SPDX-License-Identifier: Apache-2.0
/// src/attention/append.cpp: check, then write: every token is a task's own, and no byte is touched before the last check has passed.
#include "folio/attention/append.h"

#include <algorithm>

#include "attention/positions.h"
#include "attention/row_checks.h"
#include "attention/row_jobs.h"
#include "attention/work_split.h"
#include "cache/check_view.h"
#include "folio/cache/page_walk.h"

namespace folio {
inline namespace v1 {
namespace {

/// One plane and its source, resolved once per call.
struct Writer {
  AnyTensor<3> source = {};
  PagedKVView view = {};
  const Rope* rope = nullptr;
  rows::Job job = {};
};

Writer writer_of(const AnyTensor<3>& source, const PagedKVView& view) {
  Writer w{source, view, nullptr, {}};
  w.job = job_of(format_of(source), format_of(view), view.num_heads, view.head_size, computes_scales(view));
  return w;
}

int64_t bytes_written(const Writer& w) {
  return w.source.extent[0] * w.view.num_heads * w.view.head_size * bit_width(w.view.dtype) / 8;
}

struct Job {
  const Batch* batch = nullptr;
  const int64_t* slots = nullptr;
  const rows::Kernel* kernel = nullptr;
  Writer writers[2] = {};
  int num_writers = 0;
  WorkSplit split = {};
};

rows::Place place_of(const Writer& w, int64_t token, int64_t page, int64_t slot, const float* cos_sin) {
  return {token_of(w.source, token), row_of(w.view, page, slot, 0), cos_sin, nullptr, scales_of(w.view, page, slot)};
}

void write_to_slots(const Job& job, const Writer& w, int64_t begin, int64_t end) {
  const int64_t page_size = slots_per_page(w.view);
  TableRows table(*job.batch, w.rope, begin);
  PlaceBatch places(w.job, *job.kernel);
  for (int64_t token = begin; token < end; ++token) {
    const int64_t slot = job.slots[token];
    if (slot >= 0) places.add(place_of(w, token, slot / page_size, slot % page_size, table.row_of(token)));
  }
  places.flush();
}

void write_to_sequences(const Job& job, const Writer& w, int64_t begin, int64_t end) {
  const Batch& batch = *job.batch;
  const int32_t* offsets = batch.query_offsets;
  int64_t b = std::upper_bound(offsets, offsets + batch.size + 1, begin) - offsets - 1;
  TableRows table(batch, w.rope, begin);
  PlaceBatch places(w.job, *job.kernel);
  for (int64_t token = begin; token < end; ++b) {
    const int64_t stop = std::min<int64_t>(end, offsets[b + 1]);
    const uint32_t* row = batch.table.entries + batch.table.row_start(b);
    const int64_t shift = int64_t{batch.context_lengths[b]} - offsets[b + 1];  // from token to row index
    while (token < stop) {
      const PageRun run = run_of(w.view, row, token + shift, stop + shift);
      for (int64_t i = 0; run.data != nullptr && i < run.rows; ++i) {
        places.add(place_of(w, token + i, run.page, run.slot + i, table.row_of(token + i)));
      }
      token += run.rows;
    }
  }
  places.flush();
}

void write_range(void* arg, int64_t task) noexcept {
  const Job& job = *static_cast<const Job*>(arg);
  for (int i = 0; i < job.num_writers; ++i) {
    const Writer& w = job.writers[i];
    if (job.slots != nullptr) {
      write_to_slots(job, w, job.split.begin(task), job.split.end(task));
    } else {
      write_to_sequences(job, w, job.split.begin(task), job.split.end(task));
    }
  }
}

Status check_source(const char* name, const AnyTensor<3>& source, const char* from, const PagedKVView& view, int64_t tokens) {
  return check_tensor("append", name, source, {tokens, view.num_heads, view.head_size, from});
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
  if (Status s = check_offsets("append", batch, tokens, "k"); !s.is_ok()) return s;
  if (batch.context_lengths == nullptr || batch.table.entries == nullptr) {
    return fail(Errc::invalid_argument, "append: batch.{} is null, expected an array (slots are null)",
                batch.context_lengths == nullptr ? "context_lengths" : "table.entries");
  }
  for (int32_t b = 0; b < batch.size; ++b) {
    const int64_t count = int64_t{batch.query_offsets[b + 1]} - batch.query_offsets[b];
    if (batch.context_lengths[b] >= count) continue;
    return fail(Errc::invalid_argument, "append: batch.context_lengths[{}] is {}, expected at least its {} new tokens", b,
                batch.context_lengths[b], count);
  }
  return {};
}

Status check_value(const AppendArgs& args, int64_t tokens) {
  if (args.v.data == nullptr && args.value.data == nullptr) return {};
  if (Status s = check_writable("append", "value", args.value); !s.is_ok()) return s;
  if (args.value.page_size != args.key.page_size) {
    return fail(Errc::invalid_argument, "append: value page_size is {}, expected {} (from key)", args.value.page_size,
                args.key.page_size);
  }
  return check_source("v", args.v, "k and value", args.value, tokens);
}

/// What happens to K on its way: nothing may be left to find out once writing has begun.
Status check_transform(const Batch& batch, const AppendArgs& args, int64_t tokens) {
  if (args.rope == nullptr && args.k_norm == nullptr) return {};
  if (Status s = check_head_size("append", "key", args.key.head_size, "K is normalised or rotated"); !s.is_ok()) return s;
  if (Status s = check_norm("append", "k_norm", args.k_norm, args.norm_eps); !s.is_ok()) return s;
  if (args.rope == nullptr) return {};
  if (Status s = check_rope("append", *args.rope, args.key.head_size, "key"); !s.is_ok()) return s;
  return check_positions("append", batch, *args.rope, tokens, "k", args.slots);
}

Status check(const Batch& batch, const AppendArgs& args, const Executor& executor) {
  if (Status s = check_executor("append", executor); !s.is_ok()) return s;
  const int64_t tokens = args.k.extent[0];
  if (tokens < 0) return fail(Errc::invalid_argument, "append: k has {} tokens, expected at least 0", tokens);
  if (tokens == 0) return args.slots != nullptr || batch.size == 0 ? Status() : check_batch(batch, tokens);
  if (Status s = check_writable("append", "key", args.key); !s.is_ok()) return s;
  if (Status s = check_source("k", args.k, "k and key", args.key, tokens); !s.is_ok()) return s;
  if (Status s = check_value(args, tokens); !s.is_ok()) return s;
  if (Status s = args.slots != nullptr ? check_slots(args, tokens) : check_batch(batch, tokens); !s.is_ok()) return s;
  return check_transform(batch, args, tokens);
}

void prepare(Job& job, const AppendArgs& args) {
  Writer& key = job.writers[job.num_writers++] = writer_of(args.k, args.key);
  key.rope = args.rope;
  transform(key.job, args.rope, args.k_norm, args.norm_eps);
  if (args.v.data != nullptr) job.writers[job.num_writers++] = writer_of(args.v, args.value);
  int64_t bytes = 0;
  for (int i = 0; i < job.num_writers; ++i) bytes += bytes_written(job.writers[i]);
  for (int i = 0; i < job.num_writers; ++i) {
    Writer& w = job.writers[i];
    w.job.streams = should_stream(w.job, w.view.data, w.view.slot_stride_bytes, bytes);
    pack_heads(w.job);
  }
}

}  // namespace

Status append(const Batch& batch, const AppendArgs& args, const Executor& executor) noexcept {
  if (Status s = check(batch, args, executor); !s.is_ok()) return s;
  const int64_t tokens = args.k.extent[0];
  if (tokens == 0) return {};
  Job job;
  job.batch = &batch;
  job.slots = args.slots;
  job.kernel = &rows::kernel();
  prepare(job, args);
  int64_t token_bytes = 0;
  for (int i = 0; i < job.num_writers; ++i)
    token_bytes += int64_t{job.writers[i].view.num_heads} * job.writers[i].view.head_size * 4;
  job.split = split_rows(tokens, token_bytes, executor);
  run_tasks(job.split, write_range, &job, executor);
  return {};
}

}  // namespace v1
}  // namespace folio
