// SPDX-License-Identifier: Apache-2.0
/// fuzz/page_pool.cpp: whatever is asked of a page pool, in whatever order, it does what a naive
/// pool does (tests/pool/pool_model.h): who holds which page, what each contains, which one goes
/// next, the K/V of every living token, and all invariants after every call.
///
/// Input: 8 bytes of options, 6 of each call.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "operations.h"
#include "pool/pool_calls.h"

namespace {

using namespace folio;

constexpr size_t option_bytes = 8;

PoolOptions options_of(const uint8_t* b) {
  return {.num_pages = 1 + b[0] % 24U,
          .page_size = 1 + b[1] % 5,
          .max_sequences = 1 + b[2] % 8U,
          .max_pages_per_sequence = b[3] % 10U,
          .max_namespaces = b[4] % 3U,
          .prefix_reuse = b[5] % 8 != 7,
          .hash_seed = 1,  // what was found once is found again
          .eviction = static_cast<Eviction>(b[5] % std::size(pool::eviction_names)),
          .max_retention_ms = b[5] % 8 != 7 && b[4] % 8 > 3 ? 100 : 0,
          .watermark_pages = std::min(b[6] % 8U == 0 ? b[6] / 8U % 4U : 0U, 1 + b[0] % 24U),
          .lookahead_tokens = b[7] % 8 == 0 ? b[7] / 8 % 4 : 0,
          .min_partial_tokens = b[5] % 8 != 7 ? b[1] / 5 % (1 + b[1] % 5) : 0,
          .max_spans = b[5] % 8 != 7 ? b[2] / 8 % 4U : 0,
          .max_io_pins = b[1] / 4 % 4U};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < option_bytes) return 0;
  test::PoolModel model(options_of(data));
  test::PoolCall call;
  for (size_t at = option_bytes; at + call.size() <= size; at += call.size()) {
    std::copy_n(data + at, call.size(), call.begin());
    test::apply(model, call);
    fuzz::Operations::of_this_program().add_one();
  }
  test::give_all_back(model);
  fuzz::Operations::of_this_program().end_if_all_are_done();
  return 0;
}
