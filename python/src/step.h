// SPDX-License-Identifier: Apache-2.0
/// python/src/step.h: `Step`: a batch, and the plans of its kinds of layer, made when first needed.
#pragma once

#include <list>
#include <mutex>
#include <vector>

#include "calls.h"

namespace folio::python {

/// Thread safety: layers may run at once; plans are made under a lock.
class Step : public BatchHolder {
 public:
  using BatchHolder::BatchHolder;

  /// Appends `rows` where they are not null, then attends over `pages`.
  nb::object attend(nb::handle kind, const Pages& pages, const AttendArrays& arrays,
                    const RopeTable* rope, const NormArrays& q_norm, const AppendArrays* rows);

  /// Of each plan that was made.
  std::vector<int64_t> keys_read();

 private:
  /// One plan: of a kind, over planes of one geometry, with one set of options.
  struct Planned {
    nb::object kind;  // kept, so that no other can have its address
    KVPlanes selection;
    CallOptions call;
    Attention attention;
    AttentionPlan plan;
    Scratch memory;
  };
  const Planned& planned(nb::handle kind, const Pages& pages, const CallOptions& call);

  std::mutex mutex_;
  std::list<Planned> plans_;
};

/// As Step.over: attention over keys that are cached and rows that are not, then append.
nb::object attend_over(Step& step, nb::handle kind, const Pages& pages, const AttendArrays& arrays,
                       nb::handle k, nb::handle v);

void bind_step(nb::module_& m);

}  // namespace folio::python
