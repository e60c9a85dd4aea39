// SPDX-License-Identifier: Apache-2.0
/// tests/cache/static_offsets_test.cpp: pages on both sides of 2^31 and 2^32 elements, in memory
/// that is mapped but not reserved.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <vector>

#include "folio/cache/page_walk.h"
#include "folio/cache/static_view.h"
#include "folio/core/element.h"
#include "support/sanitized.h"
#include "support/static_cache.h"

namespace folio::test {
namespace {

/// Address space of `bytes`; only touched pages cost memory.
class AddressSpace {
 public:
  explicit AddressSpace(int64_t bytes) : bytes_(static_cast<size_t>(bytes)) {
    void* map = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    data_ = map == MAP_FAILED ? nullptr : map;
  }
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;
  ~AddressSpace() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  [[nodiscard]] MemorySpan span() const { return {data_, static_cast<int64_t>(bytes_)}; }

 private:
  size_t bytes_;
  void* data_;
};

// 32,768 elements of a plane pair per page: page 65,536 begins at 2^31 elements, page 131,072 at
// 2^32.
constexpr int64_t page_elements = 32768;
constexpr int64_t num_pages = 131076;
const std::vector<uint32_t> near_limits = {0,     32767,  32768,  65535, 65536,
                                           65537, 131071, 131072, 131075};

TEST(StaticOffsets, pages_beyond_2_to_the_32_elements_are_reached) {
  if (is_sanitized) GTEST_SKIP() << "a sanitizer limits address space";
  using Collection =
      PagedKVCacheCollection<DType::i8, KVCacheStaticParams{8, 128}, 16, DType::f16, 1>;
  const AddressSpace blocks(num_pages * page_elements), scales(num_pages * page_elements * 2);
  if (blocks.span().data == nullptr || scales.span().data == nullptr)
    GTEST_SKIP() << "13 GB of address space are not to be had";
  StaticTables tables(1, PageTable::padded_columns(static_cast<int64_t>(near_limits.size())),
                      16 * 9, num_pages);
  std::copy(near_limits.begin(), near_limits.end(), tables.table());
  const auto collection =
      Collection::make(blocks.span(), num_pages, 1, tables.tables, scales.span()).value();
  const auto key = collection.get_key_cache(0), value = collection.get_value_cache(0);
  const auto pages = static_cast<int64_t>(near_limits.size());
  for (int64_t p = 0; p < pages; ++p) {  // first and last element of each plane's page
    key.store(0, 0, p * 16, 0, Vec<int8_t, 1>{{static_cast<int8_t>(p + 1)}});
    key.store_scale(0, 7, p * 16 + 15, 127,
                    Vec<f16, 1>{{from_float<f16>(static_cast<float>(p) + 0.5f)}});
    value.store(0, 7, p * 16 + 15, 127, Vec<int8_t, 1>{{static_cast<int8_t>(-p - 1)}});
  }
  const auto* bytes = static_cast<const int8_t*>(blocks.span().data);
  const auto* scale = static_cast<const f16*>(scales.span().data);
  const PagedKVView view = view_of(key);
  for (int64_t p = 0; p < pages; ++p) {
    const int64_t page = near_limits[static_cast<size_t>(p)];
    EXPECT_EQ(bytes[page * page_elements], p + 1) << page;
    EXPECT_EQ(bytes[(page + 1) * page_elements - 1], -p - 1) << page;
    EXPECT_EQ(to_float(scale[page * page_elements + page_elements / 2 - 1]),
              static_cast<float>(p) + 0.5f)
        << page;
    EXPECT_EQ((key.load_quantized<1>(0, 0, p * 16, 0)[0]), p + 1);
    EXPECT_EQ((value.load_quantized<1>(0, 7, p * 16 + 15, 127)[0]), -p - 1);
    EXPECT_EQ(to_float(key.load_scale<1>(0, 7, p * 16 + 15, 127)[0]), static_cast<float>(p) + 0.5f);
    EXPECT_EQ(key.row_idx(0, static_cast<uint32_t>(p * 16 + 3)), page * 32 + 3);
    EXPECT_EQ(key.get_tma_row(page * 16 + 3), page * 32 + 3);
    EXPECT_EQ((key.populate<16, 16>(0, static_cast<uint32_t>(p * 16)).rows[0]), page * 32);
    const void* walked = detail::run_of(view, tables.table(), p * 16, 16 * pages).data;
    EXPECT_EQ(walked, key.block_paged_ptr<16>(0, p * 16, 0));
  }
}

TEST(StaticOffsets, pages_beyond_2_to_the_32_bytes_are_reached) {
  if (is_sanitized) GTEST_SKIP() << "a sanitizer limits address space";
  using Collection = PagedKVCacheCollection<DType::f32, KVCacheStaticParams{8, 128, true}, 32>;
  const AddressSpace blocks(num_pages * page_elements * 4);
  if (blocks.span().data == nullptr) GTEST_SKIP() << "17 GB of address space are not to be had";
  StaticTables tables(1, PageTable::padded_columns(static_cast<int64_t>(near_limits.size())),
                      32 * 9, num_pages);
  std::copy(near_limits.begin(), near_limits.end(), tables.table());
  const auto key = Collection::make(blocks.span(), num_pages, 1, tables.tables)->get_key_cache(0);
  for (int64_t p = 0; p < 9; ++p)
    key.store(0, 7, p * 32 + 31, 126, Vec<float, 2>{{1.0f, static_cast<float>(p)}});
  const auto* elements = static_cast<const float*>(blocks.span().data);
  for (int64_t p = 0; p < 9; ++p) {
    const int64_t page = near_limits[static_cast<size_t>(p)];
    EXPECT_EQ(elements[(page + 1) * page_elements - 1], static_cast<float>(p)) << page;
    EXPECT_EQ((key.load<1>(0, 7, p * 32 + 31, 127)[0]), static_cast<float>(p)) << page;
  }
}

}  // namespace
}  // namespace folio::test
