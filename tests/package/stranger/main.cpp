// SPDX-License-Identifier: Apache-2.0
/// tests/package/stranger/main.cpp: calls one function of each folder, as a stranger's program
/// would.
#include <folio/cache/planes.h>
#include <folio/core/execution.h>
#include <folio/core/status.h>
#include <folio/tma/encode.h>

#include <cstdio>

#ifdef _OPENMP
#error "folio must not pass -fopenmp on to those who use it"
#endif

int main() {
  folio::KVShape shape;
  shape.num_layers = 2;
  shape.num_heads = 8;
  shape.head_size = 128;
  const folio::Result<int64_t> bytes = folio::page_bytes(shape);
  if (!bytes || *bytes != 2 * 2 * 16 * 8 * 128 * 2) return 1;

  shape.page_size = 0;
  const folio::Result<int64_t> refused = folio::page_bytes(shape);
  if (refused) return 2;
  std::printf("refused as it should be: %s\n", refused.error().message().data());

  int64_t sum[64] = {};
  const folio::Executor executor = folio::default_executor();
  executor.parallel_for(
      executor.context, 64,
      [](void* arg, int64_t i) noexcept { static_cast<int64_t*>(arg)[i] = i; }, sum);
  for (int64_t i = 0; i < 64; ++i) {
    if (sum[i] != i) return 3;
  }

  const folio::Result<folio::tma::EncodedTensorMap> encoded =
      folio::tma::encode(folio::tma::TensorMap{});
  if (encoded || encoded.error().code() != folio::Errc::invalid_argument) return 4;
  return 0;
}
