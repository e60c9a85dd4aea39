// SPDX-License-Identifier: Apache-2.0
/// folio/testing/cta/access_map.h: the last write and the reads since of every byte of a memory.
///
/// Kept per word of four bytes; a word that is accessed in parts is split into its bytes, so that
/// threads may write neighbouring halves. Chunks of the map are made when they are first touched:
/// a map of gigabytes costs what is used of it. Externally synchronised.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "folio/testing/cta/clock.h"

namespace folio::inline v1::emulator::cta {

/// Why an access is not in order.
enum class Disorder : uint8_t {
  none,
  unwritten,    ///< a read of what nothing has written
  after_write,  ///< not ordered after the last write
  after_read,   ///< a write, not ordered after a read
};

struct AccessFault {
  Disorder disorder = Disorder::none;
  int64_t at = 0;  ///< the first byte concerned
  Epoch other = {};
};

class AccessMap {
 public:
  /// `is_written`: by the host, before the kernel.
  explicit AccessMap(int64_t bytes = 0, bool is_written = false)
      : initial_(is_written ? Epoch::host : Epoch::nobody),
        chunks_(static_cast<size_t>((bytes + chunk_bytes - 1) / chunk_bytes)) {}

  /// A read at `mine` by a thread with this clock, of bytes [at, at + bytes).
  AccessFault read(int64_t at, int64_t bytes, const Epoch& mine, const Clock& clock) {
    return for_each(at, bytes, [&](Word& word) { return read(word, mine, clock); });
  }
  AccessFault write(int64_t at, int64_t bytes, const Epoch& mine, const Clock& clock) {
    return for_each(at, bytes, [&](Word& word) { return write(word, mine, clock); });
  }
  /// The last write of every part, until `f` answers true. Whether it did.
  template <class F>
  bool any_write(int64_t at, int64_t bytes, F f) {
    const auto look = [&](Word& word) {
      return AccessFault{f(word.write) ? Disorder::after_write : Disorder::none, 0, {}};
    };
    return for_each(at, bytes, look).disorder != Disorder::none;
  }
  /// A kernel has ended: all that was written is old, and nobody reads any more.
  void settle() {
    for (auto& chunk : chunks_) {
      if (!chunk) continue;
      for (Word& word : *chunk) {
        if (word.write.kind == Epoch::index)
          settle_split(word);
        else if (word.write.kind != Epoch::nobody)
          word = {{Epoch::host, 0, 0}, {}};
      }
    }
    many_.clear();
    free_many_.clear();
  }

 private:
  struct Word {
    Epoch write;
    Epoch reader;  // one reader; or the index of several
  };
  using Split = std::array<Word, 4>;  // word.write indexes them
  static constexpr int64_t chunk_words = 4096, chunk_bytes = 4 * chunk_words;
  using Chunk = std::array<Word, chunk_words>;

  template <class F>
  AccessFault for_each(int64_t at, int64_t bytes, F f) {
    const int64_t end = at + bytes;
    while (at < end) {
      const int64_t begin = at & ~int64_t{3};
      Word& word = word_at(begin);
      const int64_t next = begin + 4;
      if (word.write.kind != Epoch::index && at == begin && next <= end) [[likely]] {
        if (AccessFault fault = f(word); fault.disorder != Disorder::none) [[unlikely]] {
          fault.at = begin;
          return fault;
        }
      } else {
        const int64_t last = next < end ? next : end;
        if (AccessFault fault = for_each_byte(word, at - begin, last - begin, f);
            fault.disorder != Disorder::none) {
          fault.at += begin;
          return fault;
        }
      }
      at = next;
    }
    return {};
  }
  template <class F>
  AccessFault for_each_byte(Word& word, int64_t first, int64_t last, F f) {
    if (word.write.kind != Epoch::index) split(word);
    const size_t index = word.write.time;
    for (int64_t byte = first; byte < last; ++byte) {
      if (AccessFault fault = f(splits_[index][static_cast<size_t>(byte)]);
          fault.disorder != Disorder::none) {
        fault.at = byte;
        return fault;
      }
    }
    return {};
  }
  Word& word_at(int64_t at) {
    auto& chunk = chunks_[static_cast<size_t>(at / chunk_bytes)];
    if (!chunk) [[unlikely]] {
      chunk = std::make_unique<Chunk>();
      if (initial_ != Epoch::nobody) chunk->fill({{initial_, 0, 0}, {}});
    }
    return (*chunk)[static_cast<size_t>(at % chunk_bytes / 4)];
  }
  void split(Word& word) {
    Split parts;
    for (Word& part : parts) {
      part = word;
      if (word.reader.kind == Epoch::index) {
        part.reader.time = static_cast<Time>(many_.size());
        many_.push_back(std::vector<Epoch>(many_[word.reader.time]));
      }
    }
    word = {{Epoch::index, 0, static_cast<Time>(splits_.size())}, {}};
    splits_.push_back(parts);
  }
  void settle_split(Word& word) {
    for (Word& part : splits_[word.write.time]) {
      if (part.write.kind != Epoch::nobody) part = {{Epoch::host, 0, 0}, {}};
    }
  }

  AccessFault read(Word& word, const Epoch& mine, const Clock& clock) {
    if (word.write.kind == Epoch::nobody) [[unlikely]]
      return {Disorder::unwritten, 0, {}};
    if (!clock.saw(word.write)) [[unlikely]]
      return {Disorder::after_write, 0, word.write};
    if (word.reader == mine) return {};
    if (word.reader.kind == Epoch::index) [[unlikely]] {
      add_reader(many_[word.reader.time], mine, clock);
    } else if (word.reader.kind == Epoch::nobody || clock.saw(word.reader)) {
      word.reader = mine;  // whoever is ordered after me is ordered after the former
    } else {
      const size_t index = new_many();
      many_[index].assign({word.reader, mine});
      word.reader = {Epoch::index, 0, static_cast<Time>(index)};
    }
    return {};
  }
  AccessFault write(Word& word, const Epoch& mine, const Clock& clock) {
    if (!clock.saw(word.write)) [[unlikely]]
      return {Disorder::after_write, 0, word.write};
    if (word.reader.kind == Epoch::index) [[unlikely]] {
      std::vector<Epoch>& readers = many_[word.reader.time];
      for (const Epoch& reader : readers) {
        if (!clock.saw(reader)) return {Disorder::after_read, 0, reader};
      }
      readers.clear();
      free_many_.push_back(word.reader.time);
    } else if (!clock.saw(word.reader)) [[unlikely]] {
      return {Disorder::after_read, 0, word.reader};
    }
    word = {mine, {}};
    return {};
  }
  static void add_reader(std::vector<Epoch>& readers, const Epoch& mine, const Clock& clock) {
    if (readers.back() == mine) return;
    const size_t size = readers.size();
    if (size >= 8 && (size & (size - 1)) == 0)  // now and then: those before me need not be kept
      std::erase_if(readers, [&](const Epoch& reader) { return clock.saw(reader); });
    readers.push_back(mine);
  }
  size_t new_many() {
    if (free_many_.empty()) {
      many_.emplace_back();
      return many_.size() - 1;
    }
    const size_t index = free_many_.back();
    free_many_.pop_back();
    return index;
  }

  uint16_t initial_;
  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::vector<Split> splits_;
  std::vector<std::vector<Epoch>> many_;  // readers of words that several read
  std::vector<size_t> free_many_;
};

}  // namespace folio::inline v1::emulator::cta
