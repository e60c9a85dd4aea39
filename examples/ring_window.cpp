// SPDX-License-Identifier: Apache-2.0
/// examples/ring_window.cpp: a sliding window in a ring: position p lives in slot p mod ring, for
/// ever in the same few pages.
///
/// The ring is whole pages. A step's table row lists them in the order of positions, the page of
/// the oldest keys first, and key_positions says where the row begins: masks, ALiBi, append and
/// rotate then mean what they always mean, for one new token or for many. The page that is being
/// overwritten may stand at both ends of the row: its old slots are read at the front, its new ones
/// written at the back.
///
/// The ring holds window + new tokens - 1 keys at least, since `append` comes before `attend` and a
/// chunk's last token must not overwrite what its first one sees. With fewer slots, attend first:
/// examples/attend_before_append.cpp.
#include <folio/folio.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

using namespace folio;

namespace {

constexpr int32_t heads = 2, dims = 64, page_size = 16, window = 48, chunk = 17;
constexpr int32_t ring_pages = 4;
static_assert(ring_pages * page_size >= window + chunk - 1);

/// The first two dimensions are rotated, by so much a position.
constexpr double angle = 0.3;

/// K (kv = 0), V (1) and q (2) of a position.
float element(int64_t kv, int64_t position, int64_t head, int64_t d) {
  return static_cast<float>((kv * 7 + position * 31 + head * 5 + d * 3) * 37 % 129 - 64) / 64.0f;
}

/// Attention of a head's query in double over the window's positions.
double error_of(const float* out, int64_t position, int64_t head) {
  double total = 0.0, sum[dims] = {}, error = 0.0;
  for (int64_t j = std::max<int64_t>(0, position - window + 1); j <= position; ++j) {
    const auto q = [&](int64_t d) { return double{element(2, position, head, d)}; };
    const auto k = [&](int64_t d) { return double{element(0, j, head, d)}; };
    const double turn = angle * static_cast<double>(j - position);
    double score =
        (q(0) * k(0) + q(1) * k(1)) * std::cos(turn) + (q(1) * k(0) - q(0) * k(1)) * std::sin(turn);
    for (int64_t d = 2; d < dims; ++d) score += q(d) * k(d);
    total += score = std::exp(score / 8.0);
    for (int64_t d = 0; d < dims; ++d) sum[d] += score * double{element(1, j, head, d)};
  }
  for (int64_t d = 0; d < dims; ++d)
    error = std::fmax(error, std::fabs(double{out[d]} - sum[d] / total));
  return error;
}

double run() {
  const KVShape shape{.num_layers = 1,
                      .num_heads = heads,
                      .head_size = dims,
                      .page_size = page_size,
                      .dtype = DType::f32};
  const Buffer blocks = Buffer::allocate(ring_pages * page_bytes(shape).value()).value();
  const KVPlanes kv = make_planes(shape, ring_pages, blocks.span()).value().front();
  AttentionProblem problem{.key = kv.key, .value = kv.value, .q_heads = heads};
  problem.q_dtype = problem.out_dtype = DType::f32;
  problem.mask = Mask::sliding_window(window);
  const AttentionLimits limits{.tokens = chunk, .context = (ring_pages + 1) * page_size};
  const Attention attention = Attention::create(problem, limits).value();
  const Buffer plan_memory = Buffer::allocate(attention.plan_bytes()).value();
  const Buffer workspace = Buffer::allocate(attention.workspace_bytes()).value();
  const uint32_t ring[ring_pages] = {2, 0, 3, 1};  // whatever pages there are

  std::vector<float> cos_sin;
  for (int p = 0; p < 150; ++p)
    for (const double x : {std::cos(angle * p), std::sin(angle * p)})
      cos_sin.push_back(static_cast<float>(x));
  const Rope rope{.cos_sin = cos_sin.data(), .rows = 150, .dims = 2};

  double error = 0.0;
  int32_t done = 0;  // positions in the cache
  for (const int32_t tokens : {17, 17, 17, 1, 1, 5, 17, 1, 17, 17, 1, 1, 1, 17, 3, 17}) {
    const int32_t end = done + tokens, last = (end - 1) / page_size;
    const int32_t first = std::max(0, last - ring_pages);
    uint32_t row[ring_pages + 1];
    for (int32_t page = first; page <= last; ++page) row[page - first] = ring[page % ring_pages];
    const int32_t key_position = first * page_size, context = end - key_position;
    const int32_t offsets[] = {0, tokens};
    const Batch batch{.size = 1,
                      .query_offsets = offsets,
                      .context_lengths = &context,
                      .table = {row, 0, nullptr},
                      .key_positions = &key_position};

    std::vector<float> data[3], out(static_cast<size_t>(tokens) * heads * dims);
    for (int64_t kind = 0; kind < 3; ++kind)
      for (int64_t i = 0; i < tokens * heads * dims; ++i)
        data[kind].push_back(element(kind, done + i / (heads * dims), i / dims % heads, i % dims));
    const auto tensor = [&](std::vector<float>& of) {
      return dense_tensor<3>(of.data(), DType::f32, {tokens, heads, dims});
    };
    append(batch,
           {.k = tensor(data[0]),
            .v = tensor(data[1]),
            .key = kv.key,
            .value = kv.value,
            .rope = &rope},
           serial_executor())
        .or_throw();
    const AnyTensor<3> q = tensor(data[2]);
    rotate(batch, {.q = q, .out = q, .rope = &rope}, serial_executor()).or_throw();
    const AttentionPlan step = plan(attention, batch, plan_memory.span()).value();
    attend(attention, step, {.q = q, .out = tensor(out), .key = kv.key, .value = kv.value},
           workspace.span(), serial_executor())
        .or_throw();
    for (int64_t i = 0; i < tokens * heads; ++i)
      error = std::fmax(error,
                        error_of(&out[static_cast<size_t>(i * dims)], done + i / heads, i % heads));
    done = end;
  }
  std::printf("%d positions through %d slots: largest error %.1e\n", done, ring_pages * page_size,
              error);
  return error;
}

}  // namespace

int main() try { return run() < 1e-5 ? 0 : 1; } catch (const std::exception& e) {
  std::fprintf(stderr, "ring_window: %s\n", e.what());
  return 1;
}
