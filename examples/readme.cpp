// SPDX-License-Identifier: Apache-2.0
/// examples/readme.cpp: the README's example: one sequence through pool, append and attention.
///
/// The part between the two marks stands in the README; a test compares them.
#include <folio/folio.h>

#include <cmath>
#include <cstdio>
#include <numeric>
#include <vector>

using namespace folio;

namespace {

void run() {
  constexpr int32_t tokens = 20, heads = 2, q_heads = 8, head_size = 64;
  std::vector<TokenId> prompt(tokens);
  std::iota(prompt.begin(), prompt.end(), 100);
  std::vector<float> k_data(tokens * heads * head_size, 0.25f), v_data(k_data.size(), 0.5f);
  std::vector<float> q_data(tokens * q_heads * head_size, 1.0f), out_data(q_data.size());
  const auto k = dense_tensor<3>(k_data.data(), DType::f32, {tokens, heads, head_size});
  const auto v = dense_tensor<3>(v_data.data(), DType::f32, {tokens, heads, head_size});
  const auto q = dense_tensor<3>(q_data.data(), DType::f32, {tokens, q_heads, head_size});
  const auto out = dense_tensor<3>(out_data.data(), DType::f32, {tokens, q_heads, head_size});
  const Executor executor = default_executor();

  const KVShape shape{.num_layers = 1,
                      .num_heads = heads,
                      .head_size = head_size,
                      .page_size = 16,
                      .dtype = DType::bf16};
  const Buffer blocks = Buffer::allocate(64 * page_bytes(shape).value()).value();
  const KVPlanes kv = make_planes(shape, 64, blocks.span()).value().front();
  const Attention attention = Attention::create({.key = kv.key,
                                                 .value = kv.value,
                                                 .q_heads = q_heads,
                                                 .q_dtype = DType::f32,
                                                 .out_dtype = DType::f32},
                                                {.batch = 1, .tokens = tokens, .context = 1024})
                                  .value();
  const Buffer plan_memory = Buffer::allocate(attention.plan_bytes()).value();
  const Buffer workspace = Buffer::allocate(attention.workspace_bytes()).value();

  // README: begin
  PagePool pool = PagePool::create({.num_pages = 64, .page_size = 16}).value();
  const SequenceId id = pool.admit(prompt).value().id;  // shares the pages of a known prefix
  pool.reserve(id, tokens).or_throw();                  // takes pages for the rest

  // where the rows of the batch's sequences begin in the page table
  int64_t rows[1];
  pool.batch_rows({{id}}, rows).or_throw();
  PageTable table = pool.table();
  table.row_starts = rows;
  const int32_t offsets[] = {0, tokens}, lengths[] = {tokens};
  const Batch batch{
      .size = 1, .query_offsets = offsets, .context_lengths = lengths, .table = table};

  // once per step
  const AttentionPlan step = plan(attention, batch, plan_memory.span()).value();
  // once per layer
  append(batch, {.k = k, .v = v, .key = kv.key, .value = kv.value}, executor).or_throw();
  attend(attention, step, {.q = q, .out = out, .key = kv.key, .value = kv.value}, workspace.span(),
         executor)
      .or_throw();

  pool.commit(id, prompt).or_throw();  // from now on others can find these tokens
  // README: end

  // Every value is 0.5, so every weighted mean of values is, too.
  for (const float x : out_data) {
    if (std::fabs(x - 0.5f) > 1e-6f)
      throw Error(fail(Errc::internal, "readme: an output is {}, expected 0.5", double{x}));
  }
  const Admission again = pool.admit(prompt).value();
  if (again.cached_tokens != 16)
    throw Error(fail(Errc::internal, "readme: found {} tokens, expected 16", again.cached_tokens));
  std::printf("%s: %d tokens attended, %d found again\n", attention.kernel().data(), tokens,
              again.cached_tokens);
}

}  // namespace

int main() {
  try {
    run();
    return 0;
  } catch (const Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
