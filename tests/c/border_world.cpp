// SPDX-License-Identifier: Apache-2.0
/// tests/c/border_world.cpp: the parts of right calls.
#include "c/border_world.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "c/to_c.h"

namespace folio::test {
namespace {

constexpr int64_t rows = int64_t{BorderWorld::num_pages} * BorderWorld::page_size;
constexpr int64_t room = 64;  // bytes on either side of a plane

/// Preparing a call never fails.
void require(folio_code code, const folio_message& message) {
  if (code == FOLIO_OK) return;
  std::fprintf(stderr, "border_world: %s\n", message.text);
  std::abort();
}

folio_matrix matrix(std::vector<float>& values, int64_t a, int64_t b) {
  return to_c(dense_tensor<2>(values.data(), DType::f32, {a, b}));
}

folio_tensor tensor(std::vector<float>& values, int64_t a, int64_t b, int64_t c) {
  values.resize(static_cast<size_t>(a * b * c), 0.5f);
  return to_c(dense_tensor<3>(values.data(), DType::f32, {a, b, c}));
}

void* aligned(std::vector<std::byte>& memory, int64_t bytes) {
  memory.resize(static_cast<size_t>(bytes) + 63);
  const auto address = reinterpret_cast<uintptr_t>(memory.data());
  return memory.data() + (64 - address % 64) % 64;
}

/// What no test needs is not to be had.
void* allocate(void*, size_t bytes, size_t align) {
  return bytes > 1 << 20 ? nullptr : std::aligned_alloc(align, (bytes + align - 1) / align * align);
}
void deallocate(void*, void* memory, size_t) { std::free(memory); }

folio_code name_page(void*, const folio_page_content* page, folio_page_name* name) {
  name->bytes[0] = static_cast<uint8_t>(page->tokens[0]);
  return FOLIO_OK;
}
folio_code name_companion(void*, const folio_companion_content* companion, folio_page_name* name) {
  *name = companion->leading;
  name->bytes[31] = static_cast<uint8_t>(companion->group);
  return FOLIO_OK;
}
folio_io_pin no_spare(void*, uint32_t, uint32_t, const folio_page_name*) { return 0; }
void leave(void*, uint32_t, uint32_t, const folio_page_name*) {}
void hear(void*, const folio_pool_event*, const int32_t*, int64_t) {}

int one_thread(void*) { return 1; }
void run_in_order(void*, int64_t n, void (*task)(void*, int64_t), void* arg) {
  for (int64_t i = 0; i < n; ++i) task(arg, i);
}

}  // namespace

BorderPlane::BorderPlane(Rows form) {
  const bool is_packed = form == Rows::packed;
  const int64_t head = BorderWorld::head_size / (is_packed ? 2 : 1),
                row = BorderWorld::heads * head;
  const int64_t scale = is_packed ? 8 : 4;  // of four bits with a zero point
  constexpr int32_t granules = 2;
  memory.assign(static_cast<size_t>(rows * row + 2 * room), std::byte{1});
  scale_memory.assign(static_cast<size_t>(rows * BorderWorld::heads * granules * scale + 2 * room),
                      std::byte{0});
  scales = c_struct<folio_scale_view>();
  scales.dtype = FOLIO_F32;
  scales.data = scale_memory.data() + room;
  scales.granularity = BorderWorld::head_size / granules;
  scales.head_stride_bytes = granules * scale;
  scales.slot_stride_bytes = BorderWorld::heads * granules * scale;
  scales.page_stride_bytes = BorderWorld::page_size * scales.slot_stride_bytes;
  scales.granule_stride_bytes = scale;
  view = c_struct<folio_kv_view>();
  view.dtype = is_packed ? FOLIO_U4 : FOLIO_I8;
  view.data = memory.data() + room;
  view.num_heads = BorderWorld::heads;
  view.head_size = BorderWorld::head_size;
  view.page_size = BorderWorld::page_size;
  view.num_pages = BorderWorld::num_pages;
  view.page_stride_bytes = BorderWorld::page_size * row;
  view.slot_stride_bytes = row;
  view.head_stride_bytes = head;
  view.scales = &scales;
  if (!is_packed) return;
  scales.zeros = FOLIO_ZEROS_MINIMUM;
  scales.zero_offset_bytes = sizeof(float);
  view.hadamard_block = BorderWorld::head_size;
  view.hadamard_sign_seed = 7;
  channels.assign(BorderWorld::heads * BorderWorld::head_size, 1.5f);
  view.has_channel_scales = 1;
  view.channel_scales = channels.data();
}

BorderWorld::BorderWorld() {
  executor = c_struct<folio_executor>();
  executor.context = this;
  executor.concurrency = one_thread;
  executor.parallel_for = run_in_order;
  made_executor = c_struct<folio_executor>();
  make_batch();
  make_attention();
  make_tensors();
  make_index();
  make_summaries();
  make_masks();
  make_pool();
  make_group_pool();
  from = {&key.view, &value.view};
  to = {&key_to.view, &value_to.view};
  std::memset(message.text, 'x', sizeof message.text);
}

BorderWorld::~BorderWorld() {
  folio_destroy_attention(attention);
  folio_destroy_attention(made_attention);
  folio_destroy_index(index);
  folio_destroy_index(made_index);
  folio_destroy_mask_reader(reader);
  folio_destroy_mask_reader(made_reader);
  folio_destroy_pool(pool);
  folio_destroy_pool(made_pool);
  folio_destroy_pool(group_pool);
}

void BorderWorld::make_batch() {
  batch = c_struct<folio_batch>();
  batch.size = sequences;
  batch.query_offsets = query_offsets.data();
  batch.context_lengths = context_lengths.data();
  batch.table_entries = entries.data();
  batch.table_row_stride = 3;
  batch.query_positions = query_positions.data();
  batch.key_positions = key_positions.data();
  batch.visible_begin = visible_begin.data();
  batch.visible_end = visible_end.data();
  batch.tree = tree.data();
  batch.tree_words = 1;
  batch.alibi_positions = key_positions_of_all.data();
  batch.alibi_positions_stride = context;
}

void BorderWorld::make_attention() {
  problem = c_struct<folio_problem>();
  problem.q_heads = q_heads;
  problem.key = &key.view;
  problem.value = &value.view;
  problem.q_dtype = problem.out_dtype = FOLIO_F32;
  problem.mask_left = -1;
  problem.options = FOLIO_SINK_LOGITS | FOLIO_SINK_PER_QUERY | FOLIO_ALIBI | FOLIO_ALIBI_POSITIONS |
                    FOLIO_BIAS | FOLIO_BIAS_PER_SEQUENCE | FOLIO_INTERVALS | FOLIO_TREE;
  limits = {sizeof limits, sequences, tokens, context, 2, 1};
  mask = {sizeof mask, -1, 0, 0, 0};
  require(folio_create_attention(&problem, &limits, FOLIO_CPU, 0, nullptr, &attention, &message),
          message);
  plan_bytes = folio_get_plan_bytes(attention);
  workspace_bytes = folio_get_workspace_bytes(attention);
  plan_data = aligned(plan_memory, plan_bytes);
  workspace_data = aligned(workspace, workspace_bytes);
  require(folio_make_plan(attention, &batch, plan_data, plan_bytes, &plan, &message), message);
}

void BorderWorld::make_tensors() {
  q = tensor(q_values, tokens, q_heads, head_size);
  out = tensor(out_values, tokens, q_heads, head_size);
  bias = tensor(bias_values, sequences * q_heads, tokens, context);
  bias.extent[0] = q_heads;
  k = v = tensor(k_values, tokens, heads, head_size);
  lse.resize(tokens * q_heads);
  slopes.resize(q_heads, 0.5f);
  logits.resize(tokens * q_heads, 0.5f);
  weights.resize(head_size, 1.0f);
  cos_sin.resize(rope_rows * head_size, 0.5f);
  args = c_struct<folio_args>();
  args.q = &q;
  args.out = &out;
  args.key = &key.view;
  args.value = &value.view;
  args.lse = lse.data();
  args.sink_logits = logits.data();
  args.alibi_slopes = slopes.data();
  args.bias = &bias;
  args.sink_stride = q_heads;
  args.bias_sequence_stride_bytes = q_heads * bias.stride_bytes[0];
  require(folio_prepare(attention, &plan, &args, workspace_data, workspace_bytes, &message),
          message);
  parts = {{{&q, lse.data()}, {&q, lse.data()}}};
  rope = c_struct<folio_rope>();
  rope.dims = head_size;
  rope.cos_sin = cos_sin.data();
  rope.rows = rope_rows;
  append_args = c_struct<folio_append_args>();
  append_args.norm_eps = 1e-3f;
  append_args.k = &k;
  append_args.v = &v;
  append_args.key = &key_to.view;
  append_args.value = &value_to.view;
  append_args.rope = &rope;
  append_args.k_norm = weights.data();
  append_args.k_norm_shift = weights.data();
  rotate_args = c_struct<folio_rotate_args>();
  rotate_args.norm_eps = 1e-3f;
  rotate_args.q = &q;
  rotate_args.out = &out;
  rotate_args.rope = &rope;
  rotate_args.q_norm = weights.data();
  rotate_args.q_norm_shift = weights.data();
  turned_key = key.view;
  turned_key.hadamard_block = head_size;
  turned_key.hadamard_sign_seed = 7;
  turned_key.has_channel_scales = 1;
  turned_key.channel_scales = channels.data();
  rotate_args.key = &turned_key;
}

void BorderWorld::make_index() {
  sparse_batch = batch;
  sparse_batch.tree = nullptr;
  index_problem = c_struct<folio_index_problem>();
  index_problem.q_heads = q_heads;
  index_problem.key = &key.view;
  index_problem.q_dtype = index_problem.weight_dtype = FOLIO_F32;
  index_problem.options = FOLIO_INDEX_INTERVALS;
  index_problem.block_keys = 1;
  index_problem.mask_left = -1;
  index_limits = {sizeof index_limits, sequences, tokens, context, context, 2};
  require(folio_create_index(&index_problem, &index_limits, FOLIO_CPU, 0, "", &index, &message),
          message);
  index_workspace_bytes = folio_get_index_workspace_bytes(index);
  index_workspace_data = aligned(index_workspace, index_workspace_bytes);
  weight_matrix = matrix(index_weights, tokens, q_heads);
  score_matrix = matrix(scores, tokens, context);
  score_args = c_struct<folio_score_args>();
  score_args.q = &q;
  score_args.weights = &weight_matrix;
  score_args.key = &key.view;
  select_args = c_struct<folio_select_args>();
  select_args.k = 5;
  select_args.score = &score_args;
  select_args.lists = slots.data();
  select_args.stride = context;
  select_args.page_size = page_size;
  select_args.num_pages = num_pages;
  select_args.table_entries = entries.data();
  select_args.table_row_stride = 3;
  top_args = {sizeof top_args, 5, &score_matrix, lengths.data(), slots.data(), context};
  top_workspace_bytes = folio_get_select_top_bytes(5, 2);
  top_workspace_data = aligned(top_workspace, top_workspace_bytes);
  remap_args = c_struct<folio_remap_args>();
  remap_args.count = 5;
  remap_args.indices = lists.data();
  remap_args.slots = slots.data();
  remap_args.stride = remap_args.slots_stride = context;
  remap_args.num_pages = num_pages;
  remap_args.page_size = page_size;
}

void BorderWorld::make_summaries() {
  no_scales = c_struct<folio_scale_view>();
  summary_rows = key_to.view;
  summary_rows.dtype = FOLIO_F32;
  summary_rows.data = summary_values.data();
  summary_rows.page_size = 2;
  summary_rows.head_stride_bytes = head_size * 4;
  summary_rows.slot_stride_bytes = heads * summary_rows.head_stride_bytes;
  summary_rows.page_stride_bytes = 2 * summary_rows.slot_stride_bytes;
  summary_rows.scales = &no_scales;
  summaries = {sizeof summaries, FOLIO_SUMMARY_BOUNDS, &summary_rows};
  append_args.summaries = &summaries;
  page_args = c_struct<folio_page_args>();
  page_args.page_size = page_size;
  page_args.q = &q;
  page_args.summaries = &summaries;
  page_args.mask_left = -1;
  page_args.intervals = 1;
  page_args.lists = FOLIO_PAGE_LISTS_PER_KV_HEAD;
  page_args.score = FOLIO_PAGE_SCORE_SUM;
  page_args.k_pages = 2;
  page_args.first_pages = page_args.last_pages = 1;
  page_args.selected = selected.data();
  page_args.stride = 2 * page_size;
  page_args.missed = missed.data();
  page_workspace_bytes = folio_get_select_pages_bytes(&page_args, context, 2);
  page_workspace_data = aligned(page_workspace, page_workspace_bytes);
}

void BorderWorld::make_masks() {
  constexpr int64_t streams = 2, queries = 2, keys = context, row_bytes = (keys + 7) / 8;
  mask_values.resize(streams * q_heads * queries * keys, 0.5f);
  mask_matrix = c_struct<folio_mask_matrix>();
  mask_matrix.dtype = FOLIO_F32;
  mask_matrix.data = mask_values.data();
  const auto dense =
      dense_tensor<4>(mask_values.data(), DType::f32, {streams, q_heads, queries, keys});
  std::copy_n(dense.extent, 4, mask_matrix.extent);
  std::copy_n(dense.stride_bytes, 4, mask_matrix.stride_bytes);
  mask_bytes.assign(2 * room, 0xff);
  mask_bits = c_struct<folio_mask_bits>();
  mask_bits.bits = mask_bytes.data() + room;
  mask_bits.streams = streams;
  mask_bits.queries = queries;
  mask_bits.keys = keys;
  mask_bits.stream_stride_bytes = queries * row_bytes;
  mask_bits.query_stride_bytes = row_bytes;
  matrix_options = c_struct<folio_mask_options>();
  matrix_options.first_rows = first_rows.data();
  bits_options = matrix_options;
  matrix_options.q_heads = q_heads;
  matrix_options.slopes = slopes.data();
  masked = c_struct<folio_masked_batch>();
  made_masked = c_struct<folio_masked_batch>();
  made_problem = c_struct<folio_problem>();
  made_key = made_value = c_struct<folio_kv_view>();
  require(folio_create_mask_reader(&reader, &message), message);
  require(folio_read_mask_matrix(reader, &mask_matrix, &matrix_options, &masked, &message),
          message);
}

void BorderWorld::make_pool() {
  pool_options = c_struct<folio_pool_options>();
  pool_options.num_pages = 8;
  pool_options.page_size = 4;
  pool_options.max_sequences = 3;
  pool_options.max_pages_per_sequence = 8;
  pool_options.max_namespaces = 2;
  pool_options.allocate = allocate;
  pool_options.deallocate = deallocate;
  pool_options.context = this;
  pool_options.max_retention_ms = 100;
  pool_options.watermark_pages = 1;
  pool_options.lookahead_tokens = 1;
  pool_options.event_capacity = 4;
  pool_options.min_partial_tokens = 2;
  pool_options.max_spans = 1;
  pool_options.readers = 1;
  pool_options.histograms = 1;
  pool_options.max_io_pins = 2;
  pool_options.name_page = name_page;
  pool_options.on_event = hear;
  pool_options.name_context = pool_options.event_context = this;
  sequence_options = c_struct<folio_sequence_options>();
  sequence_options.salt = "tenant";
  sequence_options.salt_bytes = 6;
  sequence_options.retention = retention;
  sequence_options.num_retention = 1;
  sequence_options.has_decode_retention = 1;
  sequence_options.decode_level = 20;
  sequence_options.decode_milliseconds = 10;
  sequence_options.spans = spans;
  sequence_options.num_spans = 1;
  require(folio_create_pool(&pool_options, &pool, &message), message);
  require(folio_admit(pool, prompt.data(), 9, &sequence_options, &sequence, nullptr, &message),
          message);
  require(folio_reserve(pool, sequence, 12, &message), message);
  require(folio_commit(pool, sequence, prompt.data(), 9, &message), message);
  require(folio_begin_step(pool, &sequence, 1, &step, &message), message);
  require(folio_begin_io(pool, sequence, 0, 0, &pin, &message), message);
  table = c_struct<folio_table>();
  stats = c_struct<folio_pool_stats>();
  explanation = c_struct<folio_pool_explanation>();
  histograms = c_struct<folio_pool_histograms>();
  requests[0] = {sequence, 4, 0};
}

void BorderWorld::make_group_pool() {
  group_pool_options = pool_options;
  group_pool_options.num_pages = 0;
  group_pool_options.max_retention_ms = 0;
  group_pool_options.min_partial_tokens = 0;
  group_pool_options.name_companion = name_companion;
  figures = c_struct<folio_group_figures>();
  page_parts = c_struct<folio_page_parts>();
  watcher = c_struct<folio_eviction_watcher>();
  watcher.function = no_spare;
  watcher.context = this;
  watcher.leaving = leave;
  require(folio_create_group_pool(&group_pool_options, groups, 2, 64 * 16, &group_pool, &message),
          message);
  require(folio_admit(group_pool, prompt.data(), 9, nullptr, &filled, nullptr, &message), message);
  require(folio_reserve(group_pool, filled, 9, &message), message);
  require(folio_commit(group_pool, filled, prompt.data(), 9, &message), message);
  for (folio_sequence* const s : {&waiting, &loading})
    require(folio_admit(group_pool, other_prompt.data(), 9, nullptr, s, nullptr, &message),
            message);
  require(folio_begin_load(group_pool, loading, other_prompt.data(), 9, 8, fill, 2, &message),
          message);
}

std::vector<std::byte> BorderWorld::outputs() const {
  std::vector<std::byte> all;
  const auto add = [&all](const void* data, size_t bytes) {
    const auto* const begin = static_cast<const std::byte*>(data);
    all.insert(all.end(), begin, begin + bytes);
  };
  for (const BorderPlane* plane : {&key, &value, &key_to, &value_to}) {
    add(plane->memory.data(), plane->memory.size());
    add(plane->scale_memory.data(), plane->scale_memory.size());
  }
  add(out_values.data(), out_values.size() * sizeof(float));
  add(q_values.data(), q_values.size() * sizeof(float));
  add(lse.data(), lse.size() * sizeof(float));
  for (const auto* numbers : {&scores, &summary_values, &missed})
    add(numbers->data(), numbers->size() * sizeof(float));
  for (const auto* list : {&lists, &slots, &selected})
    add(list->data(), list->size() * sizeof(int32_t));
  add(&made_attention, sizeof made_attention);
  add(&made_index, sizeof made_index);
  add(&made_pool, sizeof made_pool);
  add(&made_reader, sizeof made_reader);
  add(&made_plan, sizeof made_plan);
  add(&fingerprint, sizeof fingerprint);
  add(&made_sequence, sizeof made_sequence);
  add(&made_step, sizeof made_step);
  add(&made_pin, sizeof made_pin);
  add(prompt_pins, sizeof prompt_pins);
  add(&page, sizeof page);
  add(made_children, sizeof made_children);
  add(&copies, sizeof copies);
  add(&num_copies, sizeof num_copies);
  add(&row_start, sizeof row_start);
  add(&cached_tokens, sizeof cached_tokens);
  add(events, sizeof events);
  add(&page_name, sizeof page_name);
  add(&num_events, sizeof num_events);
  add(&next_event, sizeof next_event);
  add(&lost, sizeof lost);
  add(&num_groups, sizeof num_groups);
  add(companion_names, sizeof companion_names);
  add(fill, sizeof fill);
  add(&group_made, sizeof group_made);
  add(&num_found, sizeof num_found);
  add(&length, sizeof length);
  // the size that a case breaks is the caller's own word
  constexpr size_t size = sizeof(uint32_t);
  const auto add_struct = [&add](const auto& s) {
    add(reinterpret_cast<const std::byte*>(&s) + size, sizeof s - size);
  };
  add_struct(made_executor);
  add_struct(made_masked);
  add_struct(made_problem);
  add_struct(made_key);
  add_struct(made_value);
  add_struct(table);
  add_struct(stats);
  add_struct(histograms);
  add_struct(figures);
  add_struct(page_parts);
  return all;
}

}  // namespace folio::test
