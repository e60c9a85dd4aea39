// SPDX-License-Identifier: Apache-2.0
/// cli/parts/values.h: what the words of the command line may be. Each check refuses with "got
/// 'word', expected ..." and leaves a word that CLI11 reads as the same value.
///
/// CLI11's own conversions wrap negative numbers, take what is too large for the largest, take an
/// empty word for 0, and read 010 as 8; none of them sees a word that these have not accepted.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace folio::cli {

/// A decimal integer in [low, high]. No sign but '-', no spaces.
CLI::Validator integer_from(int64_t low, int64_t high);
/// The same for numbers up to 2^64 - 1.
CLI::Validator unsigned_to(uint64_t high);
/// A finite decimal number in [low, high].
CLI::Validator number_from(double low, double high);
/// A size: an integer, or one with KiB, MiB, GiB or TiB behind it, in [low, high] bytes.
CLI::Validator bytes_from(int64_t low, int64_t high);
/// A word that is not empty and has no null byte; `what` is expected.
CLI::Validator word(const std::string& what);
/// One of these names; stands for the number.
CLI::Validator one_of(std::vector<std::pair<std::string, int64_t>> names);

}  // namespace folio::cli
