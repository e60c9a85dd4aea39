// SPDX-License-Identifier: Apache-2.0
/// tests/pool/partial_bytes_test.cpp: what a hit inside a page finds in memory: the K/V of the
/// tokens that match, of every layer, head and format, with their scales, and nothing else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "folio/cache/copy.h"
#include "folio/core/execution.h"
#include "pool/pool_helpers.h"
#include "support/random.h"
#include "support/test_plane.h"

namespace folio::test {
namespace {

using ::testing::ElementsAre;

constexpr int32_t page_size = 8, num_heads = 3, head_size = 64, num_layers = 2;
constexpr uint32_t num_pages = 6;

PlaneSpec spec_of(DType dtype) {
  PlaneSpec spec{.dtype = dtype,
                 .num_heads = num_heads,
                 .head_size = head_size,
                 .page_size = page_size,
                 .num_pages = num_pages};
  if (dtype == DType::f8_e4m3) spec.scales = {DType::f8_e4m3, 16, true, true, true, true, false};
  return spec;
}

/// K and V of some layers; nothing is in them.
class Layers {
 public:
  explicit Layers(DType dtype) {
    for (int i = 0; i < 2 * num_layers; ++i) {
      planes_.emplace_back(spec_of(dtype));
      planes_.back().set_bytes(std::vector<std::byte>(planes_.back().bytes().size()));
    }
    for (size_t i = 0; i < planes_.size(); i += 2)
      views_.push_back({planes_[i].view, planes_[i + 1].view});
  }

  void write(uint32_t page, int32_t slot, Rng& rng) {
    for (const TestPlane& plane : planes_) {
      for (const auto& [memory, bytes] : parts(plane, page, slot))
        for (size_t i = 0; i < bytes; ++i) memory[i] = static_cast<std::byte>(rng.between(1, 255));
    }
  }
  [[nodiscard]] bool equal(uint32_t page, uint32_t other, int32_t slot) const {
    bool all = true;
    for (const TestPlane& plane : planes_) {
      const std::vector<Part> a = parts(plane, page, slot), b = parts(plane, other, slot);
      for (size_t i = 0; i < a.size(); ++i)
        all = all && std::memcmp(a[i].memory, b[i].memory, a[i].bytes) == 0;
    }
    return all;
  }
  /// Bytes of the slot that are 0.
  [[nodiscard]] bool is_empty(uint32_t page, int32_t slot) const {
    bool all = true;
    for (const TestPlane& plane : planes_) {
      for (const auto& [memory, bytes] : parts(plane, page, slot))
        for (size_t i = 0; i < bytes; ++i) all = all && memory[i] == std::byte{0};
    }
    return all;
  }
  void run(std::span<const PageCopy> copies) {
    copy_pages(views_, views_, copies, serial_executor()).or_throw();
  }

 private:
  struct Part {
    std::byte* memory;
    size_t bytes;
  };
  static std::vector<Part> parts(const TestPlane& plane, uint32_t page, int32_t slot) {
    std::vector<Part> all;
    for (int64_t head = 0; head < num_heads; ++head) {
      all.push_back({plane.element(page, slot, head, 0),
                     static_cast<size_t>(row_bytes(plane.view.dtype, head_size))});
      if (plane.view.scales.data == nullptr) continue;
      for (int64_t d = 0; d < head_size; d += plane.view.scales.granularity)
        all.push_back({plane.scale(page, slot, head, d), 1});
    }
    return all;
  }

  std::vector<TestPlane> planes_;
  std::vector<KVPlanes> views_;
};

class PartialBytes : public ::testing::TestWithParam<DType> {};

// TensorRT-LLM's script: pages of 8; 17 tokens; the same again; 12 tokens that share 11.
TEST_P(PartialBytes, the_tokens_that_match_are_copied_and_nothing_else) {
  Rng rng(test_seed());
  Layers layers(GetParam());
  PagePool pool =
      make_pool({.num_pages = num_pages, .page_size = page_size, .min_partial_tokens = 1});
  const Tokens prompt = count_from(0, 17);
  const SequenceId a = prefill(pool, prompt);
  ASSERT_THAT(row(pool, a, 3), ElementsAre(0, 1, 2));
  for (int32_t i = 0; i < 17; ++i)
    layers.write(static_cast<uint32_t>(i / page_size), i % page_size, rng);
  pool.release(a).or_throw();

  const Admission b = pool.admit(prompt).value();
  EXPECT_EQ(b.cached_tokens, 16) << "always one token short";
  EXPECT_THAT(pool.take_copies(), testing::IsEmpty());

  Tokens shorter(prompt.begin(), prompt.begin() + 11);
  shorter.push_back(1000);
  const Admission c = pool.admit(shorter).value();
  EXPECT_EQ(c.cached_tokens, 11);
  const std::vector<uint32_t> pages = row(pool, c.id, 2);
  EXPECT_EQ(pages[0], 0U);
  ASSERT_THAT(take_copies(pool), ElementsAre(PageCopy{1, pages[1], 3}));
  layers.run(std::vector{PageCopy{1, pages[1], 3}});
  for (int32_t slot = 0; slot < page_size; ++slot) {
    SCOPED_TRACE(slot);
    EXPECT_FALSE(layers.is_empty(1, slot)) << "the source is as it was";
    EXPECT_EQ(layers.equal(1, pages[1], slot), slot < 3);
    EXPECT_EQ(layers.is_empty(pages[1], slot), slot >= 3);
  }
  pool.release(b.id).or_throw();
  pool.release(c.id).or_throw();
  expect_sound(pool);
}

INSTANTIATE_TEST_SUITE_P(Formats, PartialBytes,
                         ::testing::Values(DType::f16, DType::bf16, DType::f8_e4m3, DType::i8,
                                           DType::q4_0),
                         [](const auto& format) { return std::string(name(format.param)); });

}  // namespace
}  // namespace folio::test
