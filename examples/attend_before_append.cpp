// SPDX-License-Identifier: Apache-2.0
/// examples/attend_before_append.cpp: attention over cached pages and over new rows that are not
/// stored yet: two attends and a merge.
///
/// Each call gives the log of its softmax's denominator; merge joins the parts as if they had been
/// one. The new rows are a view of their own: pages of unbounded size, whose ids are row numbers.
/// For a ring window without slack, or drafts that may be thrown away.
#include <folio/folio.h>

#include <cmath>
#include <cstdio>
#include <vector>

using namespace folio;
namespace {

constexpr int32_t heads = 2, dims = 64, page_size = 16, cached = 37, tokens = 6;
constexpr int32_t total = cached + tokens, num_pages = 4;
constexpr uint32_t pages[] = {2, 0, 3};

/// Exact in bf16. K (kv = 0), V (1) and q (2) of a position.
float element(int64_t kv, int64_t position, int64_t head, int64_t d) {
  return static_cast<float>((kv * 7 + position * 31 + head * 5 + d * 3) * 37 % 129 - 64) / 64.0f;
}
AnyTensor<3> tensor(std::vector<float>& data) {
  return dense_tensor<3>(data.data(), DType::f32,
                         {static_cast<int64_t>(data.size()) / (heads * dims), heads, dims});
}
std::vector<float> rows(int64_t kv, int64_t first, int64_t count) {
  std::vector<float> out;
  for (int64_t i = 0; i < count * heads * dims; ++i)
    out.push_back(element(kv, first + i / (heads * dims), i / dims % heads, i % dims));
  return out;
}
/// Floats as a plane without pages.
PagedKVView plane_of(std::vector<float>& data) {
  constexpr int64_t row = heads * dims * 4;
  const int64_t count = static_cast<int64_t>(data.size()) / (heads * dims);
  return {data.data(), DType::f32, heads, dims, unbounded_page_size, count, row, row, dims * 4, {}};
}
struct Part {
  std::vector<float> out, lse;
};
/// The queries of the new tokens over one set of keys.
Part attend_over(const KVPlanes& kv, const Batch& batch, std::vector<float>& q) {
  AttentionProblem problem{.key = kv.key, .value = kv.value, .q_heads = heads};
  problem.q_dtype = problem.out_dtype = DType::f32;
  const Attention attention = Attention::create(problem, {1, tokens, total}).value();
  const Buffer plan_memory = Buffer::allocate(attention.plan_bytes()).value();
  const Buffer workspace = Buffer::allocate(attention.workspace_bytes()).value();
  const AttentionPlan step = plan(attention, batch, plan_memory.span()).value();
  Part part{rows(0, 0, tokens), std::vector<float>(tokens * heads)};
  const AttentionArgs args{tensor(q), tensor(part.out), kv.key, kv.value, {}, part.lse.data()};
  attend(attention, step, args, workspace.span(), serial_executor()).or_throw();
  return part;
}

/// The formula in double.
double error_of(const float* out, int64_t position, int64_t head) {
  double sum[dims] = {}, weights = 0.0, error = 0.0;
  for (int64_t j = 0; j <= position; ++j) {
    double score = 0.0;
    for (int64_t d = 0; d < dims; ++d)
      score += double{element(2, position, head, d)} * double{element(0, j, head, d)} / 8.0;
    weights += score = std::exp(score);
    for (int64_t d = 0; d < dims; ++d) sum[d] += score * double{element(1, j, head, d)};
  }
  for (int64_t d = 0; d < dims; ++d)
    error = std::fmax(error, std::fabs(double{out[d]} - sum[d] / weights));
  return error;
}

double run() {
  const KVShape shape{1, heads, dims, page_size, DType::bf16};
  const Buffer blocks = Buffer::allocate(num_pages * page_bytes(shape).value()).value();
  const KVPlanes paged = make_planes(shape, num_pages, blocks.span()).value().front();
  std::vector<float> q = rows(2, cached, tokens), k = rows(0, cached, tokens),
                     v = rows(1, cached, tokens), old_k = rows(0, 0, cached),
                     old_v = rows(1, 0, cached);
  const int32_t before[] = {0, cached}, offsets[] = {0, tokens};
  const uint32_t first_row = 0;
  const Batch earlier{1, before, &before[1], {pages, 0, nullptr}};
  append(earlier, {.k = tensor(old_k), .v = tensor(old_v), .key = paged.key, .value = paged.value},
         serial_executor())
      .or_throw();

  // All cached keys lie before the queries, whose positions must be said: they have no keys there.
  Batch over_pages{1, offsets, &before[1], earlier.table};
  over_pages.query_positions = &before[1];
  // Among themselves they are causal.
  const Batch over_rows{1, offsets, &offsets[1], {&first_row, 0, nullptr}};
  Part parts[] = {attend_over(paged, over_pages, q),
                  attend_over({plane_of(k), plane_of(v)}, over_rows, q)};
  const Partial both[] = {{tensor(parts[0].out), parts[0].lse.data()},
                          {tensor(parts[1].out), parts[1].lse.data()}};
  std::vector<float> out(q.size());
  merge(both, tensor(out), nullptr, serial_executor()).or_throw();
  double error = 0.0;
  for (int64_t i = 0; i < tokens * heads; ++i)
    error = std::fmax(error, error_of(out.data() + i * dims, cached + i / heads, i % heads));
  std::printf("%d keys in pages, %d new rows, merged: largest error %.1e\n", cached, tokens, error);
  return error;
}

}  // namespace

int main() try { return run() < 1e-5 ? 0 : 1; } catch (const std::exception& e) {
  std::fprintf(stderr, "attend_before_append: %s\n", e.what());
  return 1;
}
