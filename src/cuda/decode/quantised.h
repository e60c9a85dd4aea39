// SPDX-License-Identifier: Apache-2.0
/// src/cuda/decode/quantised.h: the decode kernel over K and V of 8 bits, both of one type, with
/// scales of any granularity or none. bf16 and f16 queries alike.
#pragma once

#include "cuda/decode/decode.h"
#include "cuda/decode/quantised_loader.h"
#include "cuda/decode/quantised_slab.h"

namespace folio::cuda {

template <DType Stored, int HeadSize, Options What>
struct QuantisedDecodeKernel {
  using Config = QuantisedConfig<Stored, HeadSize, What>;
  static constexpr int threads = Config::threads;
  static constexpr int shared_bytes = Config::shared_bytes;
  static constexpr int blocks_per_processor = 2;
  using Args = AttendCall;

  template <class Thread>
  FOLIO_DEVICE static void run(Thread& t, const AttendCall& a) {
    using Loader = QuantisedLoader<Config, Thread>;
    Loader loader(t, a);
    Decoder<Config, Thread, Loader>(t, a, loader).run(t);
  }
};

}  // namespace folio::cuda
