// SPDX-License-Identifier: Apache-2.0
/// examples/foreign_caches.cpp: other engines' caches as views, without copying.
///
/// Five engines hold the same keys and values, each in its own order and behind its own kind of
/// table. Each fills its memory by its own indices; folio gets strides in bytes and the table as it
/// is. The outputs of `attend` must be the same, bit for bit.
#include <folio/core/element.h>
#include <folio/folio.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

using namespace folio;

namespace {

constexpr int32_t batch_size = 3, heads = 2, q_heads = 8, head_size = 64, page_size = 16,
                  num_pages = 24;
// keys of each sequence, this step's tokens included
constexpr int32_t contexts[batch_size] = {37, 100, 64};
// a decoding request and two chunks of prefill
constexpr int32_t query_offsets[batch_size + 1] = {0, 1, 6, 8};
constexpr int32_t tokens = query_offsets[batch_size], context_max = 100, columns = 7;
constexpr int64_t row = heads * head_size;  // elements of one token, all heads

/// Small enough to be exact in bf16 and in f16, so that every cache holds the same numbers.
float element(int64_t kv, int64_t b, int64_t j, int64_t head, int64_t d) {
  uint64_t x = static_cast<uint64_t>((((kv * 8 + b) * 1024 + j) * 64 + head) * 1024 + d) *
               0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
  return static_cast<float>(static_cast<int64_t>(x >> 56) - 128) / 64.0f;
}

/// Where engines with pages keep logical page p of sequence b, and where engines without keep token
/// j: scattered, no two alike.
int64_t page_id(int64_t b, int64_t p) { return (b * columns + p) * 5 % num_pages; }
int64_t slot_id(int64_t b, int64_t j) { return (b * 128 + j) * 101 % (num_pages * page_size); }

std::vector<uint32_t> pages_of(int64_t b) {
  std::vector<uint32_t> pages;
  for (int64_t p = 0; p * page_size < contexts[b]; ++p)
    pages.push_back(static_cast<uint32_t>(page_id(b, p)));
  return pages;
}

/// An engine's memory (16-bit elements, NaN where nobody wrote), and how folio sees it.
struct Cache {
  std::vector<uint16_t> memory = std::vector<uint16_t>(4 * num_pages * page_size * row, 0xffff);
  KVPlanes planes;
  PageTable table;

  /// Writes every element of every cached token to memory[index(kv, b, j, head, d)].
  template <class T, class Index>
  void fill(Index index) {
    for (int64_t kv = 0; kv < 2; ++kv)
      for (int64_t b = 0; b < batch_size; ++b)
        for (int64_t j = 0; j < contexts[b]; ++j)
          for (int64_t h = 0; h < heads; ++h)
            for (int64_t d = 0; d < head_size; ++d)
              memory[static_cast<size_t>(index(kv, b, j, h, d))] =
                  from_float<T>(element(kv, b, j, h, d)).bits;
  }
  /// A plane that begins at an element of the memory; strides from page to page, slot to slot and
  /// head to head, in elements.
  PagedKVView plane(DType dtype, int64_t first, int32_t slots, int64_t page, int64_t slot,
                    int64_t head) {
    const int64_t slots_in_all = num_pages * page_size;
    return {memory.data() + first, dtype,    heads,    head_size, slots,
            slots_in_all / slots,  page * 2, slot * 2, head * 2,  {}};
  }
};

/// The seeds' tensor [pages, 2, layers, slots, heads, dims]; this is the second of two layers. A
/// dense, padded table.
struct Seeds : Cache {
  Buffer entries;

  Seeds() {
    const KVShape shape{.num_layers = 2,
                        .num_heads = heads,
                        .head_size = head_size,
                        .page_size = page_size,
                        .dtype = DType::bf16};
    planes = make_planes(shape, num_pages, {memory.data(), static_cast<int64_t>(memory.size()) * 2})
                 .value()[1];
    fill<bf16>([](int64_t kv, int64_t b, int64_t j, int64_t h, int64_t d) {
      return (((page_id(b, j / page_size) * 2 + kv) * 2 + 1) * page_size + j % page_size) * row +
             h * head_size + d;
    });
    entries = Buffer::allocate(PageTableBuilder::table_bytes(batch_size, columns).value()).value();
    PageTableBuilder builder =
        PageTableBuilder::make(batch_size, columns, num_pages, entries.span()).value();
    for (int64_t b = 0; b < batch_size; ++b) builder.set_row(b, pages_of(b)).or_throw();
    table = builder.table();
  }
};

/// vLLM's LBHNC [blocks, heads, slots, 2, dims]: K and V of a token and head side by side. A dense
/// int32 table without padding.
struct Vllm : Cache {
  std::vector<int32_t> block_table = std::vector<int32_t>(batch_size * columns, -1);

  Vllm() {
    fill<bf16>([](int64_t kv, int64_t b, int64_t j, int64_t h, int64_t d) {
      return (((page_id(b, j / page_size) * heads + h) * page_size + j % page_size) * 2 + kv) *
                 head_size +
             d;
    });
    for (int64_t b = 0; b < batch_size; ++b)
      for (size_t p = 0; p < pages_of(b).size(); ++p)
        block_table[b * columns + p] = static_cast<int32_t>(pages_of(b)[p]);
    constexpr int64_t slot = 2 * head_size, head = page_size * slot;
    planes = {plane(DType::bf16, 0, page_size, heads * head, slot, head),
              plane(DType::bf16, head_size, page_size, heads * head, slot, head)};
    table = {reinterpret_cast<const uint32_t*>(block_table.data()), columns, nullptr};
  }
};

/// FlashInfer's NHD [pages, 2, slots, heads, dims] and its CSR table: page ids one after the other,
/// indptr says where rows begin.
struct FlashInfer : Cache {
  std::vector<uint32_t> indices;
  std::vector<int64_t> indptr{0};

  FlashInfer() {
    fill<bf16>([](int64_t kv, int64_t b, int64_t j, int64_t h, int64_t d) {
      return ((page_id(b, j / page_size) * 2 + kv) * page_size + j % page_size) * row +
             h * head_size + d;
    });
    planes = {plane(DType::bf16, 0, page_size, 2 * page_size * row, row, head_size),
              plane(DType::bf16, page_size * row, page_size, 2 * page_size * row, row, head_size)};
    for (int64_t b = 0; b < batch_size; ++b) {
      for (const uint32_t page : pages_of(b)) indices.push_back(page);
      indptr.push_back(static_cast<int64_t>(indices.size()));
    }
    table = {indices.data(), 0, indptr.data()};
  }
};

/// Caches without pages, [slots, heads, dims] for K and again for V: pages of one token. Sequences
/// are rows of a larger table of slots, as in SGLang's req_to_token, here rows 4, 0 and 2.
/// llama.cpp's f16 cells are the same with another element type.
template <class T>
struct Slots : Cache {
  std::vector<int32_t> req_to_token = std::vector<int32_t>(5 * 128, -1);
  std::vector<int64_t> row_starts{4 * 128, 0 * 128, 2 * 128};

  Slots() {
    constexpr int64_t value = num_pages * page_size * row;
    this->template fill<T>([](int64_t kv, int64_t b, int64_t j, int64_t h, int64_t d) {
      return kv * value + slot_id(b, j) * row + h * head_size + d;
    });
    planes = {plane(dtype_of<T>, 0, 1, row, row, head_size),
              plane(dtype_of<T>, value, 1, row, row, head_size)};
    for (size_t b = 0; b < batch_size; ++b)
      for (int64_t j = 0; j < contexts[b]; ++j)
        req_to_token[static_cast<size_t>(row_starts[b] + j)] =
            static_cast<int32_t>(slot_id(static_cast<int64_t>(b), j));
    table = {reinterpret_cast<const uint32_t*>(req_to_token.data()), 0, row_starts.data()};
  }
};

/// [tokens, q_heads, head_size] of causal attention over one cache.
std::vector<float> attend_over(const Cache& cache, std::vector<float>& q) {
  AttentionProblem problem{.key = cache.planes.key,
                           .value = cache.planes.value,
                           .q_heads = q_heads,
                           .q_dtype = DType::f32};
  problem.out_dtype = DType::f32;
  const Attention attention =
      Attention::create(problem, {.batch = batch_size, .tokens = tokens, .context = context_max})
          .value();
  const Buffer plan_memory = Buffer::allocate(attention.plan_bytes()).value();
  const Buffer workspace = Buffer::allocate(attention.workspace_bytes()).value();
  const Batch batch{.size = batch_size,
                    .query_offsets = query_offsets,
                    .context_lengths = contexts,
                    .table = cache.table};
  const AttentionPlan step = plan(attention, batch, plan_memory.span()).value();
  std::vector<float> out(q.size());
  AttentionArgs args{.key = cache.planes.key, .value = cache.planes.value};
  args.q = dense_tensor<3>(q.data(), DType::f32, {tokens, q_heads, head_size});
  args.out = dense_tensor<3>(out.data(), DType::f32, {tokens, q_heads, head_size});
  attend(attention, step, args, workspace.span(), default_executor()).or_throw();
  return out;
}

/// How far a head of the first sequence's query is from the formula in double: equal outputs must
/// be right ones, too.
double error_of(const float* q, const float* out, int64_t head) {
  double sum[head_size] = {}, total = 0.0, largest = 0.0;
  for (int64_t j = 0; j < contexts[0]; ++j) {
    double s = 0.0;
    for (int64_t d = 0; d < head_size; ++d) s += double{q[d]} * double{element(0, 0, j, head, d)};
    total += s = std::exp(s / std::sqrt(double{head_size}));
    for (int64_t d = 0; d < head_size; ++d) sum[d] += s * double{element(1, 0, j, head, d)};
  }
  for (int64_t d = 0; d < head_size; ++d)
    largest = std::fmax(largest, std::fabs(sum[d] / total - double{out[d]}));
  return largest;
}

bool run() {
  std::vector<float> q(static_cast<size_t>(tokens * q_heads * head_size));
  for (size_t i = 0; i < q.size(); ++i) q[i] = element(2, 0, 0, 0, static_cast<int64_t>(i));
  const std::vector<float> expected = attend_over(Seeds(), q);
  double error = 0.0;
  for (int64_t h = 0; h < q_heads; ++h)
    error = std::fmax(error,
                      error_of(&q[h * head_size], &expected[h * head_size], h * heads / q_heads));
  std::printf("%-42s largest error %.1e\n", "seeds  [pages, 2, layers, slots, heads, d]", error);
  bool same = error < 1e-5;
  const auto compare = [&](const char* name, const Cache& cache) {
    const bool equal = std::memcmp(attend_over(cache, q).data(), expected.data(),
                                   expected.size() * sizeof(float)) == 0;
    std::printf("%-42s %s\n", name, equal ? "identical bits" : "DIFFERENT");
    same = same && equal;
  };
  compare("vLLM  [blocks, heads, slots, 2, d]", Vllm());
  compare("FlashInfer  [pages, 2, slots, heads, d]", FlashInfer());
  compare("SGLang  [slots, heads, d]", Slots<bf16>());
  compare("llama.cpp  [cells, heads, d] of f16", Slots<f16>());
  return same;
}

}  // namespace

int main() try { return run() ? 0 : 1; } catch (const std::exception& e) {
  std::fprintf(stderr, "foreign_caches: %s\n", e.what());
  return 1;
}
