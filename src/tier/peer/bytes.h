// SPDX-License-Identifier: Apache-2.0
/// tier/peer/bytes.h: numbers and runs of bytes in messages, in the machine's byte order: a reader
/// that has read too far says so once, at the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

namespace folio::inline v1::tier {

class ByteWriter {
 public:
  template <class T>
    requires std::is_trivially_copyable_v<T>
  void put(const T& value) {
    const auto* const from = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), from, from + sizeof(T));
  }
  /// Their number in front.
  template <class T>
    requires std::is_trivially_copyable_v<T>
  void put_all(std::span<const T> values) {
    put(static_cast<uint64_t>(values.size()));
    const auto from = std::as_bytes(values);
    bytes_.insert(bytes_.end(), from.begin(), from.end());
  }
  [[nodiscard]] std::vector<std::byte>& bytes() noexcept { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) noexcept : rest_(bytes) {}
  /// A value of zeros behind the end.
  template <class T>
    requires std::is_trivially_copyable_v<T>
  [[nodiscard]] T get() noexcept {
    T value{};
    if (const auto from = take(sizeof(T)); !from.empty())
      std::memcpy(&value, from.data(), sizeof(T));
    return value;
  }
  template <class T>
    requires std::is_trivially_copyable_v<T>
  [[nodiscard]] std::vector<T> get_all() {
    const auto count = get<uint64_t>();
    if (count > rest_.size() / sizeof(T)) {
      is_whole_ = false;
      return {};
    }
    std::vector<T> values(static_cast<size_t>(count));
    const auto from = take(values.size() * sizeof(T));
    if (!from.empty()) std::memcpy(values.data(), from.data(), from.size());
    return values;
  }
  [[nodiscard]] std::span<const std::byte> rest() const noexcept { return rest_; }
  /// Whether everything that was read was there.
  [[nodiscard]] bool is_whole() const noexcept { return is_whole_; }
  /// And nothing is left.
  [[nodiscard]] bool is_at_end() const noexcept { return is_whole_ && rest_.empty(); }

 private:
  std::span<const std::byte> take(size_t count) noexcept {
    if (count > rest_.size()) {
      is_whole_ = false;
      rest_ = {};
      return {};
    }
    const auto taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }

  std::span<const std::byte> rest_;
  bool is_whole_ = true;
};

}  // namespace folio::inline v1::tier
