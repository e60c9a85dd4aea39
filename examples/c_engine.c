// SPDX-License-Identifier: Apache-2.0
/// examples/c_engine.c: folio from C11: pool, append with rotation, plan and attend, for two requests that share a prefix.
///
/// Keys are bf16, values integers of four bits: a Hadamard transform turns each row, then it has an f16 scale for 32 elements.
///
/// The second request finds the first one's pages. Both end in the same token, so the last rows of attention must agree bit for bit,
/// whether the prefix was computed or found: the problem asks for per_query reproducibility.
#include <folio/c/folio.h>

#include <math.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { Q_HEADS = 4, KV_HEADS = 2, HEAD = 64, PAGE = 8, PAGES = 32, PROMPT = 41, WIDTH = (Q_HEADS + 2 * KV_HEADS) * HEAD };
enum { GRANULE = 32, GRANULES = HEAD / GRANULE };

static folio_message message;

static void check(folio_code code, const char* what) {
  if (code == FOLIO_OK) return;
  fprintf(stderr, "%s: %s: %s\n", what, folio_get_code_name(code), message.text);
  exit(1);
}

/// A plane of [page, slot, head, dim] with so many bytes for a head.
static folio_kv_view plane_of(void* data, int32_t dtype, int64_t head_bytes) {
  folio_kv_view view = FOLIO_STRUCT(folio_kv_view);
  view.dtype = dtype;
  view.data = data;
  view.num_heads = KV_HEADS;
  view.head_size = HEAD;
  view.page_size = PAGE;
  view.num_pages = PAGES;
  view.head_stride_bytes = head_bytes;
  view.slot_stride_bytes = KV_HEADS * view.head_stride_bytes;
  view.page_stride_bytes = PAGE * view.slot_stride_bytes;
  return view;
}

/// Scales of [page, slot, head, granule] f16.
static folio_scale_view scales_of(void* data) {
  folio_scale_view scales = FOLIO_STRUCT(folio_scale_view);
  scales.dtype = FOLIO_F16;
  scales.data = data;
  scales.granularity = GRANULE;
  scales.granule_stride_bytes = 2;
  scales.head_stride_bytes = GRANULES * scales.granule_stride_bytes;
  scales.slot_stride_bytes = KV_HEADS * scales.head_stride_bytes;
  scales.page_stride_bytes = PAGE * scales.slot_stride_bytes;
  return scales;
}

/// `heads` heads from `first` on, of each token's fused row of q, k and v.
static folio_tensor slice_of(float* qkv, int32_t tokens, int32_t first, int32_t heads) {
  folio_tensor t = FOLIO_STRUCT(folio_tensor);
  t.dtype = FOLIO_F32;
  t.data = qkv + first * HEAD;
  t.extent[0] = tokens, t.extent[1] = heads, t.extent[2] = HEAD;
  t.stride_bytes[0] = WIDTH * 4, t.stride_bytes[1] = HEAD * 4, t.stride_bytes[2] = 4;
  return t;
}

typedef struct {
  folio_pool* pool;
  folio_attention* attention;
  folio_kv_view key, value;
  folio_scale_view value_scales;
  void *plan_memory, *workspace;
  folio_executor executor;
  folio_rope rope;
} engine;

static void* aligned(int64_t bytes) {
  void* memory = aligned_alloc(64, ((size_t)bytes + 63) / 64 * 64);
  if (memory == NULL) exit(1);
  return memory;
}

static void start(engine* e) {
  folio_pool_options options = FOLIO_STRUCT(folio_pool_options);
  options.num_pages = PAGES;
  options.page_size = PAGE;
  options.max_sequences = 4;
  options.max_namespaces = 4;
  check(folio_create_pool(&options, &e->pool, &message), "create_pool");
  const int64_t heads = (int64_t)PAGES * PAGE * KV_HEADS;
  e->key = plane_of(aligned(heads * HEAD * 2), FOLIO_BF16, HEAD * 2);
  e->value = plane_of(aligned(heads * HEAD / 2), FOLIO_I4, HEAD / 2);
  e->value_scales = scales_of(aligned(heads * GRANULES * 2));
  e->value.scales = &e->value_scales;
  e->value.hadamard_block = HEAD;

  folio_problem problem = FOLIO_CAUSAL_PROBLEM;
  problem.q_heads = Q_HEADS;
  problem.key = &e->key;
  problem.value = &e->value;
  problem.q_dtype = problem.out_dtype = FOLIO_F32;
  problem.reproducible = FOLIO_PER_QUERY;
  const folio_limits limits = {.struct_size = sizeof limits, .batch = 2, .tokens = PROMPT, .context = PROMPT, .parallelism = 2};
  check(folio_create_attention(&problem, &limits, FOLIO_CPU, 0, NULL, &e->attention, &message), "create_attention");
  e->plan_memory = aligned(folio_get_plan_bytes(e->attention));
  e->workspace = aligned(folio_get_workspace_bytes(e->attention));
  e->executor = (folio_executor)FOLIO_STRUCT(folio_executor);
  check(folio_get_default_executor(2, &e->executor, &message), "get_default_executor");

  float* cos_sin = aligned(PROMPT * HEAD * 4);  // one row per position: cosines, then sines
  for (int p = 0; p < PROMPT; ++p) {
    for (int i = 0; i < HEAD / 2; ++i) {
      const double angle = p * pow(10000.0, -2.0 * i / HEAD);
      cos_sin[p * HEAD + i] = (float)cos(angle);
      cos_sin[p * HEAD + HEAD / 2 + i] = (float)sin(angle);
    }
  }
  e->rope = (folio_rope)FOLIO_STRUCT(folio_rope);
  e->rope.dims = HEAD;
  e->rope.cos_sin = cos_sin;
  e->rope.rows = PROMPT;
}

static void stop(engine* e) {
  free((void*)e->rope.cos_sin);
  free(e->workspace);
  free(e->plan_memory);
  folio_destroy_attention(e->attention);
  free(e->value_scales.data);
  free(e->value.data);
  free(e->key.data);
  folio_destroy_pool(e->pool);
}

/// Projects a token: any function of it will do.
static void project(int32_t token, float* qkv) {
  uint32_t x = (uint32_t)token * 2654435761u + 1;
  for (int i = 0; i < WIDTH; ++i) {
    x ^= x << 13, x ^= x >> 17, x ^= x << 5;
    qkv[i] = (float)(int32_t)x * 0x1p-31f;
  }
}

/// Brings the tokens that the cache lacks through one layer; `last` gets the last token's attention. Returns how many were found.
static int32_t serve(engine* e, const int32_t* prompt, float* last) {
  folio_sequence sequence = 0;
  int32_t found = 0;
  check(folio_admit(e->pool, prompt, PROMPT, NULL, &sequence, &found, &message), "admit");
  const int32_t tokens = PROMPT - found, offsets[2] = {0, tokens}, length = PROMPT;
  check(folio_reserve(e->pool, sequence, tokens, &message), "reserve");

  float* qkv = aligned((int64_t)tokens * WIDTH * 4);
  float* attended = aligned((int64_t)tokens * Q_HEADS * HEAD * 4);
  for (int32_t t = 0; t < tokens; ++t) project(prompt[found + t], qkv + (int64_t)t * WIDTH);
  const folio_tensor q = slice_of(qkv, tokens, 0, Q_HEADS), k = slice_of(qkv, tokens, Q_HEADS, KV_HEADS);
  const folio_tensor v = slice_of(qkv, tokens, Q_HEADS + KV_HEADS, KV_HEADS);
  folio_tensor out = q;
  out.data = attended;
  out.stride_bytes[0] = Q_HEADS * HEAD * 4;

  folio_table table = FOLIO_STRUCT(folio_table);
  int64_t row_start = 0;
  check(folio_get_table(e->pool, &table, &message), "get_table");
  check(folio_get_batch_rows(e->pool, &sequence, 1, &row_start, &message), "get_batch_rows");
  folio_batch batch = FOLIO_STRUCT(folio_batch);
  batch.size = 1;
  batch.query_offsets = offsets;
  batch.context_lengths = &length;
  batch.table_entries = table.entries;
  batch.table_row_stride = table.row_stride;
  batch.table_row_starts = &row_start;

  folio_append_args writes = FOLIO_STRUCT(folio_append_args);
  writes.k = &k, writes.v = &v, writes.key = &e->key, writes.value = &e->value, writes.rope = &e->rope;
  check(folio_append(&batch, &writes, &e->executor, &message), "append");
  folio_rotate_args turns = FOLIO_STRUCT(folio_rotate_args);
  turns.q = &q, turns.out = &q, turns.rope = &e->rope;
  check(folio_rotate(&batch, &turns, &e->executor, &message), "rotate");

  folio_plan plan;
  check(folio_make_plan(e->attention, &batch, e->plan_memory, folio_get_plan_bytes(e->attention), &plan, &message), "make_plan");
  folio_args args = FOLIO_STRUCT(folio_args);
  args.q = &q, args.out = &out, args.key = &e->key, args.value = &e->value;
  check(folio_attend(e->attention, &plan, &args, e->workspace, folio_get_workspace_bytes(e->attention), &e->executor, &message),
        "attend");
  check(folio_commit(e->pool, sequence, prompt + found, tokens, &message), "commit");
  check(folio_release(e->pool, sequence, &message), "release");
  memcpy(last, attended + (int64_t)(tokens - 1) * Q_HEADS * HEAD, Q_HEADS * HEAD * 4);
  free(attended);
  free(qkv);
  return found;
}

int main(void) {
  engine e = {0};
  start(&e);
  int32_t prompt[PROMPT];
  for (int32_t i = 0; i < PROMPT; ++i) prompt[i] = 7 * i + 3;
  float cold[Q_HEADS * HEAD], warm[Q_HEADS * HEAD];
  const int32_t none = serve(&e, prompt, cold), found = serve(&e, prompt, warm);
  printf("kernel %s; %d tokens: first %d found in the cache, then %d; last row %.6f %.6f ...\n", folio_get_kernel(e.attention),
         PROMPT, none, found, (double)warm[0], (double)warm[1]);
  stop(&e);
  if (none != 0 || found != PROMPT / PAGE * PAGE || memcmp(cold, warm, sizeof cold) != 0) {
    fprintf(stderr, "the second request differs from the first\n");
    return 1;
  }
  return 0;
}
