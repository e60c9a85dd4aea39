// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/golden_test.cpp: descriptors recorded on GPUs say what the maps beside them say.
///
/// The files are tests/tma/golden/*.jsonl, written by tools/gpu_check.sh. Only compute capability
/// 9.x is decoded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cuda/descriptor_bits.h"
#include "cuda/golden_lines.h"
#include "cuda/gpu_records.h"
#include "support/temporary_folder.h"

namespace folio::test {
namespace {

using Json = nlohmann::json;

/// What disagrees in one file, and how many descriptors were looked at.
struct Checked {
  int descriptors = 0;
  std::vector<std::string> differences;
};
Checked check(const std::vector<Json>& records) {
  Checked checked;
  bool is_known = false;  // by the last head
  for (const Json& record : records) {
    if (record.contains("compute_capability"))
      is_known = record.at("compute_capability").get<std::string>().starts_with("9.");
    if (!is_known || !record.contains("words")) continue;
    ++checked.descriptors;
    for (const std::string& field :
         differing_fields(encoded_of(record.at("words")), map_of(record.at("map"))))
      checked.differences.push_back(record.at("name").get<std::string>() + ": " + field);
  }
  return checked;
}

/// Written by hand from the table in descriptor_bits.h: a rank-3 bf16 map, 128-byte swizzle, dims
/// {128, 8, 1000}, strides {2^36 + 256, 4096}, box {64, 1, 16}.
const char* const by_hand = R"({
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
              "0x0", "0x0", "0x0", "0x0", "0x0", "0x0", "0x0", "0x0"]})";
const char* const some_head =
    R"({"gpu": "none", "compute_capability": "9.0", "driver_version": 0})";

TEST(Golden, a_descriptor_written_by_hand_is_decoded) {
  const Checked checked = check({Json::parse(some_head), Json::parse(by_hand)});
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
  const tma::TensorMap map = map_of(good.at("map"));
  for (const auto& [byte, bit, field] : known) {
    tma::EncodedTensorMap encoded = encoded_of(good.at("words"));
    encoded.words[byte / 8] ^= uint64_t{1} << (byte % 8 * 8 + bit);
    EXPECT_THAT(differing_fields(encoded, map),
                ::testing::ElementsAre(::testing::StartsWith(field)))
        << field;
  }
}

TEST(Golden, what_the_recorder_writes_is_read_back_as_far_as_it_came) {
  const Json good = Json::parse(by_hand);
  const TemporaryFolder folder;
  const std::string path = folder.path("records.jsonl");
  const std::byte got[] = {std::byte{1}, std::byte{2}}, other[] = {std::byte{1}, std::byte{3}};
  {
    GpuRecords records(path.c_str());
    ASSERT_TRUE(records.is_open());
    records.head({"a \"GPU\"", 9, 0, 13000}, "maps");
    records.map("by hand", map_of(good.at("map")), encoded_of(good.at("words")));
    records.fail("a case", "a \\ reason");
    records.compare("equal", got, got, 2);
    records.compare("other", got, other, 2);
    records.probe("probe", 3, {1, 0xffffffffu}, {2});
    // read while the writer is under way: nothing waits for its end
    std::ofstream(path, std::ios::app) << "{\"name\": \"cut o";
    std::ifstream file(path);
    const std::vector<Json> written = records_of(file);
    ASSERT_EQ(written.size(), 6u);
    EXPECT_EQ(written[0].at("gpu"), "a \"GPU\"");
    EXPECT_EQ(map_of(written[1].at("map")), map_of(good.at("map")));
    EXPECT_EQ(written[2].at("failed"), "a \\ reason");
    EXPECT_EQ(written[3].at("equal"), true);
    EXPECT_EQ(written[4].at("equal"), false);
    EXPECT_EQ(written[4].at("got"), "0102");
    EXPECT_EQ(words_of(written[5].at("in")), (std::vector<uint32_t>{1, 0xffffffffu}));
    EXPECT_EQ(number_of(written[3].at("hash")), hash_of(got, 2));
    EXPECT_NE(hash_of(got, 2), hash_of(other, 2));
    const Checked checked = check(written);
    EXPECT_EQ(checked.descriptors, 1);
    EXPECT_THAT(checked.differences, ::testing::IsEmpty());
    EXPECT_EQ(records.failed, 2);
  }
}

TEST(Golden, recorded_descriptors_say_what_their_maps_say) {
  const auto files = golden_files(FOLIO_TMA_GOLDEN_FOLDER);
  int decoded = 0;
  for (const auto& path : files) {
    std::ifstream in(path);
    const Checked checked = check(records_of(in));
    decoded += checked.descriptors;
    EXPECT_THAT(checked.differences, ::testing::IsEmpty()) << path;
  }
  RecordProperty("decoded", decoded);
  if (decoded == 0)
    GTEST_SKIP() << "no GPU has run yet: 0 descriptors of compute capability 9.x in "
                 << files.size() << " files; tools/gpu_check.sh records them";
}

}  // namespace
}  // namespace folio::test
