// SPDX-License-Identifier: Apache-2.0
/// src/c/handle.h: what is behind the C interface's handle of an attention.
#pragma once

#include "folio/attention/plan.h"
#include "folio/c/folio.h"

struct folio_attention {
  folio::Attention attention;
};
