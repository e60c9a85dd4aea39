// SPDX-License-Identifier: Apache-2.0
/// cli/load/kv_format.cpp: `--kv-dtype`, its scales and its rotation.
#include "load/kv_format.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "parts/values.h"

namespace folio::cli {
namespace {

constexpr int32_t usual_granule = 32;  // of four bits
constexpr int32_t most_granule = 1 << 20;
constexpr const char* zero_names[] = {"none", "patterns", "minimum", "in-scale"};

template <size_t N>
CLI::Validator dtypes(const DType (&list)[N]) {
  std::vector<std::pair<std::string, int64_t>> names;
  for (const DType dtype : list) names.emplace_back(name(dtype), static_cast<int64_t>(dtype));
  return one_of(std::move(names));
}

CLI::Validator kinds_of_zeros() {
  std::vector<std::pair<std::string, int64_t>> names;
  for (size_t i = 0; i < std::size(zero_names); ++i)
    names.emplace_back(zero_names[i], static_cast<int64_t>(i));
  return one_of(std::move(names));
}

CLI::Validator blocks() {
  std::vector<std::pair<std::string, int64_t>> names;
  for (int64_t block = 16; block <= 512; block *= 2)
    names.emplace_back(std::to_string(block), block);
  return one_of(std::move(names));
}

Status disagree(const std::string& reason) { return {Errc::invalid_argument, reason}; }

Status check_scales(const KVFormat& f) {
  const char* const given = f.scale_dtype != DType::invalid ? "--scale-dtype"
                            : f.granularity != 0            ? "--granularity"
                                                            : nullptr;
  if (given != nullptr && bit_width(f.dtype) > 8)
    return disagree(fmt::format("{}: needs a --kv-dtype of 8 or 4 bits", given));
  if (f.zeros == Zeros::none) return {};
  if (f.dtype != DType::u4 && f.dtype != DType::u4_halves)
    return disagree("--zeros: needs --kv-dtype u4 or u4_halves");
  if (f.zeros == Zeros::in_scale && f.scales() != DType::f32)
    return disagree("--zeros in-scale: needs --scale-dtype f32");
  if (f.zeros == Zeros::minimum && bit_width(f.scales()) < 16)
    return disagree("--zeros minimum: needs --scale-dtype f32, f16 or bf16");
  return {};
}

}  // namespace

DType KVFormat::scales() const {
  if (scale_dtype != DType::invalid) return scale_dtype;
  if (zeros == Zeros::in_scale || bit_width(dtype) == 8) return DType::f32;
  return detail::is_packed(dtype) ? DType::f16 : DType::invalid;
}

int32_t KVFormat::granule() const {
  if (granularity != 0) return granularity;
  return detail::is_packed(dtype) ? usual_granule : 0;
}

std::string describe(const KVFormat& f) {
  std::string text = name(f.dtype);
  if (detail::is_packed(f.dtype) || f.scale_dtype != DType::invalid || f.granularity != 0)
    text += fmt::format(", {} scales of {}", name(f.scales()),
                        f.granule() != 0 ? std::to_string(f.granule()) : "a head");
  if (f.zeros != Zeros::none)
    text += fmt::format(", zeros {}", zero_names[static_cast<size_t>(f.zeros)]);
  if (f.hadamard.block != 0) text += fmt::format(", hadamard {}", f.hadamard.block);
  if (f.hadamard.sign_seed != 0) text += fmt::format(", signs {}", f.hadamard.sign_seed);
  return text;
}

void add_format_options(CLI::App& app, KVFormat& format) {
  app.add_option("--kv-dtype", format.dtype,
                 "Element type; 8-bit types have one f32 scale per token and head, types of 4 bits "
                 "an f16 scale per 32 elements, unless the next two say otherwise")
      ->transform(
          dtypes({DType::bf16, DType::f16, DType::f32, DType::f8_e4m3, DType::f8_e5m2, DType::i8,
                  DType::i4, DType::u4, DType::f4_e2m1, DType::i4_halves, DType::u4_halves}))
      ->default_str(name(format.dtype))
      ->group("Cache");
  app.add_option("--scale-dtype", format.scale_dtype, "Type of the scales")
      ->transform(dtypes({DType::f32, DType::f16, DType::bf16, DType::f8_e4m3, DType::f8_e8m0}))
      ->group("Cache");
  app.add_option("--granularity", format.granularity, "Elements that share a scale")
      ->transform(integer_from(1, most_granule))
      ->group("Cache");
  app.add_option("--zeros", format.zeros,
                 "Zero points of u4, beside its scales: a pattern, a least value, or the last four "
                 "bits of an f32 scale; none: 8")
      ->transform(kinds_of_zeros())
      ->default_str(zero_names[0])
      ->group("Cache");
  app.add_option("--hadamard", format.hadamard.block,
                 "Rotate keys and values in blocks of so many elements before they are stored")
      ->transform(blocks())
      ->group("Cache");
  app.add_option("--sign-seed", format.hadamard.sign_seed,
                 "Seed of the rotation's signs; 0: no signs")
      ->transform(integer_from(0, UINT32_MAX))
      ->capture_default_str()
      ->group("Cache");
}

Status check_format(const KVFormat& f, int32_t head_size) {
  if (Status s = check_scales(f); !s.is_ok()) return s;
  if (head_size % block_elements(f.dtype) != 0)
    return disagree(fmt::format("--kv-dtype {}: needs heads of a multiple of {} elements, not {}",
                                name(f.dtype), block_elements(f.dtype), head_size));
  if (f.hadamard.block == 0 && f.hadamard.sign_seed != 0)
    return disagree("--sign-seed: needs --hadamard");
  if (f.hadamard.block == 0 || head_size % f.hadamard.block == 0) return {};
  return disagree(
      fmt::format("--hadamard: got '{}', expected a divisor of the {} elements of a head",
                  f.hadamard.block, head_size));
}

}  // namespace folio::cli
