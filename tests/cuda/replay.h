// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/replay.h: does in the emulator what a GPU has recorded, and says what differs.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "cuda/golden_lines.h"
#include "cuda/gpu_emulation.h"
#include "cuda/gpu_records.h"
#include "cuda/probes.h"
#include "folio/testing/cta/grid.h"

namespace folio::test {

/// Whether the emulator has what a probe needs.
template <class Probe>
constexpr bool is_emulated() {
  return Probe::needs == Needs::nothing ||
         (Probe::needs == Needs::bulk_copies ? cuda::TileMachine<emulator::EmulatedThread>
                                             : cuda::GroupMachine<emulator::EmulatedThread>);
}

/// What the emulator makes of these inputs; `fault` is what it found wrong, or "".
template <class Probe>
std::vector<uint32_t> emulate_probe(const std::vector<uint32_t>& in, std::string& fault) {
  alignas(16) static uint32_t input[Probe::in_words], output[Probe::out_words];
  std::copy(in.begin(), in.end(), input);
  std::fill(std::begin(output), std::end(output), 0xa5a5a5a5u);
  emulator::Grid grid({.threads = Probe::threads, .shared_bytes = Probe::shared_bytes});
  grid.add_input("in", input, sizeof input);
  grid.add_buffer("out", output, sizeof output);
  const ProbeArgs args{input, output};
  fault = grid.run([&](emulator::EmulatedThread& t) { Probe::run(t, args); });
  return {std::begin(output), std::end(output)};
}

inline bool is_near(Rule rule, uint32_t got, uint32_t emulated) {
  if (got == emulated) return true;
  if (rule == Rule::bits) return false;
  const float x = detail::float_of(got), y = detail::float_of(emulated);
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
  if (x == y) return true;
  if (rule == Rule::floats || std::isinf(x) || std::isinf(y)) return false;
  const double distance = std::fabs(static_cast<double>(x) - static_cast<double>(y));
  if (rule == Rule::sums) return distance <= 0x1p-14;
  // below the smallest normal number one may be flushed and the other not
  return distance <= 0x1p-126 ||
         distance <= 3.0 * 0x1p-23 * static_cast<double>(std::fmax(std::fabs(x), std::fabs(y)));
}

struct Replayed {
  int probes = 0, tiles = 0;
  std::vector<std::string> unknown;  ///< names that nothing here answers to
  std::vector<std::string> differences;
};

class Replay {
 public:
  Replay() : storage_(gpu_storage_bytes / 8) {
    Rng rng(gpu_storage_seed);
    for (uint64_t& word : storage_) word = rng.next();
  }

  /// All records of a file, in their order.
  Replayed run(const std::vector<nlohmann::json>& records) {
    Replayed replayed;
    for (const nlohmann::json& record : records) {
      if (record.contains("probe"))
        probe(record, replayed);
      else if (record.contains("storage_base"))
        base_ = number_of(record.at("storage_base")), cases_.clear();
      else if (record.contains("hash"))
        tile(record, replayed);
    }
    return replayed;
  }

 private:
  void probe(const nlohmann::json& record, Replayed& replayed) {
    const std::string name = record.at("probe");
    bool is_known = false;
    for_each_probe([&]<class Probe>() {
      if constexpr (is_emulated<Probe>()) {
        if (name != Probe::name) return;
        is_known = true;
        ++replayed.probes;
        const std::string title = name + " case " + std::to_string(record.at("case").get<int>());
        const std::vector<uint32_t> in = words_of(record.at("in")),
                                    out = words_of(record.at("out"));
        if (in.size() != Probe::in_words || out.size() != Probe::out_words)
          return replayed.differences.push_back(title + ": other sizes");
        std::string fault;
        const std::vector<uint32_t> emulated = emulate_probe<Probe>(in, fault);
        if (!fault.empty()) return replayed.differences.push_back(title + ": " + fault);
        for (size_t i = 0; i < out.size(); ++i)
          if (!is_near(Probe::rule, out[i], emulated[i]))
            return replayed.differences.push_back(title + ": word " + std::to_string(i) + " is " +
                                                  GpuRecords::hexadecimal(out[i]) + ", emulated " +
                                                  GpuRecords::hexadecimal(emulated[i]));
      }
    });
    if (!is_known) replayed.unknown.push_back(name);
  }

  void tile(const nlohmann::json& record, Replayed& replayed) {
    const std::string name = record.at("name");
    if (base_ == 0) return replayed.differences.push_back(name + ": no storage_base before it");
    if (cases_.empty()) {
      GpuCases grid(base_, gpu_grid_seed);
      grid.add_all();
      for (GpuCase& c : grid.cases) cases_.emplace(c.name, std::move(c));
    }
    const auto found = cases_.find(name);
    if (found == cases_.end()) return replayed.unknown.push_back(name);
    ++replayed.tiles;
    uint64_t hash = 0;
    const Status status = emulated_hash(found->second, hash);
    if (!status.is_ok())
      replayed.differences.push_back(name + ": " + std::string(status.message()));
    else if (hash != number_of(record.at("hash")))
      replayed.differences.push_back(name + ": other bytes");
  }

  /// What TileGrid (gpu_tiles.cuh) compares, by its hash.
  Status emulated_hash(const GpuCase& c, uint64_t& hash) {
    const int64_t bytes = c.layout.bytes();
    emulator::SharedMemory shared(bytes);
    auto* const data = reinterpret_cast<std::byte*>(storage_.data());
    if (!c.is_store) {
      const Status status = emulate(c, {data, gpu_storage_bytes, base_, "storage"}, shared);
      hash = hash_of(shared.at(0), bytes);
      return status;
    }
    std::memcpy(shared.at(0), data + gpu_storage_bytes - bytes, static_cast<size_t>(bytes));
    std::vector<std::byte> part(data, data + gpu_stored_bytes);
    const Status status = emulate(c, {part.data(), gpu_stored_bytes, base_, "storage"}, shared);
    hash = hash_of(part.data(), gpu_stored_bytes);
    return status;
  }

  std::vector<uint64_t> storage_;
  uint64_t base_ = 0;
  std::map<std::string, GpuCase> cases_;
};

}  // namespace folio::test
