// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/golden_lines.h: reads what gpu_records.h writes.
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "folio/tma/encode.h"

namespace folio::test {

/// The records of a file. A last line that was cut off, by the end of its process, is left out.
inline std::vector<nlohmann::json> records_of(std::istream& file) {
  std::vector<nlohmann::json> records;
  for (std::string line; std::getline(file, line);) {
    nlohmann::json record = nlohmann::json::parse(line, nullptr, false);
    if (!record.is_discarded()) records.push_back(std::move(record));
  }
  return records;
}

/// The files of a folder, which need not exist; FOLIO_GOLDEN_FOLDER in the environment stands for
/// it: the results of a run that nobody has kept yet.
inline std::vector<std::filesystem::path> golden_files(const char* folder) {
  if (const char* const other = std::getenv("FOLIO_GOLDEN_FOLDER")) folder = other;
  std::vector<std::filesystem::path> files;
  if (!std::filesystem::is_directory(folder)) return files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".jsonl") files.push_back(entry.path());
  return files;
}

inline uint64_t number_of(const nlohmann::json& hexadecimal) {
  return std::stoull(hexadecimal.get<std::string>(), nullptr, 16);
}

inline std::vector<uint32_t> words_of(const nlohmann::json& digits) {
  const auto& text = digits.get_ref<const std::string&>();
  std::vector<uint32_t> words(text.size() / 8);
  for (size_t i = 0; i < words.size(); ++i)
    words[i] = static_cast<uint32_t>(std::stoul(text.substr(8 * i, 8), nullptr, 16));
  return words;
}

template <class T>
void read_array(const nlohmann::json& json, T (&values)[tma::TensorMap::max_rank]) {
  for (size_t i = 0; i < std::min<size_t>(json.size(), tma::TensorMap::max_rank); ++i)
    values[i] = json[i].get<T>();
}

inline tma::TensorMap map_of(const nlohmann::json& json) {
  tma::TensorMap map;
  map.base = number_of(json.at("base"));
  map.rank = json.at("rank");
  map.dtype = static_cast<tma::DataType>(json.at("dtype").get<int>());
  map.interleave = static_cast<tma::Interleave>(json.at("interleave").get<int>());
  map.swizzle = static_cast<tma::Swizzle>(json.at("swizzle").get<int>());
  map.l2_promotion = static_cast<tma::L2Promotion>(json.at("l2_promotion").get<int>());
  map.oob_fill = static_cast<tma::OobFill>(json.at("oob_fill").get<int>());
  map.use = static_cast<tma::Use>(json.at("use").get<int>());
  read_array(json.at("dim"), map.dim);
  read_array(json.at("stride_bytes"), map.stride_bytes);
  read_array(json.at("box"), map.box);
  read_array(json.at("element_stride"), map.element_stride);
  return map;
}

inline tma::EncodedTensorMap encoded_of(const nlohmann::json& words) {
  tma::EncodedTensorMap encoded;
  for (size_t i = 0; i < 16; ++i) encoded.words[i] = number_of(words.at(i));
  return encoded;
}

}  // namespace folio::test
