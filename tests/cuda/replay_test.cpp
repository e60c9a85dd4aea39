// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/replay_test.cpp: what GPUs have recorded of single instructions and tiles, done again
/// in the emulator.
///
/// The files are tests/cuda/golden/*.jsonl, written by tools/gpu_check.sh.
#include "cuda/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "support/temporary_folder.h"

namespace folio::test {
namespace {

using Json = nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// As gpu_check writes it, of the emulator's own doing.
template <class Write>
std::vector<Json> written(Write write) {
  const TemporaryFolder folder;
  const std::string path = folder.path("records.jsonl");
  {
    GpuRecords records(path.c_str());
    write(records);
  }
  std::ifstream file(path);
  return records_of(file);
}

/// One record of every probe that is emulated.
std::vector<Json> emulated_probes() {
  return written([](GpuRecords& records) {
    for_each_probe([&]<class Probe>() {
      if constexpr (is_emulated<Probe>()) {
        Rng rng(1);
        const std::vector<uint32_t> in = Probe::input(rng, 0);
        std::string fault;
        const std::vector<uint32_t> out = emulate_probe<Probe>(in, fault);
        EXPECT_EQ(fault, "") << Probe::name;
        records.probe(Probe::name, 0, in, out);
      }
    });
  });
}

TEST(Replay, what_the_emulator_records_is_replayed_without_a_difference) {
  const std::vector<Json> records = emulated_probes();
  const Replayed replayed = Replay().run(records);
  EXPECT_THAT(replayed.differences, IsEmpty());
  EXPECT_THAT(replayed.unknown, IsEmpty());
  EXPECT_EQ(replayed.probes, static_cast<int>(records.size()));
  int probes = 0;
  for_each_probe([&]<class Probe>() { ++probes; });
  EXPECT_EQ(replayed.probes, probes) << "every probe is emulated";
}

TEST(Replay, a_falsified_word_of_any_probe_is_found_by_name) {
  for (Json record : emulated_probes()) {
    // the top of the exponent: far outside every tolerance
    auto& digits = record.at("out").get_ref<std::string&>();
    char& digit = digits.at(digits.size() / 16 * 8);
    digit = "45670123cdef89ab"[std::stoi(std::string(1, digit), nullptr, 16)];
    const Replayed replayed = Replay().run({record});
    ASSERT_THAT(replayed.differences, SizeIs(1)) << record.at("probe");
    EXPECT_THAT(replayed.differences[0], HasSubstr(record.at("probe").get<std::string>()));
  }
}

TEST(Replay, a_probe_that_nobody_knows_is_named) {
  const Replayed replayed =
      Replay().run({Json{{"probe", "mma.of_another_age"}, {"case", 0}, {"in", ""}, {"out", ""}}});
  EXPECT_THAT(replayed.unknown, ElementsAre("mma.of_another_age"));
}

TEST(Replay, a_record_of_other_sizes_is_found) {
  const Replayed replayed =
      Replay().run({Json{{"probe", "ldmatrix.x4"}, {"case", 0}, {"in", "00000000"}, {"out", ""}}});
  EXPECT_THAT(replayed.differences, ElementsAre("ldmatrix.x4 case 0: other sizes"));
}

TEST(Replay, tiles_are_replayed_by_their_hash) {
  // Every fortieth case as the emulator does it, and one of them with a byte changed.
  constexpr uint64_t base = 0x7f0000000000;
  std::vector<uint64_t> storage(gpu_storage_bytes / 8);
  Rng rng(gpu_storage_seed);
  for (uint64_t& word : storage) word = rng.next();
  auto* const data = reinterpret_cast<std::byte*>(storage.data());
  GpuCases grid(base, gpu_grid_seed);
  grid.add_all();
  std::string falsified;
  const std::vector<Json> records = written([&](GpuRecords& out) {
    out.facts("\"storage_base\": \"" + GpuRecords::hexadecimal(base) + "\"");
    for (size_t i = 0; i < grid.cases.size(); i += 40) {
      const GpuCase& c = grid.cases[i];
      if (c.is_store) continue;
      emulator::SharedMemory shared(c.layout.bytes());
      const Status status = emulate(c, {data, gpu_storage_bytes, base, "storage"}, shared);
      EXPECT_TRUE(status.is_ok()) << status.message();
      if (i == 400) falsified = c.name;
      if (i == 400) *shared.at(c.layout.bytes() / 2) ^= std::byte{1};
      out.compare(c.name, shared.at(0), shared.at(0), c.layout.bytes());
    }
  });
  const Replayed replayed = Replay().run(records);
  EXPECT_GT(replayed.tiles, 20);
  EXPECT_THAT(replayed.unknown, IsEmpty());
  EXPECT_THAT(replayed.differences, ElementsAre(falsified + ": other bytes"));
}

TEST(Replay, what_gpus_have_recorded_is_what_the_emulator_does) {
  int probes = 0, tiles = 0;
  const auto files = golden_files(FOLIO_CUDA_GOLDEN_FOLDER);
  Replay replay;
  for (const auto& path : files) {
    std::ifstream in(path);
    const Replayed replayed = replay.run(records_of(in));
    EXPECT_THAT(replayed.differences, IsEmpty()) << path;
    probes += replayed.probes;
    tiles += replayed.tiles;
  }
  RecordProperty("probes", probes);
  RecordProperty("tiles", tiles);
  if (probes + tiles == 0)
    GTEST_SKIP() << "no GPU has run yet: 0 records in " << files.size()
                 << " files; tools/gpu_check.sh records them";
}

}  // namespace
}  // namespace folio::test
