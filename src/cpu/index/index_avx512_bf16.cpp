// SPDX-License-Identifier: Apache-2.0
/// src/cpu/index/index_avx512_bf16.cpp: the index kernel for AVX512-BF16.
#include "cpu/avx512/target_bf16.h"
#include "cpu/index/avx512_product.h"
#include "cpu/index/bf16.h"
#include "cpu/index/runner.h"

namespace folio::inline v1 {
namespace {

struct InstructionSet : avx512::Bf16Target<InstructionSet> {
  static constexpr IndexMutant index_mutant = IndexMutant::none;
};

using Runner = indexer::IndexRunner<
    indexer::Bf16IndexEngine<InstructionSet, indexer::Avx512IndexProduct<InstructionSet>>>;

}  // namespace

void avx512_bf16::score_index(const IndexCall& call, const IndexTask& task, void* scratch,
                              const ScoresTo& to) noexcept {
  Runner::score(call, task, scratch, to);
}

void avx512_bf16::select_index(const IndexCall& call, const IndexTask& task, void* scratch,
                               indexer::Top* tops, uint64_t* spare) noexcept {
  Runner::select(call, task, scratch, tops, spare);
}

void avx512_bf16::collect_scores(const float* scores, int32_t first, int64_t count,
                                 indexer::Top& top, uint64_t* spare) noexcept {
  indexer::Collect<InstructionSet>::row(scores, first, count, top, spare);
}

}  // namespace folio::inline v1
