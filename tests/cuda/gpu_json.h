// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/gpu_json.h: what gpu_check found, as JSON, with no library: it is built on machines
/// that have little else than nvcc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "folio/tma/encode.h"

namespace folio::test {

struct GpuReport {
  struct Failure {
    std::string name, reason;
  };
  struct Descriptor {
    std::string name;
    tma::TensorMap map;
    tma::EncodedTensorMap encoded;
  };
  static constexpr size_t max_descriptors = 200;

  std::string gpu;
  int major = 0, minor = 0, driver_version = 0;
  int passed = 0, skipped = 0, encoded = 0;
  std::vector<Failure> failures;
  std::vector<Descriptor> descriptors;

  void fail(const std::string& name, const std::string& reason) {
    failures.push_back({name, reason});
  }
  void compare(const std::string& name, const std::byte* got, const std::byte* expected,
               int64_t bytes) {
    int64_t first = 0;
    while (first < bytes && got[first] == expected[first]) ++first;
    if (first == bytes) {
      ++passed;
    } else {
      fail(name, "byte " + std::to_string(first) + " of " + std::to_string(bytes) + " is " +
                     std::to_string(static_cast<int>(got[first])) + ", the emulator has " +
                     std::to_string(static_cast<int>(expected[first])));
    }
  }
  /// Keeps the first of every eight, so that all builders are among those kept.
  void record(const std::string& name, const tma::TensorMap& map,
              const tma::EncodedTensorMap& bits) {
    if (encoded++ % 8 == 0 && descriptors.size() < max_descriptors)
      descriptors.push_back({name, map, bits});
  }

  void print() const {
    std::printf(
        "%s, compute capability %d.%d, driver %d: %d equal, %zu differ or fail, %d skipped, %zu "
        "descriptors kept\n",
        gpu.c_str(), major, minor, driver_version, passed, failures.size(), skipped,
        descriptors.size());
    for (size_t i = 0; i < failures.size() && i < 20; ++i)
      std::printf("  %s: %s\n", failures[i].name.c_str(), failures[i].reason.c_str());
  }

  [[nodiscard]] bool write_result(const char* path) const {
    const File file = open(path);
    if (file == nullptr) return false;
    write_head(file.get());
    std::fprintf(file.get(),
                 "  \"equal\": %d, \"failed\": %zu, \"skipped\": %d,\n  \"failures\": [", passed,
                 failures.size(), skipped);
    for (size_t i = 0; i < failures.size(); ++i)
      std::fprintf(file.get(), "%s\n    {\"name\": \"%s\", \"reason\": \"%s\"}", i == 0 ? "" : ",",
                   escaped(failures[i].name).c_str(), escaped(failures[i].reason).c_str());
    return std::fputs("]\n}\n", file.get()) >= 0;
  }

  /// As tests/tma/golden/README.md describes.
  [[nodiscard]] bool write_descriptors(const char* path) const {
    const File file = open(path);
    if (file == nullptr) return false;
    write_head(file.get());
    std::fputs("  \"descriptors\": [", file.get());
    for (size_t i = 0; i < descriptors.size(); ++i)
      write_descriptor(file.get(), descriptors[i], i == 0);
    return std::fputs("]\n}\n", file.get()) >= 0;
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  using File = std::unique_ptr<std::FILE, Close>;
  static File open(const char* path) {
    File file(std::fopen(path, "w"));
    if (file == nullptr) std::fprintf(stderr, "gpu_check: cannot write %s\n", path);
    return file;
  }
  static std::string escaped(const std::string& text) {
    std::string out;
    for (const char c : text) {
      if (c == '"' || c == '\\') out += '\\';
      out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
    return out;
  }
  void write_head(std::FILE* file) const {
    std::fprintf(
        file, "{\n  \"gpu\": \"%s\", \"compute_capability\": \"%d.%d\", \"driver_version\": %d,\n",
        escaped(gpu).c_str(), major, minor, driver_version);
  }
  template <class T>
  static std::string list(const T (&values)[tma::TensorMap::max_rank]) {
    std::string out;
    for (const T value : values) {
      out += out.empty() ? "[" : ", ";
      out += std::to_string(value);
    }
    return out + "]";
  }
  static void write_descriptor(std::FILE* file, const Descriptor& d, bool is_first) {
    const tma::TensorMap& m = d.map;
    std::fprintf(file,
                 "%s\n    {\"name\": \"%s\",\n     \"map\": {\"base\": \"0x%llx\", \"rank\": %d, "
                 "\"dtype\": %d, ",
                 is_first ? "" : ",", escaped(d.name).c_str(),
                 static_cast<unsigned long long>(m.base), m.rank, static_cast<int>(m.dtype));
    std::fprintf(file,
                 "\"interleave\": %d, \"swizzle\": %d, \"l2_promotion\": %d, \"oob_fill\": %d, "
                 "\"use\": %d,\n             ",
                 static_cast<int>(m.interleave), static_cast<int>(m.swizzle),
                 static_cast<int>(m.l2_promotion), static_cast<int>(m.oob_fill),
                 static_cast<int>(m.use));
    std::fprintf(file,
                 "\"dim\": %s, \"stride_bytes\": %s, \"box\": %s, \"element_stride\": %s},\n     "
                 "\"words\": [",
                 list(m.dim).c_str(), list(m.stride_bytes).c_str(), list(m.box).c_str(),
                 list(m.element_stride).c_str());
    for (int i = 0; i < 16; ++i)
      std::fprintf(file, "%s\"0x%016llx\"", i == 0 ? "" : ", ",
                   static_cast<unsigned long long>(d.encoded.words[i]));
    std::fputs("]}", file);
  }
};

}  // namespace folio::test
