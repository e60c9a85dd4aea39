// SPDX-License-Identifier: Apache-2.0
/// tests/c/c_mask_case.h: a reader of masks through C, with what it read.
#pragma once

#include <memory>

#include "c/to_c.h"
#include "folio/c/folio.h"

namespace folio::test {

struct ReaderDeleter {
  void operator()(folio_mask_reader* r) const { folio_destroy_mask_reader(r); }
};
using Reader = std::unique_ptr<folio_mask_reader, ReaderDeleter>;

struct CMask {
  CMask() {
    folio_mask_reader* made = nullptr;
    code = folio_create_mask_reader(&made, &message);
    reader.reset(made);
  }
  folio_code read(const folio_mask_matrix& mask, const folio_mask_options* options = nullptr) {
    return code = folio_read_mask_matrix(reader.get(), &mask, options, &masked, &message);
  }
  folio_code read(const folio_mask_bits& mask, const folio_mask_options* options = nullptr) {
    return code = folio_read_mask_bits(reader.get(), &mask, options, &masked, &message);
  }

  Reader reader;
  folio_masked_batch masked = c_struct<folio_masked_batch>();
  folio_message message = {};
  folio_code code = FOLIO_INTERNAL;
};

/// A problem with its planes, as folio_masked_problem makes it.
struct CMaskedProblem {
  CMaskedProblem(const folio_problem& from, const folio_masked_batch& masked)
      : code(folio_masked_problem(&from, &masked, &problem, &key, &value, &message)) {}
  CMaskedProblem(const CMaskedProblem&) = delete;
  CMaskedProblem& operator=(const CMaskedProblem&) = delete;

  folio_problem problem = c_struct<folio_problem>();
  folio_kv_view key = c_struct<folio_kv_view>(), value = c_struct<folio_kv_view>();
  folio_message message = {};
  folio_code code;
};

}  // namespace folio::test
