// SPDX-License-Identifier: Apache-2.0
/// tests/compile_fail/view_operand_tile.cpp: a view's page size is unknown when tiles are chosen.
// expect: no member named .block_paged_ptr
#include "folio/attention/operand.h"

using namespace folio;
static_assert(!detail::HasStaticPages<ViewMHAOperand<DType::bf16>>);
#ifndef FOLIO_BAD
auto use(const ViewMHAOperand<DType::bf16>& operand) { return operand.run(0, 0, 0); }
#else
auto use(const ViewMHAOperand<DType::bf16>& operand) { return operand.block_paged_ptr<1>(0, 0, 0); }
#endif
