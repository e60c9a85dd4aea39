// SPDX-License-Identifier: Apache-2.0
/// folio/attention/operand.h: the operands of attention kernels: the concept MHAOperand and the
/// five types that model it.
///
///   KVCacheMHAOperand        a static cache
///   KVCacheScalesMHAOperand  the scales of a static cache
///   TensorMHAOperand         packed [batch, tokens, heads, dim]
///   RaggedMHAOperand         packed [tokens, heads, dim]
///   ViewMHAOperand           a plane of the run-time face
#pragma once

#include "folio/attention/operand/cache_operands.h"
#include "folio/attention/operand/concept.h"
#include "folio/attention/operand/tensor_operands.h"
#include "folio/attention/operand/view_operand.h"
