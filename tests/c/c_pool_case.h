// SPDX-License-Identifier: Apache-2.0
/// tests/c/c_pool_case.h: a pool of 8 pages of 4 tokens, through the C interface.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "c/to_c.h"

namespace folio::test {

struct PoolDeleter {
  void operator()(folio_pool* pool) const { folio_destroy_pool(pool); }
};

class CPool : public ::testing::Test {
 protected:
  void SetUp() override {
    auto options = c_struct<folio_pool_options>();
    options.num_pages = 8;
    options.page_size = 4;
    options.max_sequences = 3;
    options.max_namespaces = 2;
    change(options);
    folio_pool* made = nullptr;
    ASSERT_EQ(folio_create_pool(&options, &made, &message), FOLIO_OK) << message.text;
    pool.reset(made);
  }
  /// A suite's own options.
  virtual void change(folio_pool_options& options) { static_cast<void>(options); }
  folio_sequence admit(const std::vector<int32_t>& prompt, int32_t expected_hit = 0) {
    folio_sequence id = 0;
    int32_t cached = -1;
    EXPECT_EQ(folio_admit(pool.get(), prompt.data(), static_cast<int64_t>(prompt.size()), nullptr,
                          &id, &cached, &message),
              FOLIO_OK)
        << message.text;
    EXPECT_EQ(cached, expected_hit);
    EXPECT_NE(id, 0u);
    return id;
  }
  void write(folio_sequence id, const std::vector<int32_t>& tokens) {
    const auto n = static_cast<int32_t>(tokens.size());
    EXPECT_EQ(folio_reserve(pool.get(), id, n, &message), FOLIO_OK) << message.text;
    EXPECT_EQ(folio_commit(pool.get(), id, tokens.data(), n, &message), FOLIO_OK) << message.text;
  }
  folio_pool_stats stats() {
    auto s = c_struct<folio_pool_stats>();
    EXPECT_EQ(folio_get_pool_stats(pool.get(), &s, &message), FOLIO_OK);
    return s;
  }

  std::unique_ptr<folio_pool, PoolDeleter> pool;
  folio_message message = {};
};

}  // namespace folio::test
