// SPDX-License-Identifier: Apache-2.0
/// tests/compile_fail/operand_concept.cpp: an operand is made of a cache.
// expect: unsatisfied KVCacheT
#include "folio/attention/operand.h"

using namespace folio;

#ifndef FOLIO_BAD
template <KVCacheT Cache>
using Operand = KVCacheMHAOperand<Cache>;
#else
KVCacheMHAOperand<int> operand;
#endif
