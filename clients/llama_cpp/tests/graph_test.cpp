// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/tests/graph_test.cpp: graphs on the device beside the same on ggml's CPU
/// backend, through ggml's public interface and the module as a program loads it.
#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml.h>
#include <gmock/gmock.h>

#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace ggml_folio {
namespace {

struct FreeBackend {
  void operator()(ggml_backend_t backend) const { ggml_backend_free(backend); }
};
using Backend = std::unique_ptr<ggml_backend, FreeBackend>;

/// The device, loaded once from the path that the build gives.
ggml_backend_dev_t device() {
  static const ggml_backend_reg_t loaded = ggml_backend_load(FOLIO_GGML_MODULE);
  return loaded == nullptr ? nullptr : ggml_backend_reg_dev_get(loaded, 0);
}

struct Case {
  int64_t head = 64, queries = 5, heads = 4, kv_heads = 2, keys = 70, streams = 1;
  int layers = 2;
  bool has_computed_mask = false;  ///< the graph itself makes the mask's f16 of an f32
  bool has_mask = true;
  int64_t odd_head = 0;  ///< of one more layer, which folio refuses
  int threads = 2;
};

/// A graph of a case: layers one after another, each adding to the first's queries.
class Graph {
 public:
  explicit Graph(const Case& c) : case_(c) {
    context_.reset(
        ggml_init({.mem_size = size_t{1} << 20, .mem_buffer = nullptr, .no_alloc = true}));
    graph_ = ggml_new_graph(context_.get());
    ggml_tensor* mask = c.has_mask ? mask_of(c) : nullptr;
    for (int layer = 0; layer < c.layers; ++layer) add_attention(c.head, mask);
    if (c.odd_head > 0) add_attention(c.odd_head, mask);
  }

  /// Runs it and returns all layers' outputs.
  std::vector<float> run(ggml_backend_t backend) {
    const ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(context_.get(), backend);
    fill();
    EXPECT_EQ(ggml_backend_graph_compute(backend, graph_), GGML_STATUS_SUCCESS);
    std::vector<float> all;
    for (ggml_tensor* out : outputs_) {
      std::vector<float> values(static_cast<size_t>(ggml_nelements(out)));
      ggml_backend_tensor_get(out, values.data(), 0, ggml_nbytes(out));
      all.insert(all.end(), values.begin(), values.end());
    }
    ggml_backend_buffer_free(buffer);
    return all;
  }

  const std::vector<ggml_tensor*>& outputs() const { return outputs_; }

 private:
  struct FreeContext {
    void operator()(ggml_context* context) const { ggml_free(context); }
  };

  ggml_tensor* input(ggml_type type, int64_t n0, int64_t n1, int64_t n2, int64_t n3) {
    inputs_.push_back(ggml_new_tensor_4d(context_.get(), type, n0, n1, n2, n3));
    return inputs_.back();
  }

  ggml_tensor* mask_of(const Case& c) {
    mask_ = ggml_new_tensor_4d(context_.get(), c.has_computed_mask ? GGML_TYPE_F32 : GGML_TYPE_F16,
                               c.keys, c.queries, 1, c.streams);
    return c.has_computed_mask ? ggml_cast(context_.get(), mask_, GGML_TYPE_F16) : mask_;
  }

  void add_attention(int64_t head, ggml_tensor* mask) {
    ggml_tensor* q = input(GGML_TYPE_F32, head, case_.queries, case_.heads, case_.streams);
    ggml_tensor* k = input(GGML_TYPE_F16, head, case_.keys, case_.kv_heads, case_.streams);
    ggml_tensor* v = input(GGML_TYPE_F16, head, case_.keys, case_.kv_heads, case_.streams);
    ggml_tensor* out = ggml_flash_attn_ext(context_.get(), q, k, v, mask, 0.125f, 0.0f, 0.0f);
    ggml_build_forward_expand(graph_, out);
    outputs_.push_back(out);
  }

  /// The same numbers in every graph of a case; causal masks.
  void fill() {
    std::mt19937 random(7);
    std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
    for (ggml_tensor* tensor : inputs_) {
      std::vector<float> values(static_cast<size_t>(ggml_nelements(tensor)));
      for (float& value : values) value = uniform(random);
      set(tensor, values);
    }
    if (mask_ == nullptr) return;
    std::vector<float> values;
    for (int64_t s = 0; s < case_.streams; ++s)
      for (int64_t t = 0; t < case_.queries; ++t)
        for (int64_t j = 0; j < case_.keys; ++j)
          values.push_back(j <= case_.keys - case_.queries + t - s ? 0.0f : -INFINITY);
    set(mask_, values);
  }

  static void set(ggml_tensor* tensor, const std::vector<float>& values) {
    if (tensor->type == GGML_TYPE_F32)
      return ggml_backend_tensor_set(tensor, values.data(), 0, ggml_nbytes(tensor));
    std::vector<ggml_fp16_t> halves(values.size());
    ggml_fp32_to_fp16_row(values.data(), halves.data(), static_cast<int64_t>(values.size()));
    ggml_backend_tensor_set(tensor, halves.data(), 0, ggml_nbytes(tensor));
  }

  Case case_;
  std::unique_ptr<ggml_context, FreeContext> context_;
  ggml_cgraph* graph_ = nullptr;
  ggml_tensor* mask_ = nullptr;
  std::vector<ggml_tensor*> inputs_;
  std::vector<ggml_tensor*> outputs_;
};

/// Two layers served, one refused.
const auto counters = testing::HasSubstr("ggml-folio: nodes 2 refused 1 graphs 1 ");

Backend make(ggml_backend_dev_t dev, int threads) {
  Backend backend(ggml_backend_dev_init(dev, nullptr));
  ggml_backend_cpu_set_n_threads(backend.get(), threads);
  return backend;
}

ggml_backend_dev_t cpu() { return ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU); }

/// Runs the case on both; the outputs agree as far as ggml's f16 sums allow.
void expect_same(const Case& c) {
  const Backend ours = make(device(), c.threads), theirs = make(cpu(), c.threads);
  const std::vector<float> expected = Graph(c).run(theirs.get());
  Graph graph(c);
  for (int again = 0; again < 2; ++again) {
    const std::vector<float> found = graph.run(ours.get());
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 2e-3f) << i;
    if (again == 0) graph = Graph(c);
  }
}

TEST(Graph, the_module_is_loaded) { ASSERT_NE(device(), nullptr); }

TEST(Graph, the_backend_is_of_the_cpu_device) {
  const Backend backend = make(device(), 1);
  EXPECT_EQ(ggml_backend_get_device(backend.get()), cpu());
  EXPECT_TRUE(ggml_backend_is_cpu(backend.get()));
  EXPECT_STREQ(ggml_backend_name(backend.get()), "folio");
  EXPECT_EQ(ggml_backend_dev_type(device()), GGML_BACKEND_DEVICE_TYPE_ACCEL);
}

TEST(Graph, layers_share_a_mask) { expect_same({}); }
TEST(Graph, without_a_mask_all_is_seen) { expect_same({.has_mask = false}); }
TEST(Graph, one_query_is_served) { expect_same({.queries = 1}); }
TEST(Graph, one_thread_serves_all) { expect_same({.threads = 1}); }
TEST(Graph, more_threads_than_tasks_serve_all) {
  expect_same({.queries = 1, .keys = 3, .threads = 7});
}
TEST(Graph, a_mask_that_the_graph_makes_is_read) { expect_same({.has_computed_mask = true}); }
TEST(Graph, streams_apart_are_served) { expect_same({.streams = 3}); }
TEST(Graph, streams_apart_are_served_with_a_mask_that_the_graph_makes) {
  expect_same({.streams = 3, .has_computed_mask = true});
}
TEST(Graph, a_refused_layer_is_left_to_the_cpu) { expect_same({.odd_head = 65}); }
TEST(Graph, nothing_but_a_refused_layer_is_left_to_the_cpu) {
  expect_same({.layers = 0, .odd_head = 65});
}

TEST(Graph, nodes_are_what_they_were) {
  Graph graph({});
  const ggml_tensor before = *graph.outputs()[0];
  const Backend backend = make(device(), 2);
  (void)graph.run(backend.get());
  const ggml_tensor& after = *graph.outputs()[0];
  EXPECT_EQ(after.op, GGML_OP_FLASH_ATTN_EXT);
  EXPECT_EQ(std::memcmp(before.op_params, after.op_params, sizeof(before.op_params)), 0);
}

TEST(Graph, threads_may_change_between_runs) {
  const Backend backend = make(device(), 1);
  const std::vector<float> expected = Graph({}).run(backend.get());
  for (const int threads : {2, 5, 3, 1}) {
    ggml_backend_cpu_set_n_threads(backend.get(), threads);
    const std::vector<float> found = Graph({}).run(backend.get());
    for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-5f) << i;
  }
}

TEST(Graph, the_log_says_once_which_layers_are_served) {
  std::string lines;
  ggml_log_set(
      [](ggml_log_level, const char* text, void* to) { *static_cast<std::string*>(to) += text; },
      &lines);
  const Backend backend = make(device(), 2);
  for (int step = 0; step < 3; ++step)
    (void)Graph({.layers = 3, .odd_head = 65}).run(backend.get());
  ggml_log_set(nullptr, nullptr);
  EXPECT_EQ(
      lines,
      "ggml-folio: folio serves 3 of 4 attention layers: 0-2; llama.cpp serves 3: key: expected a "
      "head_size that is a multiple of 8, from 8 to 576; 2 threads of ggml\n");
}

/// Runs a graph with the trace, in a process that ends in some way while the context lives.
[[noreturn]] void end_by(void (*end)()) {
  setenv("FOLIO_GGML_TRACE", "1", 1);
  Backend backend = make(device(), 1);
  (void)Graph({.odd_head = 65}).run(backend.get());
  (void)backend.release();
  end();
  std::abort();
}

class Trace : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(Trace, counters_are_said_when_the_program_exits) {
  EXPECT_EXIT(end_by([] { std::exit(3); }), testing::ExitedWithCode(3), counters);
}

TEST_F(Trace, counters_are_said_when_a_signal_ends_the_program) {
  EXPECT_EXIT(end_by([] { (void)std::raise(SIGTERM); }), testing::KilledBySignal(SIGTERM),
              counters);
  EXPECT_EXIT(end_by([] { (void)std::raise(SIGINT); }), testing::KilledBySignal(SIGINT), counters);
}

TEST_F(Trace, signals_of_the_program_stay_its_own) {
  const auto handle = [] { (void)std::signal(SIGTERM, [](int) { std::_Exit(7); }); };
  EXPECT_EXIT((handle(), end_by([] { (void)std::raise(SIGTERM); })), testing::ExitedWithCode(7),
              testing::Not(counters));
  EXPECT_EXIT((std::signal(SIGTERM, SIG_IGN), end_by([] {
                 (void)std::raise(SIGTERM);
                 std::exit(4);
               })),
              testing::ExitedWithCode(4), counters);
}

TEST_F(Trace, signals_are_left_alone_without_it) {
  EXPECT_EXIT((unsetenv("FOLIO_GGML_TRACE"), (void)device(),
               std::exit(std::signal(SIGTERM, SIG_DFL) == SIG_DFL ? 0 : 1)),
              testing::ExitedWithCode(0), testing::Not(counters));
}

}  // namespace
}  // namespace ggml_folio
