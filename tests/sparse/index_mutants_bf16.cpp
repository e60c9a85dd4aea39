// SPDX-License-Identifier: Apache-2.0
/// tests/sparse/index_mutants_bf16.cpp: the index engine of bf16 products with faults, by vdpbf16ps
/// and on emulated tiles.
#include "cpu/avx512/target_bf16.h"
#include "cpu/index/amx_product.h"
#include "cpu/index/avx512_product.h"
#include "cpu/index/bf16.h"
#include "cpu/index/runner.h"
#include "sparse/index_mutants.h"
#include "support/emulated_lanes.h"

namespace folio::test {
namespace {

struct DotProducts : avx512::Bf16Target<DotProducts> {
  static inline IndexMutant index_mutant = IndexMutant::none;
};

struct Tiles : EmulatedLanes<Tiles> {
  static inline IndexMutant index_mutant = IndexMutant::none;
};

template <class I, class Product>
IndexMutantEngine bf16_engine(std::string_view name) {
  using Runner = indexer::IndexRunner<indexer::Bf16IndexEngine<I, Product>>;
  return index_mutant_engine<Runner, I>({.name = name,
                                         .needs = needs_avx512_bf16,
                                         .geometry = indexer::geometry_bf16,
                                         .operands = DType::bf16});
}

}  // namespace

IndexMutantEngine avx512_index_mutants() {
  return bf16_engine<DotProducts, indexer::Avx512IndexProduct<DotProducts>>("avx512_bf16");
}

IndexMutantEngine amx_index_mutants() {
  return bf16_engine<Tiles, indexer::AmxIndexProduct<Tiles>>("amx_bf16");
}

}  // namespace folio::test
