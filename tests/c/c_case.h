// SPDX-License-Identifier: Apache-2.0
/// tests/c/c_case.h: a case of the C++ tests, created, planned and run through C.
#pragma once

#include <memory>
#include <utility>

#include "c/to_c.h"
#include "folio/c/folio.h"
#include "support/guarded_memory.h"
#include "support/run_case.h"

namespace folio::test {

struct HandleDeleter {
  void operator()(folio_attention* a) const { folio_destroy_attention(a); }
};
using Handle = std::unique_ptr<folio_attention, HandleDeleter>;

/// A handle, the case's plan and memory, through C. `code` and `message`: how far it came.
struct CCase {
  /// Of a handle made elsewhere.
  CCase(AttentionCase& c, Handle handle)
      : problem(c.problem()),
        limits(to_c(c.limits())),
        batch(to_c(c.batch())),
        args(c.args()),
        attention(std::move(handle)) {
    if (attention != nullptr) make_plan();
  }
  /// Creates the handle.
  explicit CCase(AttentionCase& c) : CCase(c, Handle()) {
    folio_attention* made = nullptr;
    code =
        folio_create_attention(&problem.problem, &limits, FOLIO_CPU, 0, nullptr, &made, &message);
    attention.reset(made);
    if (code == FOLIO_OK) make_plan();
  }
  void make_plan() {
    plan_memory = GuardedMemory(folio_get_plan_bytes(attention.get()), 64);
    workspace = GuardedMemory(folio_get_workspace_bytes(attention.get()), 64);
    code = folio_make_plan(attention.get(), &batch, plan_memory.data(), plan_memory.bytes(), &plan,
                           &message);
  }
  folio_code attend(const folio_executor* executor) {
    return folio_attend(attention.get(), &plan, &args.args, workspace.data(), workspace.bytes(),
                        executor, &message);
  }

  CProblem problem;
  folio_limits limits;
  folio_batch batch;
  CArgs args;
  Handle attention;
  GuardedMemory plan_memory, workspace;
  folio_plan plan = {};
  folio_message message = {};
  folio_code code = FOLIO_INTERNAL;
};

}  // namespace folio::test
