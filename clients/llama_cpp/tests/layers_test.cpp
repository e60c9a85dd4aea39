// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/tests/layers_test.cpp: the line that says which layers folio serves, and when.
#include "layers.h"

#include <gmock/gmock.h>

#include <utility>
#include <vector>

namespace ggml_folio {
namespace {

using testing::IsEmpty;

TEST(Layers, the_sentence_is_the_one_of_vllm) {
  EXPECT_EQ(sentence_of({{0, ""}, {1, ""}, {2, ""}}, 2),
            "folio serves 3 of 3 attention layers: 0-2; 2 threads of ggml");
  EXPECT_EQ(sentence_of({{0, ""}, {1, ""}, {2, "no"}, {3, ""}, {4, "no"}, {5, "other"}}, 0),
            "folio serves 3 of 6 attention layers: 0-1, 3; llama.cpp serves 2, 4: no; llama.cpp "
            "serves 5: other");
  EXPECT_EQ(sentence_of({{7, "flash attention is off"}}, 1),
            "folio serves 0 of 1 attention layers; llama.cpp serves 7: flash attention is off; 1 "
            "threads of ggml");
}

TEST(Layers, numbers_come_from_names) {
  EXPECT_EQ(layer_in("cache_k_l12 (view) (permuted)", 5), 12);
  EXPECT_EQ(layer_in("kq_soft_max-3", 5), 3);
  EXPECT_EQ(layer_in("Kcur-0 (view)", 5), 0);
  for (const char* nameless : {"", "k", "node_7", "leaf_7"}) EXPECT_EQ(layer_in(nameless, 5), 5);
}

/// Lines of graphs, each a list of layers and refusals.
using Graph = std::vector<std::pair<int, const char*>>;
std::vector<std::string> lines_of(const std::vector<Graph>& graphs) {
  Layers layers;
  std::vector<std::string> lines;
  for (const Graph& graph : graphs) {
    for (const auto& [layer, refusal] : graph) layers.see(layer, refusal);
    lines.push_back(layers.end_graph(1));
  }
  return lines;
}

TEST(Layers, are_told_of_at_the_first_graph_alone) {
  const Graph graph = {{0, ""}, {1, "no"}};
  const std::vector<std::string> lines = lines_of({{}, graph, {}, graph, graph});
  const char* const told =
      "folio serves 1 of 2 attention layers: 0; llama.cpp serves 1: no; 1 threads of ggml";
  EXPECT_THAT(lines, testing::ElementsAre("", told, "", "", ""));
}

TEST(Layers, of_several_graphs_are_told_of_together_behind_the_first_step) {
  const std::vector<std::string> lines =
      lines_of({{{0, ""}}, {{1, ""}}, {{2, ""}}, {{0, ""}}, {{1, ""}}, {{2, ""}}, {{0, ""}}});
  EXPECT_EQ(lines[0], "folio serves 1 of 1 attention layers: 0; 1 threads of ggml");
  EXPECT_EQ(lines[3], "folio serves 3 of 3 attention layers: 0-2; 1 threads of ggml");
  for (const size_t silent : {1, 2, 4, 5, 6}) EXPECT_THAT(lines[silent], IsEmpty()) << silent;
}

TEST(Layers, of_two_nodes_are_llama_cpps_if_one_is_and_told_of_once) {
  const Graph graph = {{0, ""}, {0, "no"}, {1, "no"}, {1, ""}, {2, ""}, {2, ""}};
  const std::vector<std::string> lines = lines_of({graph, graph, graph});
  const char* const told =
      "folio serves 1 of 3 attention layers: 2; llama.cpp serves 0-1: no; 1 threads of ggml";
  EXPECT_THAT(lines, testing::ElementsAre(told, "", ""));
}

TEST(Layers, are_told_of_anew_when_they_change_hands) {
  const std::vector<std::string> lines = lines_of({{{0, ""}}, {{0, "no"}}, {{0, "no"}}});
  EXPECT_EQ(lines[1],
            "folio serves 0 of 1 attention layers; llama.cpp serves 0: no; 1 threads of ggml");
  EXPECT_THAT(lines[2], IsEmpty());
}

}  // namespace
}  // namespace ggml_folio
