// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/golden_test.cpp: descriptors recorded on GPUs say what the maps beside them say.
///
/// The files are tests/tma/golden/*.json, written by tools/gpu_check.sh. Only compute capability
/// 9.x is decoded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cuda/descriptor_bits.h"
#include "cuda/gpu_json.h"

namespace folio::test {
namespace {

using Json = nlohmann::json;

uint64_t hexadecimal(const Json& text) { return std::stoull(text.get<std::string>(), nullptr, 16); }

template <class T>
void read_array(const Json& json, T (&values)[tma::TensorMap::max_rank]) {
  for (size_t i = 0; i < std::min<size_t>(json.size(), tma::TensorMap::max_rank); ++i)
    values[i] = json[i].get<T>();
}

tma::TensorMap map_of(const Json& json) {
  tma::TensorMap map;
  map.base = hexadecimal(json.at("base"));
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

tma::EncodedTensorMap encoded_of(const Json& json) {
  tma::EncodedTensorMap encoded;
  for (size_t i = 0; i < 16; ++i) encoded.words[i] = hexadecimal(json.at("words").at(i));
  return encoded;
}

/// What disagrees in one file, and how many descriptors were looked at.
struct Checked {
  int descriptors = 0;
  std::vector<std::string> differences;
};
Checked check(const Json& file) {
  Checked checked;
  if (!file.at("compute_capability").get<std::string>().starts_with("9.")) return checked;
  for (const Json& descriptor : file.at("descriptors")) {
    ++checked.descriptors;
    for (const std::string& field :
         differing_fields(encoded_of(descriptor), map_of(descriptor.at("map"))))
      checked.differences.push_back(descriptor.at("name").get<std::string>() + ": " + field);
  }
  return checked;
}

/// Written by hand from the table in descriptor_bits.h: a rank-3 bf16 map, 128-byte swizzle, dims
/// {128, 8, 1000}, strides {2^36 + 256, 4096}, box {64, 1, 16}.
const char* const by_hand = R"({
  "gpu": "none", "compute_capability": "9.0", "driver_version": 0,
  "descriptors": [{
    "name": "by hand",
    "map": {"base": "0x7f0000000400", "rank": 3, "dtype": 9, "interleave": 0, "swizzle": 3,
            "l2_promotion": 2, "oob_fill": 1,
            "use": 0, "dim": [128, 8, 1000, 1, 1], "stride_bytes": [2, 68719476992, 4096, 0, 0],
            "box": [64, 1, 16, 1, 1],
            "element_stride": [1, 1, 2, 1, 1]},
    "words": ["0x00007f0000000400", "0x000000100000e520", "0x0000000000000100",
              "0x0000000100000000",
              "0x000000070000007f", "0x00000000000003e7", "0x3f00004000000000",
              "0x0000000000000f00",
              "0x0", "0x0", "0x0", "0x0", "0x0", "0x0", "0x0", "0x0"]}]})";

TEST(Golden, a_descriptor_written_by_hand_is_decoded) {
  const Checked checked = check(Json::parse(by_hand));
  EXPECT_EQ(checked.descriptors, 1);
  EXPECT_THAT(checked.differences, ::testing::IsEmpty());
}

TEST(Golden, every_known_field_is_compared) {
  const Json good = Json::parse(by_hand);
  // Byte and bit of each known field of a rank-3 map, and its name.
  const struct {
    int byte, bit;
    const char* field;
  } known[] = {{0x00, 4, "base"},
               {0x08, 5, "rank"},
               {0x08, 7, "dtype"},
               {0x08, 11, "interleave"},
               {0x08, 13, "swizzle"},
               {0x08, 15, "oob"},
               {0x0c, 1, "stride_bytes[1]"},
               {0x10, 0, "stride_bytes[2]"},
               {0x1c, 0, "stride_bytes[1]"},
               {0x1c, 7, "stride_bytes[2]"},
               {0x20, 0, "dim[0]"},
               {0x24, 3, "dim[1]"},
               {0x28, 31, "dim[2]"},
               {0x34, 24, "box[0]"},
               {0x34, 3, "element_stride[1]"},
               {0x34, 6, "element_stride[2]"},
               {0x38, 0, "box[1]"},
               {0x38, 8, "box[2]"}};
  const tma::TensorMap map = map_of(good.at("descriptors").at(0).at("map"));
  for (const auto& [byte, bit, field] : known) {
    tma::EncodedTensorMap encoded = encoded_of(good.at("descriptors").at(0));
    encoded.words[byte / 8] ^= uint64_t{1} << (byte % 8 * 8 + bit);
    EXPECT_THAT(differing_fields(encoded, map),
                ::testing::ElementsAre(::testing::StartsWith(field)))
        << field;
  }
}

TEST(Golden, what_the_recorder_writes_is_read_back) {
  const Json good = Json::parse(by_hand).at("descriptors").at(0);
  GpuReport report;
  report.gpu = "a \"GPU\"";
  report.major = 9;
  report.record("by hand", map_of(good.at("map")), encoded_of(good));
  report.fail("a case", "a \\ reason");
  const std::string path = ::testing::TempDir() + "folio_golden_test.json";
  ASSERT_TRUE(report.write_descriptors(path.c_str()));
  const Json written = Json::parse(std::ifstream(path));
  EXPECT_EQ(map_of(written.at("descriptors").at(0).at("map")), map_of(good.at("map")));
  const Checked checked = check(written);
  EXPECT_EQ(checked.descriptors, 1);
  EXPECT_THAT(checked.differences, ::testing::IsEmpty());

  ASSERT_TRUE(report.write_result(path.c_str()));
  const Json result = Json::parse(std::ifstream(path));
  EXPECT_EQ(result.at("gpu"), report.gpu);
  EXPECT_EQ(result.at("failures").at(0).at("reason"), "a \\ reason");
  std::filesystem::remove(path);
}

TEST(Golden, recorded_descriptors_say_what_their_maps_say) {
  int files = 0, decoded = 0;
  for (const auto& entry : std::filesystem::directory_iterator(FOLIO_GOLDEN_FOLDER)) {
    if (entry.path().extension() != ".json") continue;
    ++files;
    std::ifstream in(entry.path());
    const Checked checked = check(Json::parse(in));
    decoded += checked.descriptors;
    EXPECT_THAT(checked.differences, ::testing::IsEmpty()) << entry.path();
  }
  RecordProperty("decoded", decoded);
  if (decoded == 0)
    GTEST_SKIP() << "0 recorded descriptors of compute capability 9.x in " << files
                 << " files of tests/tma/golden; "
                 << "tools/gpu_check.sh --golden records some on a GPU";
}

}  // namespace
}  // namespace folio::test
