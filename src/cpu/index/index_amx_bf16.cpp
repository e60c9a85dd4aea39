// SPDX-License-Identifier: Apache-2.0
/// src/cpu/index/index_amx_bf16.cpp: the index kernel on AMX tiles in hardware.
#include "cpu/amx/tile/tile.h"
#include "cpu/convert/byte_rows.h"
#include "cpu/index/amx_product.h"
#include "cpu/index/bf16.h"
#include "cpu/index/runner.h"
#include "cpu/vec/avx512_lanes.h"

namespace folio::inline v1 {
namespace {

struct InstructionSet : Avx512Lanes, ByteRows<InstructionSet> {
  using Tile = amx::HardwareTile<InstructionSet>;
  static constexpr IndexMutant index_mutant = IndexMutant::none;
};

using Runner = indexer::IndexRunner<
    indexer::Bf16IndexEngine<InstructionSet, indexer::AmxIndexProduct<InstructionSet>>>;

}  // namespace

void amx_bf16::score_index(const IndexCall& call, const IndexTask& task, void* scratch,
                           const ScoresTo& to) noexcept {
  Runner::score(call, task, scratch, to);
}

void amx_bf16::select_index(const IndexCall& call, const IndexTask& task, void* scratch,
                            indexer::Top* tops, uint64_t* spare) noexcept {
  Runner::select(call, task, scratch, tops, spare);
}

void amx_bf16::collect_scores(const float* scores, int32_t first, int64_t count, indexer::Top& top,
                              uint64_t* spare) noexcept {
  indexer::Collect<InstructionSet>::row(scores, first, count, top, spare);
}

}  // namespace folio::inline v1
