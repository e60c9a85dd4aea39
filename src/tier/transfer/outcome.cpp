// SPDX-License-Identifier: Apache-2.0
/// tier/transfer/outcome.cpp: names of outcomes.
#include "folio/tier/transfer.h"

namespace folio::inline v1::tier {

const char* name(HandoverOutcome outcome) noexcept {
  switch (outcome) {
    case HandoverOutcome::done: return "done";
    case HandoverOutcome::refused: return "refused";
    case HandoverOutcome::busy: return "busy";
    case HandoverOutcome::cancelled: return "cancelled";
    case HandoverOutcome::late: return "late";
    case HandoverOutcome::lost: return "lost";
    case HandoverOutcome::failed: return "failed";
  }
  return "not an outcome";
}

}  // namespace folio::inline v1::tier
