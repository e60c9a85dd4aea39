// SPDX-License-Identifier: Apache-2.0
/// tests/attention/offsets_test.cpp: 64 bits everywhere: pages on both sides of 2^31 and 2^32 bytes
/// and elements.
///
/// The planes of a case move into a map of 20 GiB that is reserved but not committed; only touched
/// pages cost memory.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <map>
#include <vector>

#include "attention/check.h"
#include "attention/kernel_list.h"
#include "cpu/features.h"
#include "folio/attention/append.h"
#include "reference/append.h"
#include "reference/elements.h"
#include "support/attention_case.h"
#include "support/kernel_cases.h"
#include "support/sanitized.h"

namespace folio::test {
namespace {

constexpr int64_t gibibyte = int64_t{1} << 30;
constexpr int64_t map_bytes = 20 * gibibyte;

class HugeMap {
 public:
  HugeMap() {
    void* map = mmap(nullptr, map_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    data_ = map == MAP_FAILED ? nullptr : static_cast<std::byte*>(map);
  }
  ~HugeMap() {
    if (data_ != nullptr) munmap(data_, map_bytes);
  }
  HugeMap(const HugeMap&) = delete;
  HugeMap& operator=(const HugeMap&) = delete;
  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
};

/// Page ids around each offset at which 32-bit arithmetic breaks: bytes and elements, signed and
/// unsigned.
std::vector<int64_t> critical_pages(int64_t page_bytes, int64_t element_bytes, int64_t num_pages) {
  std::vector<int64_t> ids = {0, num_pages - 1};
  for (const int64_t limit : {int64_t{1} << 31, int64_t{1} << 32}) {
    for (const int64_t bytes : {limit, limit * element_bytes}) {
      for (int64_t id = bytes / page_bytes - 1; id <= bytes / page_bytes + 1; ++id) {
        if (id > 0 && id < num_pages - 1) ids.push_back(id);
      }
    }
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

/// K and V of every page lie behind one another: one page stride for both, the V plane starts
/// behind the first page's K.
void spread(AttentionCase& c, const HugeMap& map) {
  const PagedKVView old[] = {c.args().key, c.args().value};
  const int64_t plane_bytes = old[0].page_size * old[0].slot_stride_bytes;  // token-major, no gaps
  const int planes = c.options().value_in_key ? 1 : 2;
  const int64_t page_bytes = planes * plane_bytes;
  const int64_t num_pages = map_bytes / page_bytes;
  const std::vector<int64_t> ids =
      critical_pages(page_bytes, bit_width(old[0].dtype) / 8, num_pages);
  std::map<int64_t, int64_t> moved;
  for (int32_t b = 0; b < c.batch().size; ++b) {
    for (int64_t p = 0; p * old[0].page_size < c.batch().context_lengths[b]; ++p) {
      uint32_t& entry = c.table_entries()[c.batch().table.row_start(b) + p];
      const auto place = moved.emplace(entry, ids[moved.size() % ids.size()]).first;
      entry = static_cast<uint32_t>(place->second);
    }
  }
  ASSERT_GE(moved.size(), ids.size()) << "every critical page must be used";
  ASSERT_LE(moved.size(), ids.size()) << "no page twice";

  PagedKVView* views[] = {&c.args().key, &c.args().value};
  for (int plane = 0; plane < planes; ++plane) {
    PagedKVView view = old[plane];
    view.data = map.data() + plane * plane_bytes;
    view.page_stride_bytes = page_bytes;
    view.num_pages = num_pages;
    if (view.scales.data != nullptr) {  // behind each row
      view.scales.data =
          static_cast<std::byte*>(view.data) + (static_cast<std::byte*>(old[plane].scales.data) -
                                                static_cast<std::byte*>(old[plane].data));
      view.scales.page_stride_bytes = page_bytes;
    }
    *views[plane] = view;
    for (const auto& [from, to] : moved) {
      const auto* source =
          static_cast<const std::byte*>(old[plane].data) + from * old[plane].page_stride_bytes;
      // the last row's padding is not there
      const int64_t bytes = plane_bytes - (view.scales.data != nullptr ? 12 : 0);
      std::copy_n(source, bytes, static_cast<std::byte*>(view.data) + to * page_bytes);
    }
  }
  c.problem().key = c.args().key;
  c.problem().value = c.args().value;
}

/// q, what the planes hold, and whether it is one plane of latent rows.
struct Stored {
  DType q;
  DType kv;
  bool is_latent = false;
  bool int8_operands = false;
};

CaseOptions options_of(const Stored& stored) {
  CaseOptions options;
  options.q_dtype = stored.q;
  options.int8_operands = stored.int8_operands;
  options.key_dtype = options.value_dtype = stored.kv;
  if (stored.kv == DType::i8)
    options.key_scales.kind = options.value_scales.kind = ScaleKind::behind_row;
  options.head_size = 64;
  if (stored.is_latent) {
    options.head_size = 576;
    options.v_head_size = 512;
    options.kv_heads = 1;
    options.value_in_key = true;
  }
  options.page_size = 16;
  options.shared = 0.0;
  // As many full pages as there are critical ones.
  const int64_t element = bit_width(stored.kv) / 8;
  const int64_t row = options.head_size * element + (stored.kv == DType::i8 ? 16 : 0);
  const int64_t page_bytes = (stored.is_latent ? 1 : 2) * 16 * options.kv_heads * row;
  const auto pages =
      static_cast<int32_t>(critical_pages(page_bytes, element, map_bytes / page_bytes).size());
  options.sequences = {{3, 16 * (pages / 2)}, {1, 16 * (pages - pages / 2)}};
  return options;
}

TEST(Offsets, attention_reads_beyond_2_to_the_32) {
  if (is_sanitized)
    GTEST_SKIP() << "20 GiB of address space do not fit beside a sanitizer's shadow memory";
  constexpr Stored all_stored[] = {
      {DType::f32, DType::bf16},        {DType::f32, DType::f32},
      {DType::bf16, DType::bf16},       {DType::f32, DType::i8},
      {DType::bf16, DType::i8},         {DType::f16, DType::f16},
      {DType::bf16, DType::bf16, true}, {DType::bf16, DType::i8, false, true}};
  for (const Stored& stored : all_stored) {
    const HugeMap map;
    if (map.data() == nullptr) GTEST_SKIP() << "no 20 GiB of address space here";
    const auto arrange = [&](AttentionCase& c) { spread(c, map); };
    expect_every_kernel_right(options_of(stored), {Adapt::nothing, arrange});
  }
}

TEST(Offsets, append_writes_beyond_2_to_the_32) {
  if (is_sanitized)
    GTEST_SKIP() << "20 GiB of address space do not fit beside a sanitizer's shadow memory";
  for (const DType dtype : {DType::bf16, DType::i8}) {
    const HugeMap written, exact;
    if (written.data() == nullptr || exact.data() == nullptr)
      GTEST_SKIP() << "no 40 GiB of address space here";
    AttentionCase c(options_of({DType::bf16, dtype}));
    spread(c, written);
    // One token into the last slot of every page, by slots.
    std::vector<int64_t> slots;
    for (int32_t b = 0; b < 2; ++b) {
      for (int64_t p = 0; p * 16 < c.batch().context_lengths[b]; ++p) {
        slots.push_back(int64_t{c.table_entries()[c.batch().table.row_start(b) + p]} * 16 + 15);
      }
    }
    const auto tokens = static_cast<int64_t>(slots.size());
    std::vector<float> rows(static_cast<size_t>(tokens * 2 * 64));
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i % 251) / 100.0f - 1.0f;
    AppendArgs args;
    args.k = args.v = dense_tensor(rows.data(), DType::f32, {tokens, 2, 64});
    args.key = c.args().key;
    args.value = c.args().value;
    args.slots = slots.data();
    ASSERT_EQ(append({}, args, serial_executor()).message(), "");
    const auto in_other_map = [&](PagedKVView& view) {
      const int64_t at = static_cast<std::byte*>(view.data) - written.data();
      if (view.scales.data != nullptr) {
        view.scales.data =
            exact.data() + (static_cast<std::byte*>(view.scales.data) - written.data());
      }
      view.data = exact.data() + at;
    };
    in_other_map(args.key);
    in_other_map(args.value);
    reference::append({}, args);
    for (const int64_t slot : slots) {
      for (int32_t d = 0; d < 64; ++d) {
        ASSERT_EQ(reference::element(c.args().key, slot / 16, 15, 1, d),
                  reference::element(args.key, slot / 16, 15, 1, d))
            << slot;
        ASSERT_EQ(reference::element(c.args().value, slot / 16, 15, 1, d),
                  reference::element(args.value, slot / 16, 15, 1, d))
            << slot;
      }
    }
    // attend sees what was written
    c.forget_expected();
    const AttentionProblem problem = resolve(c.problem()).value();
    for_each_kernel([&](const std::string& kernel) {
      // counted by the test above
      if (refusal(kernel_of(kernel), problem, machine_capabilities()) != nullptr) return;
      EXPECT_TRUE(kernel_is_right(c, kernel));
    });
  }
}

}  // namespace
}  // namespace folio::test
