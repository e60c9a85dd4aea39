// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/scale_kernel.h: kernels that show a launch: whatever a launch gives, they use.
#pragma once

#include <cstdint>

#include "cuda/primitives/device.h"

namespace folio::test {

struct ScaleArgs {
  const float* in = nullptr;
  float* out = nullptr;
  int64_t count = 0;
  float factor = 1;
};

/// out = factor * in, through shared memory, every block and thread a share.
struct ScaleKernel {
  static constexpr int threads = 64;
  static constexpr int shared_bytes = 4 * threads;
  static constexpr int blocks_per_processor = 2;
  using Args = ScaleArgs;

  template <class Thread>
  FOLIO_DEVICE static void run(Thread& t, const Args& args) {
    const uint32_t own = t.shared_base() + 4u * static_cast<uint32_t>(t.thread());
    for (int64_t i = int64_t{t.block()} * threads + t.thread(); i < args.count;
         i += int64_t{t.blocks()} * threads) {
      t.store_shared(own, t.load(args.in + i));
      t.store(args.out + i, args.factor * t.template load_shared<float>(own));
    }
  }
};

/// The same with more shared memory than most devices have.
struct WideScaleKernel : ScaleKernel {
  static constexpr int shared_bytes = 200 << 10;
};

}  // namespace folio::test
