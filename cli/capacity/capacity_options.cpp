// SPDX-License-Identifier: Apache-2.0
/// cli/capacity/capacity_options.cpp: the options of `folio plan-capacity`.
#include <cstdint>

#include "capacity/capacity.h"
#include "parts/values.h"

namespace folio::cli {

void add_capacity_options(CLI::App& app, CapacityOptions& options) {
  add_trace_options(app, options.trace, options.output);
  add_model_options(app, options.model);
  app.add_option("--pages", options.pages,
                 "Sizes of the pool in blocks of the trace, with everything of all layers, rising: "
                 "1000,3000; default: a dozen, from the longest request to the whole trace; where "
                 "layers differ eight, each twice the one before")
      ->delimiter(',')
      ->transform(integer_from(1, INT32_MAX))
      ->expected(1, 100)
      ->allow_extra_args(false)
      ->group("Cache");
  app.add_option("--gib", options.gib, "The same in GiB of keys and values: 40,80,141")
      ->delimiter(',')
      ->transform(number_from(1e-6, 1e9))
      ->expected(1, 100)
      ->allow_extra_args(false)
      ->group("Cache");
  add_page_options(app, options.model, options.policy);
  add_checkpoint_option(app, options.model);
}

}  // namespace folio::cli
