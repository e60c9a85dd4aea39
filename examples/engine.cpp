// SPDX-License-Identifier: Apache-2.0
/// examples/engine.cpp: the cache side of an inference engine: pool, quantised cache, chunked
/// prefill and decode in one batch.
///
/// A and B share a prefix, C forks from A while A decodes. Then each is generated again, alone, in
/// a cold cache and in one chunk, and must give the same tokens: attention here is reproducible per
/// query. A pool without pages is an ordinary event; all other errors end in `main`.
///
/// usage: engine [--device cpu|cuda|cuda:NUMBER]
///            on a GPU cache and attention live there, the model here
#include <folio/core/element.h>
#include <folio/folio.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <exception>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "memory.h"

using namespace folio;
using example::Memory;

namespace {

constexpr int32_t layers = 4, q_heads = 8, kv_heads = 2, head_size = 64, page_size = 16,
                  num_pages = 64;
constexpr int32_t max_batch = 4, max_context = 256;
constexpr int32_t width = q_heads * head_size, qkv_width = (q_heads + 2 * kv_heads) * head_size;

// A model in three functions. Its hidden state depends on every key and value that attention reads.
// [-1, 1)
float weight(uint64_t i) {
  return static_cast<float>(i * 0x9e3779b97f4a7c15u >> 40) * 0x1p-23f - 1.0f;
}
void embed(uint64_t token, uint64_t position, float* hidden) {
  for (uint64_t i = 0; i < width; ++i)
    hidden[i] = weight(token * width + i) + 0.5f * weight((position + 99991) * width + i);
}
void project(int32_t layer, const float* hidden, float* qkv) {
  for (int32_t i = 0; i < qkv_width; ++i)
    qkv[i] = 2 * hidden[(5 * i + layer) % width] - hidden[(11 * i + 7 * layer) % width];
}
void add(const float* attended, float* hidden) {
  for (int32_t i = 0; i < width; ++i) hidden[i] = 0.5f * hidden[i] + 2.0f * attended[i];
}
TokenId best(const float* hidden) {
  return static_cast<TokenId>(std::max_element(hidden, hidden + width) - hidden);
}

/// The engine's own threads, as folio sees them: two functions. (A real engine wakes threads that
/// it has.)
void on_two_threads(void*, int64_t n, void (*task)(void* arg, int64_t i) noexcept, void* arg) {
  std::atomic<int64_t> next = 0;
  const auto work = [&] {
    for (int64_t i; (i = next++) < n;) task(arg, i);
  };
  std::jthread other;
  try {
    other = std::jthread(work);
  } catch (const std::exception&) {  // the system has no thread left: this one does all the work
  }
  work();
}
constexpr Executor two_threads{nullptr, [](void*) { return 2; }, on_two_threads};

struct Request {
  const char* name = "";
  std::vector<TokenId> tokens = {};  // prompt, then what has been generated
  size_t prompt = 0, wanted = 0;     // tokens at the beginning and in the end
  SequenceId id = {};
  int32_t done = 0, found = 0;  // tokens in the cache; how many were there at admission
  bool is_finished() const { return tokens.size() >= wanted; }
};

/// Quantised, with one f32 scale per token and head.
constexpr KVShape shape{layers,         kv_heads,         head_size, page_size,
                        DType::f8_e4m3, /*is_mla=*/false, DType::f32};

struct Engine {
  Device device;
  int32_t step_tokens;
  Executor executor;   // of a CPU
  Stream stream = {};  // of a GPU: the null stream
  PagePool pool =
      PagePool::create({.num_pages = num_pages, .page_size = page_size, .max_sequences = max_batch})
          .value();
  // geometry selects a kernel, or says why there is none; memory comes after
  Attention attention =
      Attention::create(problem(make_planes(shape, num_pages, {}, {}).value()[0]), limits(), device)
          .value();
  // the engine owns all memory; folio says how much it wants
  example::CurrentDevice current{device};
  Memory blocks{device, num_pages* page_bytes(shape).value()},
      scales{device, num_pages* scale_page_bytes(shape).value()},
      plan_memory{device, attention.plan_bytes()}, workspace{device, attention.workspace_bytes()};
  std::vector<KVPlanes> planes =
      make_planes(shape, num_pages, blocks.span(), scales.span()).value();
  // what a step reads and writes, where attention runs
  Memory offsets_there{device, (max_batch + 1) * 4}, lengths_there{device, max_batch * 4},
      row_starts_there{device, max_batch * 8},
      table_there{device, max_batch* pool.table().row_stride * 4},
      copies_there{device, num_pages* int64_t{sizeof(PageCopy)}},
      qkv_there{device, int64_t{step_tokens} * qkv_width * 2},
      out_there{device, int64_t{step_tokens} * width * 4};

  bool is_on_gpu() const { return device.kind == Device::Kind::cuda; }
  AttentionLimits limits() const {
    return {max_batch, step_tokens, max_context,
            is_on_gpu() ? 0 : executor.concurrency(executor.context)};
  }
  AttentionProblem problem(const KVPlanes& geometry) const {
    AttentionProblem p{.key = geometry.key, .value = geometry.value, .q_heads = q_heads};
    p.q_dtype = DType::bf16;
    p.out_dtype = DType::f32;
    p.reproducible = Reproducible::per_query;
    return p;
  }

  // folio's calls, as the device has them: on threads, or put on a stream, where nothing waits.
  Status prepare_workspace() {
    return is_on_gpu() ? prepare_async(attention, workspace.span(), stream) : Status();
  }
  Status run_copies(std::span<const PageCopy> copies) {
    if (!is_on_gpu()) return copy_pages(planes, planes, copies, executor);
    return copy_pages_async(planes, planes, {copies_there.take(copies), copies.size()}, device,
                            stream);
  }
  Result<AttentionPlan> make_plan(const Batch& batch) {
    return is_on_gpu() ? plan_async(attention, batch, plan_memory.span(), stream)
                       : plan(attention, batch, plan_memory.span());
  }
  Status write(const Batch& batch, const AppendArgs& args) {
    return is_on_gpu() ? append_async(batch, args, device, stream) : append(batch, args, executor);
  }
  Status read(const AttentionPlan& work, const AttentionArgs& args) {
    return is_on_gpu() ? attend_async(attention, work, args, workspace.span(), stream)
                       : attend(attention, work, args, workspace.span(), executor);
  }

  Request* admit(Request& r) {
    const Admission admission = pool.admit(r.tokens).value();
    r.id = admission.id;
    r.done = r.found = admission.cached_tokens;  // a prefix hit: computing starts behind it
    return &r;
  }

  /// One step: as many tokens of each request as there is room for, then the next token of those
  /// whose prompt is complete.
  void step(std::span<Request* const> running) {
    std::vector<Request*> rows;
    std::vector<SequenceId> ids;
    std::vector<int32_t> offsets{0}, lengths;
    for (Request* r : running) {
      const int32_t n = std::min(step_tokens - offsets.back(), int32_t(r->tokens.size()) - r->done);
      if (n == 0) continue;
      const Status reserved = pool.reserve(r->id, n);
      // nothing has changed: the request waits
      if (reserved.code() == Errc::out_of_pages) continue;
      reserved.or_throw();
      rows.push_back(r), ids.push_back(r->id);
      offsets.push_back(offsets.back() + n), lengths.push_back(r->done + n);
    }
    if (rows.empty()) throw Error({Errc::out_of_pages, "engine: no request can run"});
    // what forks have left to do
    run_copies(pool.take_copies()).or_throw();

    std::vector<int64_t> row_starts(ids.size());
    pool.batch_rows(ids, row_starts).or_throw();
    const PageTable all = pool.table();
    const std::span entries(all.entries, size_t(max_batch * all.row_stride));
    const PageTable table{table_there.take(entries), all.row_stride,
                          row_starts_there.take(std::span<const int64_t>(row_starts))};
    const Batch batch{int32_t(rows.size()), offsets_there.take(std::span<const int32_t>(offsets)),
                      lengths_there.take(std::span<const int32_t>(lengths)), table};
    const AttentionPlan work = make_plan(batch).value();
    // these pages stay, whatever becomes of their sequences
    const StepTicket ticket = pool.begin_step(ids).value();
    const std::vector<float> hidden = forward(batch, offsets, work, rows);
    pool.end_step(ticket).or_throw();

    for (size_t b = 0; b < rows.size(); ++b) {
      Request& r = *rows[b];
      // now findable
      pool.commit(r.id, std::span(r.tokens).subspan(size_t(r.done), size_t(lengths[b] - r.done)))
          .or_throw();
      r.done = lengths[b];
      if (r.done == int32_t(r.tokens.size()))
        r.tokens.push_back(best(&hidden[size_t(offsets[b + 1] - 1) * width]));
    }
  }

  /// All layers. Returns the hidden states [tokens, width].
  std::vector<float> forward(const Batch& batch, std::span<const int32_t> offsets,
                             const AttentionPlan& work, std::span<Request* const> rows) {
    const int32_t tokens = offsets.back();
    std::vector<float> hidden(size_t(tokens) * width), attended(hidden.size()),
        projected(qkv_width);
    std::vector<bf16> qkv(size_t(tokens) * qkv_width);
    // of the fused projection, in place: strides are in bytes
    const auto slice = [&](int32_t first, int32_t heads) {
      const bf16* const data = qkv_there.data<bf16>() + first * head_size;
      return ConstTensor<3>{
          data, DType::bf16, {tokens, heads, head_size}, {qkv_width * 2, head_size * 2, 2}};
    };
    const ConstTensor<3> q = slice(0, q_heads), k = slice(q_heads, kv_heads),
                         v = slice(q_heads + kv_heads, kv_heads);
    const AnyTensor<3> out =
        dense_tensor<3>(out_there.data<float>(), DType::f32, {tokens, q_heads, head_size});

    for (size_t b = 0; b < rows.size(); ++b)
      for (int32_t t = offsets[b], p = rows[b]->done; t < offsets[b + 1]; ++t, ++p)
        embed(uint64_t(rows[b]->tokens[size_t(p)]), uint64_t(p), &hidden[size_t(t) * width]);
    for (int32_t layer = 0; layer < layers; ++layer) {
      const auto& [key, value] = planes[size_t(layer)];
      for (size_t t = 0; t < size_t(tokens); ++t) {
        project(layer, &hidden[t * width], projected.data());
        std::transform(projected.begin(), projected.end(), &qkv[t * qkv_width], from_float<bf16>);
      }
      qkv_there.take(std::span<const bf16>(qkv));
      write(batch, {.k = k, .v = v, .key = key, .value = value}).or_throw();
      read(work, {.q = q, .out = out, .key = key, .value = value}).or_throw();
      out_there.give(std::span(attended));
      for (size_t t = 0; t < size_t(tokens); ++t) add(&attended[t * width], &hidden[t * width]);
    }
    return hidden;
  }
};

/// Runs until all are finished. B joins when A's prompt is in the cache; C forks from A two tokens
/// later and goes another way.
void serve(Engine& engine, Request& a, Request& b, Request& c) {
  engine.prepare_workspace().or_throw();
  for (std::vector<Request*> running{engine.admit(a)}; !running.empty();) {
    if (a.tokens.size() == a.prompt + 1 && b.id == SequenceId{}) running.push_back(engine.admit(b));
    if (a.tokens.size() == a.prompt + 3 && c.tokens.empty()) {
      c = {c.name, a.tokens, a.tokens.size(), c.wanted, engine.pool.fork(a.id, a.done).value(),
           a.done, a.done};
      c.tokens.back() ^= 1;  // full pages are shared; the cut one is copied before the next append
      running.push_back(&c);
    }
    engine.step(running);
    for (Request* r : running)
      if (r->is_finished()) engine.pool.release(r->id).or_throw();
    std::erase_if(running, [](Request* r) { return r->is_finished(); });
  }
}

/// "cpu", "cuda", which is the first GPU, or "cuda:1".
Device device_of(std::string_view name) {
  if (name == "cpu") return {};
  Device device{Device::Kind::cuda, 0};
  if (name == "cuda") return device;
  const std::string_view number = name.starts_with("cuda:") ? name.substr(5) : "";
  const char* const end = number.data() + number.size();
  const auto [last, error] = std::from_chars(number.data(), end, device.index);
  if (error != std::errc() || last != end)
    fail(Errc::invalid_argument, "engine: --device is {}, expected cpu, cuda or cuda:NUMBER", name)
        .or_throw();
  return device;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 1 && (argc != 3 || argv[1] != std::string_view("--device")))
    fail(Errc::invalid_argument, "usage: {} [--device cpu|cuda|cuda:NUMBER]", argv[0]).or_throw();
  const Device device = device_of(argc == 3 ? argv[2] : "cpu");

  Engine engine{.device = device, .step_tokens = 32, .executor = two_threads};
  Request a{"A", {}, 100, 110}, b{"B", {}, 90, 100}, c{"C", {}, 0, 112};
  for (int32_t i = 0; i < 100; ++i) a.tokens.push_back(i);
  // the first 70 tokens are A's
  for (int32_t i = 0; i < 90; ++i) b.tokens.push_back(i < 70 ? i : 300 + i);
  serve(engine, a, b, c);
  for (const Request* r : {&a, &b, &c}) {
    const auto own = r->tokens.begin() + int64_t(r->prompt);
    Engine cold{.device = device, .step_tokens = max_context, .executor = serial_executor()};
    cold.prepare_workspace().or_throw();
    Request alone{r->name, {r->tokens.begin(), own}, r->prompt, r->wanted};
    for (Request* const running[] = {cold.admit(alone)}; !alone.is_finished();) cold.step(running);
    if (alone.tokens != r->tokens)
      throw Error(fail(Errc::internal, "engine: {} alone gets other tokens", r->name));
    std::printf("%s: %3d tokens, %3d of them found in the cache, then", r->name, int(r->prompt),
                r->found);
    std::for_each(own, r->tokens.end(), [](TokenId token) { std::printf(" %d", token); });
    std::printf("; alone the same\n");
  }
  return 0;
} catch (const std::exception& error) {  // folio::Error, or the vectors' std::bad_alloc
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
