// SPDX-License-Identifier: Apache-2.0
/// examples/own_kernel.cpp: a kernel of your own over folio's caches, on the host and on a device.
///
/// Pool -> CacheTables -> collection -> one query's attention, over a cache (key by key) and over
/// an operand (run by run), checked against a plain loop. nvcc compiles the same file for devices.
#include <folio/folio.h>
#include <folio/kernels.h>

#include <cmath>
#include <cstdio>
#include <vector>

using namespace folio;
constexpr int dims = 64, page_size = 16, num_pages = 8, context = 70;
constexpr KVCacheStaticParams heads{2, dims};
using Collection = PagedKVCacheCollection<DType::bf16, heads, page_size>;
using Cache = Collection::CacheType;
using Row = Vec<float, dims>;
/// Softmax so far: the largest score, the sum of weights, the weighted sum of values.
struct Softmax {
  float largest = -INFINITY, total = 0.0f, sum[dims] = {};
  FOLIO_HOST_DEVICE void add(const float* q, const Row& key, const Row& value) {
    float score = 0.0f;
    for (int d = 0; d < dims; ++d) score += q[d] * key[d] / 8.0f;  // sqrt(dims)
    const float top = fmaxf(score, largest), before = expf(largest - top), now = expf(score - top);
    largest = top, total = total * before + now;
    for (int d = 0; d < dims; ++d) sum[d] = sum[d] * before + now * value[d];
  }
};
/// All that the caches hold of sequence b, one head: pages, layout and scales are theirs to know.
template <KVCacheT C>
FOLIO_HOST_DEVICE void over_cache(C k, C v, int b, int h, const float* q, float* o) {
  Softmax softmax;
  for (int64_t j = 0; j < k.cache_length(b); ++j)
    softmax.add(q, k.template load<dims, DType::f32>(b, h, j, 0),
                v.template load<dims, DType::f32>(b, h, j, 0));
  for (int d = 0; d < dims; ++d) o[d] = softmax.sum[d] / softmax.total;
}
/// The same, over operands of any layout: a table look-up per run of keys, strides in between.
template <MHAOperand O>
FOLIO_HOST_DEVICE void over_operand(O k, O v, int b, int h, const float* q, float* o) {
  const auto row = [](const OperandRun& run, int64_t i) {
    const void* at = run.data + i * run.slot_stride_bytes;
    return cast<float>(*static_cast<const Vec<element_t<O::dtype>, dims>*>(at));
  };
  Softmax softmax;
  for (int64_t j = 0, end = k.cache_length(b); j < end;) {
    const OperandRun keys = k.run(b, j, h), values = v.run(b, j, h);
    for (int64_t i = 0; i < keys.rows && j < end; ++i, ++j)
      if (keys.data != nullptr) softmax.add(q, row(keys, i), row(values, i));  // null: no memory
  }
  for (int d = 0; d < dims; ++d) o[d] = softmax.sum[d] / softmax.total;
}
#ifdef __CUDACC__  // caches and operands are plain values: arguments of a kernel as they are
__global__ void device_kernel(Cache k, Cache v, const float* q, float* o, float* p) {
  over_cache(k, v, int(blockIdx.x), int(threadIdx.x), q, o);
  over_operand(KVCacheMHAOperand{k}, KVCacheMHAOperand{v}, int(blockIdx.x), int(threadIdx.x), q, p);
}
#endif
/// What the model computed, exact in bf16: K (0), V (1) and q (2).
float number(int kv, int j, int h, int d) { return float((kv * 7 + j + h + d) * 37 % 129) / 64; }

int main() try {
  PagePool pool = PagePool::create({.num_pages = num_pages, .page_size = page_size}).value();
  const std::vector<TokenId> prompt(context, 7);
  const SequenceId id = pool.admit(prompt).value().id;
  pool.reserve(id, context).or_throw();
  const int64_t row = pool.row_start(id).value();
  const int32_t offsets[] = {0, 0}, contexts[] = {context};  // of this step nothing is new
  const Batch batch{1, offsets, contexts, {pool.table().entries, 0, &row}};
  const Buffer memory = Buffer::allocate(1024).value();
  const Buffer blocks = Buffer::allocate(num_pages * 2 * page_size * 2 * dims * 2).value();
  const auto tables = make_cache_tables(batch, page_size, num_pages, memory.span()).value();
  const auto all = Collection::make(blocks.span(), num_pages, 1, tables).value();
  const Cache cache[2] = {all.get_key_cache(0), all.get_value_cache(0)};
  double error = 0.0;
  for (int h = 0; h < 2; ++h) {
    float q[dims], o[2][dims];
    double total = 0.0, sum[dims] = {};
    for (int d = 0; d < dims; ++d) q[d] = number(2, 0, h, d);
    for (int j = 0; j < context; ++j) {
      double score = 0.0;
      for (int d = 0; d < dims; ++d) {
        for (int kv = 0; kv < 2; ++kv)
          cache[kv].store<1>(0, h, j, d, {{from_float<bf16>(number(kv, j, h, d))}});
        score += double(q[d]) * number(0, j, h, d) / 8;
      }
      total += score = std::exp(score);
      for (int d = 0; d < dims; ++d) sum[d] += score * number(1, j, h, d);
    }
    over_cache(cache[0], cache[1], 0, h, q, o[0]);
    over_operand(KVCacheMHAOperand{cache[0]}, KVCacheMHAOperand{cache[1]}, 0, h, q, o[1]);
    for (int i = 0; i < 2 * dims; ++i)
      error = std::fmax(error, std::fabs(o[i / dims][i % dims] - sum[i % dims] / total));
  }
  return std::printf("own kernel: largest error %.1e\n", error), error < 1e-5 ? 0 : 1;
} catch (const std::exception& e) {
  return std::fprintf(stderr, "own_kernel: %s\n", e.what()), 1;
}
