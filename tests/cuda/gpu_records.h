// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/gpu_records.h: what a GPU did, line by line as JSON, with no library: it is built for
/// machines that have little else than a driver.
///
/// Every line stands in the file before the next case begins, so that what hangs or dies takes
/// nothing with it. A file begins with a head, and may have several: one for each process.
///
///   {"gpu": "…", "compute_capability": "9.0", "driver_version": 13000, "stage": "maps"}
///   {"name": "…", "map": {every field of TensorMap}, "words": [sixteen 64-bit words]}
///   {"name": "…", "bytes": n, "hash": "0x…", "equal": true}
///   {"probe": "…", "case": n, "in": "…", "out": "…"}       32-bit words, eight digits each
///   {"name": "…", "failed": "…"}   {"name": "…", "skipped": "…"}
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "folio/tma/encode.h"

namespace folio::test {

struct GpuHead {
  std::string gpu;
  int major = 0, minor = 0, driver_version = 0;
};

/// FNV-1a of 64-bit words, the last one filled with zeros.
inline uint64_t hash_of(const std::byte* data, int64_t bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (int64_t i = 0; i < bytes; i += 8) {
    uint64_t word = 0;
    for (int64_t b = i; b < i + 8 && b < bytes; ++b)
      word |= std::to_integer<uint64_t>(data[b]) << (8 * (b - i));
    hash = (hash ^ word) * 0x100000001b3u;
  }
  return hash;
}

class GpuRecords {
 public:
  /// Appends to the file. `is_open` says whether that can be.
  explicit GpuRecords(const char* path) : file_(std::fopen(path, "a")) {
    if (file_ == nullptr) std::fprintf(stderr, "gpu_check: cannot write %s\n", path);
  }
  [[nodiscard]] bool is_open() const { return file_ != nullptr; }

  int equal = 0, failed = 0, skipped = 0, recorded = 0;

  void head(const GpuHead& h, const std::string& stage) {
    line("{\"gpu\": \"" + escaped(h.gpu) + "\", \"compute_capability\": \"" +
         std::to_string(h.major) + "." + std::to_string(h.minor) + "\", \"driver_version\": " +
         std::to_string(h.driver_version) + ", \"stage\": \"" + escaped(stage) + "\"}");
  }
  /// More that belongs to a head: members of an object, as JSON.
  void facts(const std::string& members) { line("{" + members + "}"); }
  void fail(const std::string& name, const std::string& reason) {
    ++failed;
    std::printf("%s: %s\n", name.c_str(), reason.c_str());
    std::fflush(stdout);
    line(named(name) + ", \"failed\": \"" + escaped(reason) + "\"}");
  }
  void skip(const std::string& name, const std::string& reason) {
    ++skipped;
    line(named(name) + ", \"skipped\": \"" + escaped(reason) + "\"}");
  }
  void map(const std::string& name, const tma::TensorMap& m, const tma::EncodedTensorMap& bits) {
    ++recorded;
    std::string words;
    for (const uint64_t word : bits.words)
      words += (words.empty() ? "\"" : ", \"") + hexadecimal(word) + "\"";
    line(named(name) + ", \"map\": " + json_of(m) + ", \"words\": [" + words + "]}");
  }
  void probe(const std::string& name, int number, const std::vector<uint32_t>& in,
             const std::vector<uint32_t>& out) {
    ++recorded;
    line("{\"probe\": \"" + escaped(name) + "\", \"case\": " + std::to_string(number) +
         ", \"in\": \"" + digits(in) + "\", \"out\": \"" + digits(out) + "\"}");
  }
  /// Records what the device made, by its hash, and compares it with the emulator's.
  void compare(const std::string& name, const std::byte* got, const std::byte* expected,
               int64_t bytes) {
    int64_t first = 0;
    while (first < bytes && got[first] == expected[first]) ++first;
    std::string text = named(name) + ", \"bytes\": " + std::to_string(bytes) + ", \"hash\": \"" +
                       hexadecimal(hash_of(got, bytes)) + "\", \"equal\": ";
    if (first == bytes) {
      ++equal;
      return line(text + "true}");
    }
    const std::string difference =
        "byte " + std::to_string(first) + " of " + std::to_string(bytes) + " is " +
        std::to_string(static_cast<int>(got[first])) + ", the emulator has " +
        std::to_string(static_cast<int>(expected[first]));
    text += "false, \"difference\": \"" + difference + "\"";
    // the first few as they are: what to look at when there is no GPU any more
    if (failed < max_dumps && bytes <= max_dumped_bytes) text += ", \"got\": \"" + dump(got, bytes);
    if (failed < max_dumps && bytes <= max_dumped_bytes) text += "\"";
    ++failed;
    std::printf("%s: %s\n", name.c_str(), difference.c_str());
    line(text + "}");
  }

  static std::string json_of(const tma::TensorMap& m) {
    const auto number = [](const char* key, int value) {
      return std::string(", \"") + key + "\": " + std::to_string(value);
    };
    return "{\"base\": \"" + hexadecimal(m.base) + "\"" + number("rank", m.rank) +
           number("dtype", static_cast<int>(m.dtype)) +
           number("interleave", static_cast<int>(m.interleave)) +
           number("swizzle", static_cast<int>(m.swizzle)) +
           number("l2_promotion", static_cast<int>(m.l2_promotion)) +
           number("oob_fill", static_cast<int>(m.oob_fill)) +
           number("use", static_cast<int>(m.use)) + ", \"dim\": " + list(m.dim) +
           ", \"stride_bytes\": " + list(m.stride_bytes) + ", \"box\": " + list(m.box) +
           ", \"element_stride\": " + list(m.element_stride) + "}";
  }
  static std::string escaped(const std::string& text) {
    std::string out;
    for (const char c : text) {
      if (c == '"' || c == '\\') out += '\\';
      out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
    return out;
  }
  static std::string hexadecimal(uint64_t word) {
    char text[24];
    std::snprintf(text, sizeof text, "0x%016llx", static_cast<unsigned long long>(word));
    return text;
  }

 private:
  static constexpr int max_dumps = 8;
  static constexpr int64_t max_dumped_bytes = 64 << 10;

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  void line(const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), file_.get());
    std::fputc('\n', file_.get());
    std::fflush(file_.get());
  }
  static std::string named(const std::string& name) {
    return "{\"name\": \"" + escaped(name) + "\"";
  }
  static std::string digits(const std::vector<uint32_t>& words) {
    std::string out(words.size() * 8, '0');
    for (size_t i = 0; i < words.size(); ++i)
      for (size_t d = 0; d < 8; ++d)
        out[8 * i + d] = "0123456789abcdef"[words[i] >> (28 - 4 * d) & 15u];
    return out;
  }
  static std::string dump(const std::byte* data, int64_t bytes) {
    std::string out;
    for (int64_t i = 0; i < bytes; ++i) {
      const auto byte = std::to_integer<unsigned>(data[i]);
      out += "0123456789abcdef"[byte >> 4];
      out += "0123456789abcdef"[byte & 15u];
    }
    return out;
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

  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace folio::test
