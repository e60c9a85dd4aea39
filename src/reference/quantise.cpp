// SPDX-License-Identifier: Apache-2.0
/// reference/quantise.cpp: scales and stored values of a granule.
#include "reference/quantise.h"

#include <algorithm>
#include <cmath>

#include "reference/elements.h"

namespace folio::reference {

double largest_stored(DType dtype) {
  static_assert(detail::num_plane_dtypes == 6);
  switch (dtype) {
    case DType::i8: return 127.0;
    case DType::f8_e4m3: return 448.0;
    case DType::f8_e5m2: return 57344.0;
    default: return 1.0;
  }
}

double scale_of(std::span<const float> granule, DType stored_dtype, DType scale_dtype,
                double tensor_scale) {
  double amax = 0.0;
  for (const float x : granule) {
    if (std::isfinite(x)) amax = std::max(amax, std::fabs(static_cast<double>(x)));
  }
  if (amax == 0.0) return 1.0;
  return decode(scale_dtype,
                encode_up(scale_dtype, amax / (largest_stored(stored_dtype) * tensor_scale)));
}

double quantised(float x, DType stored_dtype, double scale, double tensor_scale) {
  const float divisor = static_cast<float>(scale) * static_cast<float>(tensor_scale);
  const float quotient = x / divisor;
  return round_to(stored_dtype, static_cast<double>(quotient));
}

void stored_row(std::span<const float> x, DType stored_dtype, DType scale_dtype, int granularity,
                double tensor_scale, double* out) {
  if (scale_dtype == DType::invalid) {
    for (size_t i = 0; i < x.size(); ++i)
      out[i] = round_to(stored_dtype, static_cast<double>(x[i]));
    return;
  }
  const auto width = static_cast<size_t>(granularity);
  for (size_t begin = 0; begin < x.size(); begin += width) {
    const std::span<const float> granule = x.subspan(begin, std::min(width, x.size() - begin));
    const double scale = scale_of(granule, stored_dtype, scale_dtype, tensor_scale);
    for (size_t i = 0; i < granule.size(); ++i) {
      out[begin + i] =
          quantised(granule[i], stored_dtype, scale, tensor_scale) * scale * tensor_scale;
    }
  }
}

}  // namespace folio::reference
