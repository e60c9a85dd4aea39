// SPDX-License-Identifier: Apache-2.0
/// tests/tier/summaries_test.cpp: pages whose layers have summaries beside K and V, in host memory
/// and in a directory, and back on other pages.
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "folio/cache/page_extents.h"
#include "folio/sparse/pages.h"
#include "folio/tier/disk_tier.h"
#include "folio/tier/host_tier.h"
#include "support/indexed_layers.h"
#include "support/temporary_folder.h"
#include "tier/tier_helpers.h"

namespace folio::test {
namespace {

constexpr int32_t slots_of_page = 4, kv_heads = 2, channels = 40, tokens = 22;
constexpr uint32_t pages_of_pool = 7;
const std::vector<uint32_t> filled_pages{5, 0, 3, 6, 1, 4};

/// A layer of K and V, and the summaries of its K.
class SummarisedLayer {
 public:
  SummarisedLayer(SummaryKind kind, DType dtype)
      : kv_({.num_heads = kv_heads, .head_size = channels, .page_size = slots_of_page},
            pages_of_pool),
        rows_(shape_of(kind, dtype), pages_of_pool),
        again_(shape_of(kind, dtype), pages_of_pool),
        planes_{kv_.planes()[0], rows_.planes()[0]},
        kind_(kind) {}

  /// The tokens of one sequence over `filled_pages`, the last of them in part.
  void append_all(Rng& rng) {
    std::vector<float> x(size_t{tokens} * kv_heads * channels);
    for (float& value : x) value = rng.uniform(-3.0f, 3.0f);
    const int32_t offsets[] = {0, tokens};
    const Batch batch{
        1, offsets, offsets + 1, {filled_pages.data(), std::ssize(filled_pages), nullptr}};
    const PageSummaries summaries{kind_, planes_[1].key};
    AppendArgs args{.key = planes_[0].key, .value = planes_[0].value, .summaries = &summaries};
    args.k = args.v = dense_tensor<3>(static_cast<const void*>(x.data()), DType::f32,
                                      {tokens, kv_heads, channels});
    append(batch, args, default_executor(2)).or_throw();
  }
  /// The bytes of a page's summary.
  [[nodiscard]] std::vector<std::byte> summary(uint32_t page) const {
    return summary_of(planes_[1].key, page);
  }
  /// What the K that lies on a page would have for a summary.
  [[nodiscard]] std::vector<std::byte> made_of_keys(uint32_t page, int32_t slots) {
    const PageSummaries to{kind_, again_.planes()[0].key};
    const FilledPage filled[] = {{page, slots}};
    summarise(planes_[0].key, to, filled, serial_executor()).or_throw();
    return summary_of(to.rows, page);
  }
  void fill(std::byte with) { kv_.fill(with), rows_.fill(with); }
  [[nodiscard]] std::span<const KVPlanes> planes() const { return planes_; }

 private:
  static KVShape shape_of(SummaryKind kind, DType dtype) {
    return {.num_heads = kv_heads,
            .head_size = channels,
            .page_size = summary_rows(kind),
            .dtype = dtype,
            .is_mla = true};
  }
  static std::vector<std::byte> summary_of(const PagedKVView& view, uint32_t page) {
    std::vector<std::byte> bytes;
    for (int32_t row = 0; row < view.page_size; ++row) {
      for (int32_t head = 0; head < kv_heads; ++head) {
        const std::byte* const from = folio::detail::row_of(view, page, row, head);
        bytes.insert(bytes.end(), from, from + row_bytes(view.dtype, channels));
      }
    }
    return bytes;
  }

  OwnPlanes kv_, rows_, again_;
  std::vector<KVPlanes> planes_;
  SummaryKind kind_;
};

void transfer_to_pages(const SummarisedLayer& layer, const std::vector<uint32_t>& pages, Tier& tier,
                       bool stores) {
  std::vector<std::vector<Extent>> extents;
  for (const uint32_t page : pages) extents.push_back(page_extents(layer.planes(), page).value());
  std::vector<TierPage> named;
  for (uint32_t i = 0; i < pages.size(); ++i) named.push_back({name_of(i), extents[i]});
  if (stores) {
    tier.store(named).value();
  } else {
    tier.load(named, 0).value();
  }
  for (const TierCompletion& end : wait_for(tier, static_cast<uint32_t>(pages.size())))
    ASSERT_EQ(end.outcome, TierOutcome::done);
}

/// All pages go to a tier, are lost, and come back on others.
void go_and_come_back(SummaryKind kind, DType dtype, Tier& tier) {
  SCOPED_TRACE(name(dtype));
  Rng rng(test_seed());
  SummarisedLayer layer(kind, dtype);
  layer.append_all(rng);
  std::vector<std::vector<std::byte>> expected;
  for (const uint32_t page : filled_pages) expected.push_back(layer.summary(page));
  ASSERT_NO_FATAL_FAILURE(transfer_to_pages(layer, filled_pages, tier, true));
  layer.fill(std::byte{0xee});
  const std::vector<uint32_t> others{2, 5, 1, 0, 6, 3};
  ASSERT_NO_FATAL_FAILURE(transfer_to_pages(layer, others, tier, false));
  for (size_t i = 0; i < others.size(); ++i) {
    const int32_t left = tokens - static_cast<int32_t>(i) * slots_of_page;
    EXPECT_EQ(layer.summary(others[i]), expected[i]) << i;
    EXPECT_EQ(layer.made_of_keys(others[i], std::min(left, slots_of_page)), expected[i]) << i;
  }
}

constexpr int64_t megabyte = int64_t{1} << 20;
constexpr DType summary_dtypes[] = {DType::f32, DType::bf16, DType::f16};

TEST(SummariesInTiers, come_back_from_host_memory) {
  for (const SummaryKind kind : {SummaryKind::bounds, SummaryKind::mean}) {
    for (const DType dtype : summary_dtypes) {
      const std::unique_ptr<Tier> tier = make_host_tier({.max_bytes = megabyte}).value();
      ASSERT_NO_FATAL_FAILURE(go_and_come_back(kind, dtype, *tier));
    }
  }
}

TEST(SummariesInTiers, come_back_from_a_directory) {
  for (const SummaryKind kind : {SummaryKind::bounds, SummaryKind::mean}) {
    for (const DType dtype : summary_dtypes) {
      const TemporaryFolder folder;
      const TierOptions options{.max_bytes = 8 * megabyte};
      const std::unique_ptr<Tier> tier =
          make_disk_tier(folder.path(), options, {.segment_bytes = megabyte}).value();
      ASSERT_NO_FATAL_FAILURE(go_and_come_back(kind, dtype, *tier));
    }
  }
}

}  // namespace
}  // namespace folio::test
