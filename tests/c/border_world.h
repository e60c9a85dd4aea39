// SPDX-License-Identifier: Apache-2.0
/// tests/c/border_world.h: what a right call of each function of the C interface is made of: small,
/// with everything that it may be given, so that each thing can be broken.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "folio/c/folio.h"

namespace folio::test {

/// One plane of int8 with two scales per token and head, and room on both sides: for bytes a stride
/// of -1 is right. Or of four bits, with zero points behind the scales, rotated with signs, each
/// channel with a factor.
struct BorderPlane {
  enum class Rows : uint8_t { bytes, packed };
  explicit BorderPlane(Rows rows);
  std::vector<std::byte> memory, scale_memory;
  std::vector<float> channels;
  folio_scale_view scales = {};
  folio_kv_view view = {};
};

/// Three tokens of two sequences in a cache, and a pool with a sequence. Built anew for each case.
struct BorderWorld {
  static constexpr int32_t heads = 2, q_heads = 4, head_size = 16, page_size = 4, num_pages = 6,
                           tokens = 3, sequences = 2, context = 9, rope_rows = 16;

  BorderWorld();
  BorderWorld(const BorderWorld&) = delete;
  BorderWorld& operator=(const BorderWorld&) = delete;
  ~BorderWorld();

  /// What a failing call may not touch.
  [[nodiscard]] std::vector<std::byte> outputs() const;

  BorderPlane key{BorderPlane::Rows::bytes}, value{BorderPlane::Rows::packed},
      key_to{BorderPlane::Rows::bytes}, value_to{BorderPlane::Rows::packed};
  std::vector<int32_t> query_offsets{0, 2, 3}, context_lengths{9, 5}, query_positions{7, 4},
      key_positions{0, 0}, visible_begin{0, 0, 0}, visible_end{8, 9, 5};
  std::vector<int32_t> key_positions_of_all = std::vector<int32_t>(sequences * context, 3);
  std::vector<uint32_t> entries{0, 1, 2, 3, 4};
  std::vector<uint64_t> tree{1, 3, 1};
  folio_batch batch = {};
  folio_problem problem = {};
  folio_limits limits = {};
  folio_mask mask = {};
  folio_attention* attention = nullptr;
  folio_attention* made_attention = nullptr;
  std::vector<std::byte> plan_memory, workspace;
  void* plan_data = nullptr;
  void* workspace_data = nullptr;
  int64_t plan_bytes = 0, workspace_bytes = 0;
  folio_plan plan = {}, made_plan = {};
  folio_plan_fingerprint fingerprint = {7, 7};
  // two streams of two queries and nine keys
  std::vector<float> mask_values;
  std::vector<uint8_t> mask_bytes;
  std::vector<int64_t> first_rows{9, 0};
  folio_mask_matrix mask_matrix = {};
  folio_mask_bits mask_bits = {};
  folio_mask_options matrix_options = {}, bits_options = {};
  folio_mask_reader* reader = nullptr;
  folio_mask_reader* made_reader = nullptr;
  folio_masked_batch masked = {}, made_masked = {};
  folio_problem made_problem = {};
  folio_kv_view made_key = {}, made_value = {};
  std::vector<float> channels = std::vector<float>(heads * head_size, 1.5f);
  std::vector<float> q_values, out_values, bias_values, k_values, lse, slopes, logits, weights,
      cos_sin;
  folio_tensor q = {}, out = {}, bias = {}, k = {}, v = {};
  folio_args args = {};
  std::array<folio_partial, 2> parts = {};
  folio_rope rope = {};
  folio_append_args append_args = {};
  folio_rotate_args rotate_args = {};
  folio_kv_view turned_key = {};  ///< that queries are turned for
  folio_kv_planes from = {}, to = {};
  folio_page_copy page_copies[1] = {{0, 1, 3}};
  folio_slot_copy slot_copies[1] = {{0, 5}};
  folio_executor executor = {}, made_executor = {};

  // an index cache in `key`, summaries of `key_to`
  folio_batch sparse_batch = {};
  folio_index_problem index_problem = {};
  folio_index_limits index_limits = {};
  folio_index* index = nullptr;
  folio_index* made_index = nullptr;
  std::vector<std::byte> index_workspace, top_workspace, page_workspace;
  void* index_workspace_data = nullptr;
  void* top_workspace_data = nullptr;
  void* page_workspace_data = nullptr;
  int64_t index_workspace_bytes = 0, top_workspace_bytes = 0, page_workspace_bytes = 0;
  std::vector<float> index_weights = std::vector<float>(tokens * q_heads, 0.5f),
                     scores = std::vector<float>(tokens * context, 0.25f),
                     summary_values = std::vector<float>(num_pages * 2 * heads * head_size),
                     missed = std::vector<float>(tokens * q_heads);
  std::vector<int32_t> lists = std::vector<int32_t>(tokens * context, 1), lengths{9, 9, 5},
                       slots = std::vector<int32_t>(tokens * context, -7),
                       selected = std::vector<int32_t>(tokens * heads * 2 * page_size, -7);
  folio_matrix weight_matrix = {}, score_matrix = {};
  folio_score_args score_args = {};
  folio_select_args select_args = {};
  folio_top_args top_args = {};
  folio_remap_args remap_args = {};
  folio_scale_view no_scales = {};
  folio_kv_view summary_rows = {};
  folio_page_summaries summaries = {};
  folio_filled_page filled_pages[1] = {{0, 3}};
  folio_page_args page_args = {};

  folio_pool_options pool_options = {};
  folio_sequence_options sequence_options = {};
  folio_pool* pool = nullptr;
  folio_pool* made_pool = nullptr;
  std::vector<int32_t> prompt{1, 2, 3, 4, 5, 6, 7, 8, 9}, written{10, 11};
  folio_sequence sequence = 0, made_sequence = 0;
  folio_step step = 0, made_step = 0;
  folio_io_pin pin = 0, made_pin = 0;
  uint32_t page = 77;
  folio_table table = {};
  folio_pool_stats stats = {};
  folio_pool_explanation explanation = {};
  folio_retention_range retention[1] = {{0, 8, 50, 0, 10}};
  folio_reserve_request requests[1] = {};
  folio_pool_options group_pool_options = {};
  folio_group groups[2] = {{FOLIO_GROUP_FULL, 0, 0, 0, 0, 0, 64},
                           {FOLIO_GROUP_WINDOW, 8, 2, 0, 0, 0, 64}};
  folio_group_figures figures = {};
  folio_group group_made = {};
  folio_pool* group_pool = nullptr;
  std::vector<int32_t> other_prompt{21, 22, 23, 24, 25, 26, 27, 28, 29};
  folio_sequence filled = 0, waiting = 0, loading = 0;  ///< of that pool
  folio_page_parts page_parts = {};
  folio_eviction_watcher watcher = {};
  folio_page_name leading[2] = {{{1}}, {{2}}}, companion_names[2] = {};
  uint8_t fill[2] = {7, 7};
  folio_prompt_page prompt_pages[2] = {{0, 0}, {1, 1}};
  folio_io_pin prompt_pins[2] = {7, 7};
  int32_t num_found = -7;
  int32_t num_groups = -7;
  folio_content_span spans[1] = {{6, 2, {1, 2, 3}}};
  folio_pool_event events[2] = {};
  folio_pool_histograms histograms = {};
  folio_page_name page_name = {{7}};
  int64_t num_events = -7;
  uint64_t next_event = 7;
  int32_t lost = -7;
  folio_sequence made_children[2] = {};
  const folio_page_copy* copies = nullptr;
  int64_t num_copies = -7, row_start = -7;
  int32_t cached_tokens = -7, length = -7;
  folio_message message = {};

 private:
  void make_batch();
  void make_attention();
  void make_tensors();
  void make_index();
  void make_summaries();
  void make_masks();
  void make_pool();
  void make_group_pool();
};

}  // namespace folio::test
