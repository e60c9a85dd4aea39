// SPDX-License-Identifier: Apache-2.0
/// python/src/format.h: `Format`: how the rows of K, or of V, are stored.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "array.h"
#include "folio/cache/planes.h"

namespace folio::python {

/// Never changed after it is made, and shared by the planes that have it, which point into it.
struct Format {
  DType dtype = DType::invalid;
  std::optional<DType> scale_dtype;    ///< invalid: no scales; not given: what is usual
  std::optional<int32_t> granularity;  ///< not given: what is usual
  Zeros zeros = Zeros::none;
  Hadamard hadamard;
  Array channel_scales;              ///< f32 [heads, head_size], or [layers] of that; or none
  std::vector<float> tensor_scales;  ///< none, one, or one for each layer

  [[nodiscard]] DType scales() const;
  /// Writes what a cache's planes are made from. Throws Error, which names the argument `name`, for
  /// what heads of shape.head_size cannot have.
  void put(KVShape& shape, const char* name) const;
  /// Writes how rows are turned, and where the factors of plane `layer` of `layers` lie. Throws
  /// Error as above.
  void put(PagedKVView& view, const char* name, int64_t layer = 0, int64_t layers = 1) const;
};
using SharedFormat = std::shared_ptr<const Format>;

/// Arguments that stand beside the name of a dtype, and that a Format says itself.
struct ScaleWords {
  nb::handle dtype = nb::handle(Py_None);
  std::optional<int32_t> granularity = {};
};

/// The argument `name`: a Format, or the name of a dtype that `words` go with. Throws Error.
SharedFormat format_of(nb::handle object, const char* name, const ScaleWords& words = {});

/// K's and V's.
struct FormatPair {
  SharedFormat key, value;
};

/// Of the arguments dtype and v_dtype. v_dtype None: as dtype. Throws Error, also for words that go
/// with nothing and, where there is a V, for one Format of both that has channel scales.
FormatPair formats_of(nb::handle dtype, nb::handle v_dtype, bool has_value,
                      const ScaleWords& words = {});

void bind_format(nb::module_& m);

}  // namespace folio::python
