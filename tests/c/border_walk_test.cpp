// SPDX-License-Identifier: Apache-2.0
/// tests/c/border_walk_test.cpp: every function of the C interface with every argument and field
/// broken, one at a time (border_calls.py reads them from the header): a code and a text, nothing
/// thrown, no output touched; or a success that is listed here with its reason.
#include <fnmatch.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "border_calls.h"
#include "c/border_sparse.h"
#include "c/border_world.h"

namespace folio::test {
namespace {

void fill(BorderWorld& w, folio_get_default_executor_call& c) {
  c = {2, &w.made_executor, &w.message};
}
void fill(BorderWorld& w, folio_get_thread_pool_executor_call& c) {
  c = {2, &w.made_executor, &w.message};
}
void fill(BorderWorld&, folio_get_num_kernels_call&) {}
void fill(BorderWorld&, folio_get_kernel_name_call&) {}
void fill(BorderWorld& w, folio_refuse_call& c) { c = {&w.problem, FOLIO_CPU, 0}; }
void fill(BorderWorld& w, folio_create_attention_call& c) {
  c = {&w.problem, &w.limits, FOLIO_CPU, 0, "", &w.made_attention, &w.message};
}
void fill(BorderWorld& w, folio_attention_with_limits_call& c) {
  c = {w.attention, &w.limits, &w.made_attention, &w.message};
}
void fill(BorderWorld& w, folio_attention_with_mask_call& c) {
  c = {w.attention, &w.mask, &w.made_attention, &w.message};
}
void fill(BorderWorld& w, folio_destroy_attention_call& c) { c = {w.attention}; }
void fill(BorderWorld& w, folio_get_kernel_call& c) { c = {w.attention}; }
void fill(BorderWorld& w, folio_get_plan_bytes_call& c) { c = {w.attention}; }
void fill(BorderWorld& w, folio_get_workspace_bytes_call& c) { c = {w.attention}; }
void fill(BorderWorld& w, folio_make_plan_call& c) {
  c = {w.attention, &w.batch, w.plan_data, w.plan_bytes, &w.made_plan, &w.message};
}
void fill(BorderWorld& w, folio_get_num_tasks_call& c) { c = {&w.plan}; }
void fill(BorderWorld& w, folio_get_keys_read_call& c) { c = {w.attention, &w.plan}; }
void fill(BorderWorld& w, folio_get_plan_fingerprint_call& c) {
  c = {w.attention, &w.batch, FOLIO_BY_CONTENT, &w.fingerprint, &w.message};
}
void fill(BorderWorld& w, folio_attend_call& c) {
  c = {w.attention, &w.plan, &w.args, w.workspace_data, w.workspace_bytes, &w.executor, &w.message};
}
void fill(BorderWorld& w, folio_prepare_call& c) {
  c = {w.attention, &w.plan, &w.args, w.workspace_data, w.workspace_bytes, &w.message};
}
void fill(BorderWorld& w, folio_attend_task_call& c) {
  c = {w.attention, &w.plan, &w.args, w.workspace_data, w.workspace_bytes, 0, &w.message};
}
void fill(BorderWorld& w, folio_make_plan_async_call& c) {
  c = {w.attention, &w.batch, w.plan_data, w.plan_bytes, nullptr, &w.made_plan, &w.message};
}
void fill(BorderWorld& w, folio_prepare_async_call& c) {
  c = {w.attention, w.workspace_data, w.workspace_bytes, nullptr, &w.message};
}
void fill(BorderWorld& w, folio_attend_async_call& c) {
  c = {w.attention, &w.plan, &w.args, w.workspace_data, w.workspace_bytes, nullptr, &w.message};
}
void fill(BorderWorld& w, folio_merge_call& c) {
  c = {w.parts.data(), 2, &w.out, w.lse.data(), &w.executor, &w.message};
}
void fill(BorderWorld& w, folio_create_mask_reader_call& c) { c = {&w.made_reader, &w.message}; }
void fill(BorderWorld& w, folio_destroy_mask_reader_call& c) { c = {w.reader}; }
void fill(BorderWorld& w, folio_read_mask_matrix_call& c) {
  c = {w.reader, &w.mask_matrix, &w.matrix_options, &w.made_masked, &w.message};
}
void fill(BorderWorld& w, folio_read_mask_bits_call& c) {
  c = {w.reader, &w.mask_bits, &w.bits_options, &w.made_masked, &w.message};
}
void fill(BorderWorld& w, folio_masked_problem_call& c) {
  c = {&w.problem, &w.masked, &w.made_problem, &w.made_key, &w.made_value, &w.message};
}
void fill(BorderWorld& w, folio_append_call& c) {
  c = {&w.batch, &w.append_args, &w.executor, &w.message};
}
void fill(BorderWorld& w, folio_rotate_call& c) {
  c = {&w.batch, &w.rotate_args, &w.executor, &w.message};
}
void fill(BorderWorld& w, folio_copy_pages_call& c) {
  c = {&w.from, &w.to, 1, w.page_copies, 1, &w.executor, &w.message};
}
void fill(BorderWorld& w, folio_copy_slots_call& c) {
  c = {&w.from, &w.to, 1, w.slot_copies, 1, &w.executor, &w.message};
}
void fill(BorderWorld& w, folio_append_async_call& c) {
  c = {&w.batch, &w.append_args, FOLIO_CPU, 0, nullptr, &w.message};
}
void fill(BorderWorld& w, folio_rotate_async_call& c) {
  c = {&w.batch, &w.rotate_args, FOLIO_CPU, 0, nullptr, &w.message};
}
void fill(BorderWorld& w, folio_copy_pages_async_call& c) {
  c = {&w.from, &w.to, 1, w.page_copies, 1, FOLIO_CPU, 0, nullptr, &w.message};
}
void fill(BorderWorld& w, folio_copy_slots_async_call& c) {
  c = {&w.from, &w.to, 1, w.slot_copies, 1, FOLIO_CPU, 0, nullptr, &w.message};
}
void fill(BorderWorld& w, folio_create_pool_call& c) {
  c = {&w.pool_options, &w.made_pool, &w.message};
}
void fill(BorderWorld& w, folio_destroy_pool_call& c) { c = {w.pool}; }
void fill(BorderWorld& w, folio_peek_call& c) {
  c = {w.pool, w.prompt.data(), 9, &w.sequence_options, &w.cached_tokens, &w.message};
}
void fill(BorderWorld& w, folio_admit_call& c) {
  c = {w.pool,           w.prompt.data(),  9,         &w.sequence_options,
       &w.made_sequence, &w.cached_tokens, &w.message};
}
void fill(BorderWorld& w, folio_reserve_call& c) { c = {w.pool, w.sequence, 4, &w.message}; }
void fill(BorderWorld& w, folio_commit_call& c) {
  c = {w.pool, w.sequence, w.written.data(), 2, &w.message};
}
void fill(BorderWorld& w, folio_commit_merged_call& c) {
  c = {w.pool, w.sequence, w.written.data(), 2, &w.message};
}
void fill(BorderWorld& w, folio_read_events_call& c) {
  c = {w.pool, 1, w.events, 2, &w.num_events, &w.next_event, &w.lost, &w.message};
}
void fill(BorderWorld& w, folio_snapshot_call& c) {
  c = {w.pool, w.events, 2, &w.num_events, &w.next_event, &w.message};
}
void fill(BorderWorld& w, folio_get_page_name_call& c) {
  c = {w.pool, w.sequence, 1, &w.page_name, &w.message};
}
void fill(BorderWorld& w, folio_clear_pool_call& c) {
  EXPECT_EQ(folio_end_io(w.pool, w.pin, &w.message), FOLIO_OK);
  EXPECT_EQ(folio_end_step(w.pool, w.step, &w.message), FOLIO_OK);
  EXPECT_EQ(folio_release(w.pool, w.sequence, &w.message), FOLIO_OK);
  c = {w.pool, &w.message};
}
void fill(BorderWorld& w, folio_read_peek_call& c) {
  c = {w.pool, w.prompt.data(), 9, &w.sequence_options, &w.cached_tokens, &w.message};
}
void fill(BorderWorld& w, folio_read_pool_stats_call& c) { c = {w.pool, &w.stats, &w.message}; }
void fill(BorderWorld& w, folio_get_pool_histograms_call& c) {
  c = {w.pool, &w.histograms, &w.message};
}
void fill(BorderWorld& w, folio_create_group_pool_call& c) {
  c = {&w.group_pool_options, w.groups, 2, 1 << 12, &w.made_pool, &w.message};
}
void fill(BorderWorld& w, folio_get_num_groups_call& c) { c = {w.pool, &w.num_groups, &w.message}; }
void fill(BorderWorld& w, folio_get_group_call& c) { c = {w.pool, 0, &w.figures, &w.message}; }
void fill(BorderWorld& w, folio_get_group_options_call& c) {
  c = {w.pool, 0, &w.group_made, &w.message};
}
void fill(BorderWorld& w, folio_get_group_table_call& c) { c = {w.pool, 0, &w.table, &w.message}; }
void fill(BorderWorld& w, folio_get_group_rows_call& c) {
  c = {w.pool, 0, &w.sequence, 1, &w.row_start, &w.message};
}
void fill(BorderWorld& w, folio_take_group_copies_call& c) {
  c = {w.pool, 0, &w.copies, &w.num_copies, &w.message};
}
void fill(BorderWorld& w, folio_begin_io_call& c) {
  c = {w.pool, w.sequence, 1, 0, &w.made_pin, &w.message};
}
void fill(BorderWorld& w, folio_end_io_call& c) { c = {w.pool, w.pin, &w.message}; }
void fill(BorderWorld& w, folio_get_io_page_call& c) { c = {w.pool, w.pin, &w.page, &w.message}; }
void fill(BorderWorld& w, folio_get_companion_name_call& c) {
  c = {w.group_pool, w.filled, 1, 1, &w.page_name, &w.message};
}
void fill(BorderWorld& w, folio_get_companion_names_call& c) {
  c = {w.group_pool, 1, w.leading, w.companion_names, 2, &w.message};
}
void fill(BorderWorld& w, folio_get_page_parts_call& c) {
  c = {w.group_pool, w.filled, 1, &w.page_parts, &w.message};
}
void fill(BorderWorld& w, folio_begin_companion_io_call& c) {
  c = {w.group_pool, w.filled, 1, 1, &w.made_pin, &w.message};
}
void fill(BorderWorld& w, folio_begin_prompt_io_call& c) {
  c = {w.group_pool,  w.waiting, w.other_prompt.data(), 9,         w.prompt_pages,
       w.prompt_pins, 2,         &w.num_found,          &w.message};
}
void fill(BorderWorld& w, folio_expect_branch_call& c) {
  c = {w.group_pool, w.waiting, 4, &w.message};
}
void fill(BorderWorld& w, folio_watch_evictions_call& c) {
  c = {w.group_pool, &w.watcher, &w.message};
}
void fill(BorderWorld& w, folio_find_parts_call& c) {
  c = {w.group_pool, w.waiting, w.other_prompt.data(), 9, w.fill, 2, &w.num_found, &w.message};
}
void fill(BorderWorld& w, folio_begin_load_call& c) {
  c = {w.group_pool, w.waiting, w.other_prompt.data(), 9, 8, w.fill, 2, &w.message};
}
void fill(BorderWorld& w, folio_begin_whole_load_call& c) {
  c = {w.group_pool, w.waiting, w.other_prompt.data(), 8, w.fill, 2, &w.message};
}
void fill(BorderWorld& w, folio_shorten_load_call& c) {
  c = {w.group_pool, w.loading, 4, w.fill, 1, &w.message};
}
void fill(BorderWorld& w, folio_commit_load_call& c) {
  c = {w.group_pool, w.loading, w.other_prompt.data(), 8, &w.message};
}
void fill(BorderWorld& w, folio_commit_merged_load_call& c) {
  c = {w.group_pool, w.loading, w.other_prompt.data(), 8, &w.message};
}
void fill(BorderWorld& w, folio_get_load_length_call& c) {
  c = {w.group_pool, w.loading, &w.length, &w.message};
}
void fill(BorderWorld& w, folio_trim_call& c) { c = {w.pool, w.sequence, 5, &w.message}; }
void fill(BorderWorld& w, folio_fork_call& c) {
  c = {w.pool, w.sequence, 5, &w.made_sequence, &w.message};
}
void fill(BorderWorld& w, folio_release_call& c) { c = {w.pool, w.sequence, &w.message}; }
void fill(BorderWorld& w, folio_reserve_batch_call& c) { c = {w.pool, w.requests, 1, &w.message}; }
void fill(BorderWorld& w, folio_explain_call& c) {
  c = {w.pool, w.sequence, 4, &w.explanation, &w.message};
}
void fill(BorderWorld& w, folio_fork_many_call& c) {
  c = {w.pool, w.sequence, 5, w.made_children, 2, &w.message};
}
void fill(BorderWorld& w, folio_keep_path_call& c) { c = {w.pool, &w.sequence, 1, 0, &w.message}; }
void fill(BorderWorld& w, folio_preempt_call& c) { c = {w.pool, w.sequence, &w.message}; }
void fill(BorderWorld& w, folio_resume_call& c) {
  EXPECT_EQ(folio_preempt(w.pool, w.sequence, &w.message), FOLIO_OK);
  c = {w.pool, w.sequence, w.prompt.data(), 9, &w.cached_tokens, &w.message};
}
void fill(BorderWorld& w, folio_retain_call& c) {
  c = {w.pool, w.prompt.data(), 9, &w.sequence_options, &w.length, &w.message};
}
void fill(BorderWorld& w, folio_advance_time_call& c) { c = {w.pool, 50, &w.message}; }
void fill(BorderWorld& w, folio_take_copies_call& c) {
  c = {w.pool, &w.copies, &w.num_copies, &w.message};
}
void fill(BorderWorld& w, folio_begin_step_call& c) {
  c = {w.pool, &w.sequence, 1, &w.made_step, &w.message};
}
void fill(BorderWorld& w, folio_end_step_call& c) { c = {w.pool, w.step, &w.message}; }
void fill(BorderWorld& w, folio_get_length_call& c) {
  c = {w.pool, w.sequence, &w.length, &w.message};
}
void fill(BorderWorld& w, folio_get_row_start_call& c) {
  c = {w.pool, w.sequence, &w.row_start, &w.message};
}
void fill(BorderWorld& w, folio_get_batch_rows_call& c) {
  c = {w.pool, &w.sequence, 1, &w.row_start, &w.message};
}
void fill(BorderWorld& w, folio_get_table_call& c) { c = {w.pool, &w.table, &w.message}; }
void fill(BorderWorld& w, folio_get_pool_stats_call& c) { c = {w.pool, &w.stats, &w.message}; }
void fill(BorderWorld&, folio_get_version_call&) {}
void fill(BorderWorld&, folio_get_code_name_call&) {}

/// What a call destroyed is the world's no more.
template <class Call>
void settle(BorderWorld&, const Call&) {}
void settle(BorderWorld& w, const folio_destroy_attention_call& c) {
  if (c.attention != nullptr) w.attention = nullptr;
}
void settle(BorderWorld& w, const folio_destroy_mask_reader_call& c) {
  if (c.reader != nullptr) w.reader = nullptr;
}
void settle(BorderWorld& w, const folio_destroy_pool_call& c) {
  if (c.pool != nullptr) w.pool = nullptr;
}

/// Broken, and right nevertheless.
struct Allowed {
  const char* pattern;  // of fnmatch
  const char* reason;
};

const Allowed allowed[] = {
    {"folio_create_*pool: options->hash_seed = *", "any number is a seed"},
    {"*: message = nullptr", "no text is wanted"},
    {"*: executor = nullptr", "everything on the calling thread"},
    {"*: executor->context = nullptr", "the executor's own business"},
    {"folio_get_default_executor: threads = *", "below 1: as many as the machine offers"},
    {"folio_get_thread_pool_executor: threads = *", "below 1: as many as the machine offers"},

    {"folio_create_attention: kernel = nullptr", "the best that accepts"},
    {"folio_create_index: kernel = nullptr", "the best that accepts"},
    {"folio_create_[ai]*: device_index = *", "not looked at for FOLIO_CPU"},
    {"folio_create_[ai]*: problem->*->data = nullptr", "geometry alone selects"},
    {"folio_create_[ai]*: problem->*->num_pages = *", "comes with the calls"},
    {"folio_create_[ai]*: problem->*->scales = nullptr", "a problem without scales"},
    {"*: *->mask_* = INT32_MAX", "a wide mask"},
    {"*: *->mask_right = -1", "unlimited"},
    {"*: limits->context = INT32_MAX", "large, but it can be had"},
    {"folio_attention_with_mask: mask->* = INT32_MAX", "a wide mask"},
    {"folio_attention_with_mask: mask->right = -1", "unlimited"},
    {"*->granularity = INT32_MAX",
     "one scale per head; where there is a problem it must be its own"},
    {"*->hadamard_sign_seed = *", "other signs; where there is a problem they must be its own"},
    {"folio_create_attention: problem->*->channel_scales = nullptr", "they come with the calls"},
    {"*_stride_bytes = -1", "int8: any byte is aligned, and rows may overlap or run backwards"},

    {"*: bytes = INT64_MAX", "more than is needed"},
    {"folio_make_plan: batch->query_positions = nullptr", "counted from the context"},
    {"folio_get_plan_fingerprint: batch->query_positions = nullptr", "counted from the context"},
    {"*: batch->key_positions = nullptr", "0"},
    {"*: batch->selected_stride = *", "nothing is selected"},
    {"*: limits->shared_levels = -1", "nothing is shared"},
    {"*: args->lse = nullptr", "not wanted"},
    {"folio_merge: lse = nullptr", "not wanted"},

    {"folio_read_mask_*: options->first_rows = nullptr", "streams lie one after the other"},
    {"folio_read_mask_matrix: options->slopes = nullptr", "the numbers are a bias as they are"},
    {"folio_read_mask_bits: options = nullptr", "the defaults"},
    {"folio_read_mask_bits: options->q_heads = INT32_MAX", "neither slopes nor masks per head"},
    {"folio_masked_problem: problem->[!or]*", "as it is: folio_create_attention looks at it"},
    {"folio_masked_problem: problem->out_dtype = *", "the same"},
    {"folio_masked_problem: masked->batch->*", "a problem has no batch"},
    {"folio_masked_problem: masked->tokens = *", "limits are made of it"},
    {"folio_masked_problem: masked->context = *", "limits are made of it"},
    {"folio_masked_problem: masked->bias->[es]*", "its dtype alone is the problem's"},
    {"folio_masked_problem: masked->bias->data = nullptr", "the same"},
    {"folio_masked_problem: masked->bias_sequence_stride_bytes = *", "comes with the calls"},

    {"folio_append: batch->query_positions = nullptr", "counted from the context"},
    {"folio_append: args->k_norm_shift = nullptr", "an RMSNorm"},
    {"folio_append: args->summaries = nullptr", "there are none"},
    {"*ummaries->rows->scales = nullptr", "they have none"},
    {"*ummaries->rows->scales->*", "the scales of none"},
    {"*: args->rope = nullptr", "no rotation"},
    {"*: args->rope->rows = INT64_MAX", "a longer table"},
    {"folio_append: args->*->scales = nullptr", "a plane without scales"},
    {"folio_append: args->*->scales->data = nullptr", "a plane without scales"},
    {"folio_append: batch->alibi_positions*", "append has no logits"},
    {"folio_append: batch->tree*", "append has no mask"},
    {"folio_append: batch->visible_* = nullptr", "append has no mask"},
    {"folio_rotate: args->q_norm_shift = nullptr", "an RMSNorm"},
    {"folio_rotate: args->key = nullptr", "q is not turned"},
    {"folio_rotate: args->key->hadamard_sign_seed = *", "any number is a seed"},
    {"folio_rotate: args->key->d*", "rotate reads no keys"},
    {"folio_rotate: args->key->num_pages = *", "the same"},
    {"folio_rotate: args->key->page_*", "the same"},
    {"folio_rotate: args->key->s*", "the same"},
    {"folio_rotate: args->key->head_stride_bytes = *", "the same"},
    {"folio_rotate: batch->query_positions = nullptr", "counted from the context"},
    {"folio_rotate: batch->context_lengths = nullptr", "query_positions are given"},
    {"folio_rotate: batch->alibi_positions*", "rotate has no logits"},
    {"folio_rotate: batch->ta*", "rotate reads no cache"},
    {"folio_rotate: batch->tree*", "rotate has no mask"},
    {"folio_rotate: batch->visible_* = nullptr", "rotate has no mask"},
    {"folio_copy_*->scales = nullptr", "from or to a plane without scales: values are converted"},
    {"folio_copy_*->scales->data = nullptr", "the same"},
    {"folio_copy_pages: copies->to = 0", "another page"},

    {"folio_s*: batch->query_positions = nullptr", "counted from the context"},
    {"folio_s*: batch->alibi_positions*", "indexers and summaries have no ALiBi"},
    {"folio_s*: batch->tree_words = *", "there is no tree"},
    {"folio_select_keys: args->page_size = INT32_MAX", "rows of unbounded pages"},
    {"folio_select_top: args->lengths = nullptr", "all scores"},
    {"folio_remap: args->page_size = INT32_MAX", "rows of unbounded pages"},
    {"folio_remap: batch->alibi_positions*", "remap has no logits"},
    {"folio_remap: batch->query_positions = nullptr", "remap has no mask"},
    {"folio_remap: batch->tree*", "remap has no mask"},
    {"folio_remap: batch->visible_* = nullptr", "remap has no mask"},
    {"folio_select_pages: args->*_pages = -1", "none but the best"},
    {"folio_select_pages: args->missed = nullptr", "not wanted"},
    {"folio_summarise: key->scales* = nullptr", "a plane without scales"},

    {"folio_create_*pool: options->context = nullptr", "the allocator's own business"},
    {"folio_create_*pool: options->name_context = nullptr", "the function's own business"},
    {"folio_create_*pool: options->event_context = nullptr", "the function's own business"},
    {"folio_create_*pool: options->name_companion = nullptr", "companions have no names"},
    {"folio_get_companion_name: group = 0", "the page's own"},
    {"folio_expect_branch: tokens = INT32_MAX", "behind all that the sequence may get"},
    {"folio_watch_evictions: watcher = nullptr", "nobody is asked any more"},
    {"folio_watch_evictions: watcher->context = nullptr", "the function's own business"},
    {"folio_watch_evictions: watcher->leaving = nullptr", "not told"},
    {"folio_create_*pool: options->* = 0", "the default"},
    {"folio_create_*pool: options->max_retention_ms = INT64_MAX", "a long time"},
    {"folio_create_*pool: options->lookahead_tokens = INT32_MAX", "as far as a sequence may grow"},
    {"folio_[ap]*: options = nullptr", "neither salt nor adapter"},
    {"*: options->adapter = *", "any number"},
    {"*: options->salt_bytes = 0", "no salt"},
    {"folio_admit: cached_tokens = nullptr", "not wanted"},
    {"folio_resume: cached_tokens = nullptr", "not wanted"},
    {"folio_retain: tokens = nullptr", "not wanted"},
    {"folio_retain: options = nullptr", "nothing is said"},
    {"*: options->retention->end = INT32_MAX", "to the end of the sequence"},
    {"folio_*peek: options->retention->[!r]*", "peek keeps nothing"},
    {"folio_*peek: options->decode_*", "peek keeps nothing"},
    {"folio_*peek: options->spans->*", "nothing can be found there"},
    {"folio_read_peek: options = nullptr", "neither salt nor adapter"},
    {"folio_read_events: next = *", "nothing that new, or what is there"},
    {"folio_advance_time: now_ms = INT64_MAX", "a late hour"},
};

std::vector<bool>& used() {
  static std::vector<bool> flags(std::size(allowed));
  return flags;
}

bool is_allowed(const std::string& name) {
  bool found = false;
  for (size_t i = 0; i < std::size(allowed); ++i) {
    if (fnmatch(allowed[i].pattern, name.c_str(), 0) != 0) continue;
    used()[i] = found = true;
  }
  return found;
}

template <class Call>
class BorderWalk : public ::testing::Test {};

template <class>
struct AsTypes;
template <class... Calls>
struct AsTypes<std::tuple<Calls...>> {
  using type = ::testing::Types<Calls...>;
};
struct FunctionNames {
  template <class Call>
  static std::string GetName(int) {
    return Call::function;
  }
};
TYPED_TEST_SUITE(BorderWalk, AsTypes<AllCalls>::type, FunctionNames);

TYPED_TEST(BorderWalk, the_right_call_succeeds) {
  BorderWorld world;
  TypeParam call;
  fill(world, call);
  // the world is a CPU's, which has no streams
  const bool has_stream = std::string_view(TypeParam::function).ends_with("_async");
  ASSERT_EQ(call.run(), has_stream ? FOLIO_UNSUPPORTED : FOLIO_OK) << world.message.text;
  settle(world, call);
}

template <class Call>
void expect_refused_or_allowed(const char* what, bool (*break_it)(const Call&)) {
  const std::string name = std::string(Call::function) + ": " + what;
  SCOPED_TRACE(name);
  BorderWorld world;
  Call call;
  fill(world, call);
  if (!break_it(call)) return;
  const std::vector<std::byte> before = world.outputs();
  folio_code code = FOLIO_OK;
  ASSERT_NO_THROW(code = call.run());
  settle(world, call);
  if (!Call::has_code) return;
  const bool has_text = name.find(": message =") == std::string::npos;
  if (has_text) {
    ASSERT_NE(std::memchr(world.message.text, '\0', sizeof world.message.text), nullptr);
    EXPECT_EQ(world.message.text[0] == '\0', code == FOLIO_OK) << world.message.text;
  }
  const bool is_of_the_struct = name.find("struct_size = ") != std::string::npos ||
                                name.find("reserved = ") != std::string::npos;
  if (code == FOLIO_OK) {
    EXPECT_TRUE(!is_of_the_struct && is_allowed(name));
    return;
  }
  // The C face's own check; C++ would refuse what was not read, and name something else.
  if (has_text && name.find("struct_size = ") != std::string::npos) {
    EXPECT_NE(std::strstr(world.message.text, "struct_size is"), nullptr) << world.message.text;
  }
  EXPECT_GT(code, FOLIO_OK);
  EXPECT_LT(code, FOLIO_INTERNAL) << world.message.text;
  EXPECT_TRUE(world.outputs() == before) << "touched, though: " << world.message.text;
}

TYPED_TEST(BorderWalk, what_is_broken_is_refused_with_a_text_and_touches_nothing) {
  TypeParam::for_each_case([](const char* what, bool (*break_it)(const TypeParam&)) {
    expect_refused_or_allowed<TypeParam>(what, break_it);
  });
}

/// Runs after the walks: tests of a program run in the order of their suites.
TEST(BorderWalkList, has_nothing_that_does_not_happen) {
  const testing::UnitTest& run = *testing::UnitTest::GetInstance();
  if (run.test_to_run_count() != run.total_test_count()) GTEST_SKIP() << "some walks did not run";
  for (size_t i = 0; i < std::size(allowed); ++i)
    EXPECT_TRUE(used()[i]) << allowed[i].pattern << " (" << allowed[i].reason << ")";
}

}  // namespace
}  // namespace folio::test
