// SPDX-License-Identifier: Apache-2.0
/// tests/tier/peer/traffic.h: what the ends of the process tests do with one another.
///
/// Each end has one region of `num_slots` slots twice over: the front half is written by others,
/// the back half has the pattern `constant_seed` and is read by others. A writer takes a free
/// slot, writes a pattern into some runs of it, and says in the transfer's message which; the
/// owner looks at the bytes and answers that the slot is free again.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "folio/tier/transports.h"
#include "support/random.h"
#include "tier/peer/pattern.h"

namespace folio::test {

inline constexpr int64_t slot_bytes = 32'768;
inline constexpr int64_t num_slots = 64;
inline constexpr int64_t half_bytes = slot_bytes * num_slots;
inline constexpr uint64_t constant_seed = 4711;

/// Of an end's first region.
inline constexpr RegionId only_region{1};

struct Note {
  enum class Kind : uint32_t { written = 1, freed = 2 } kind = Kind::written;
  uint32_t slot = 0;
  uint64_t seed = 0;
  int64_t stride = 0, run = 0;  ///< runs of `run` bytes every `stride` of the slot
};

/// An end: its memory, and what it found wrong.
class TrafficEnd {
 public:
  explicit TrafficEnd(std::unique_ptr<Transport> transport)
      : memory_(2 * half_bytes), transport_(std::move(transport)) {
    fill_pattern(std::span(memory_).subspan(half_bytes), constant_seed);
    region_ = transport_->add_region(memory_).value();
  }
  [[nodiscard]] Transport& transport() { return *transport_; }
  [[nodiscard]] RegionId region() const { return region_; }
  [[nodiscard]] int64_t faults() const { return faults_; }
  [[nodiscard]] int64_t checked() const { return checked_; }
  /// Who sent the last message.
  [[nodiscard]] PeerId last_peer() const { return last_peer_; }

  /// Checks what has been written here, and frees the slots.
  bool serve(std::set<uint32_t>* freed) {
    PeerMessage messages[16];
    const size_t count = transport_->receive(messages);
    for (const PeerMessage& message : std::span(messages).first(count)) {
      last_peer_ = message.peer;
      Note note;
      if (message.bytes.size() != sizeof(note)) {
        ++faults_;
        continue;
      }
      std::memcpy(&note, message.bytes.data(), sizeof(note));
      if (note.kind == Note::Kind::freed) {
        if (freed != nullptr) freed->insert(note.slot);
        continue;
      }
      ++checked_;
      const auto slot = std::span(memory_).subspan(note.slot * static_cast<size_t>(slot_bytes));
      for (int64_t at = 0; at + note.run <= slot_bytes; at += note.stride)
        if (!has_pattern(slot.subspan(static_cast<size_t>(at), static_cast<size_t>(note.run)),
                         note.seed, at))
          ++faults_;
      note.kind = Note::Kind::freed;
      (void)transport_->send(message.peer, std::as_bytes(std::span(&note, 1)));
    }
    return count > 0;
  }

 private:
  std::vector<std::byte> memory_;
  std::unique_ptr<Transport> transport_;
  RegionId region_;
  PeerId last_peer_;
  int64_t faults_ = 0, checked_ = 0;
};

/// Writes to and reads from a peer, several transfers at a time.
class Traffic {
 public:
  /// Uses slots [first, first + count) of the peer's.
  Traffic(TrafficEnd& end, PeerId peer, uint32_t first, uint32_t count, uint64_t seed)
      : end_(end), peer_(peer), rng_(seed), memory_(static_cast<size_t>(slot_bytes * count)) {
    for (uint32_t i = 0; i < count; ++i) free_.insert(first + i);
    first_ = first;
    region_ = end.transport().add_region(memory_).value();
  }
  ~Traffic() {
    for (const auto& [id, what] : pending_) (void)end_.transport().release(id);
    while (!end_.transport().remove_region(region_).is_ok()) end_.serve(nullptr);
  }
  [[nodiscard]] size_t pending() const { return pending_.size(); }
  [[nodiscard]] int64_t begun() const { return begun_; }
  [[nodiscard]] int64_t done() const { return done_; }
  [[nodiscard]] int64_t failed() const { return failed_; }
  [[nodiscard]] int64_t faults() const { return faults_; }

  void free(const std::set<uint32_t>& slots) { free_.insert(slots.begin(), slots.end()); }

  /// Begins one more, if a slot is free; false: the peer is lost.
  bool begin() {
    if (free_.empty()) return true;
    auto at = free_.begin();
    std::advance(at, rng_.between(0, static_cast<int64_t>(free_.size()) - 1));
    const uint32_t slot = *at;
    const bool is_write = rng_.chance(0.5);
    const int64_t run = rng_.chance(0.3) ? rng_.between(4000, slot_bytes) : rng_.between(1, 700);
    const int64_t stride = run + rng_.between(0, 300);
    const Note note{.slot = slot, .seed = rng_.next(), .stride = stride, .run = run};
    std::vector<RegionRun> here, there;
    const int64_t mine = (slot - first_) * slot_bytes;
    for (int64_t i = 0; i + run <= slot_bytes; i += stride) {
      here.push_back({region_, mine + i, run});
      there.push_back({only_region, (is_write ? 0 : half_bytes) + slot * slot_bytes + i, run});
      if (is_write) fill_pattern(at_slot(slot, i, run), note.seed, i);
    }
    TransferRequest request{
        .direction = is_write ? TransferDirection::write : TransferDirection::read,
        .peer = peer_,
        .local = here,
        .remote = there};
    if (is_write) request.message = std::as_bytes(std::span(&note, 1));
    const auto id = end_.transport().post(request);
    if (!id) return id.error().code() == Errc::busy;
    free_.erase(at);
    ++begun_;
    pending_[*id] = {note, is_write};
    return true;
  }

  /// Looks at what has ended.
  void look() {
    std::erase_if(pending_, [&](const auto& entry) {
      const auto& [id, what] = entry;
      const TransferState state = end_.transport().poll(id).value();
      if (state == TransferState::pending) return false;
      ++(state == TransferState::done ? done_ : failed_);
      if (!what.is_write) {
        if (state == TransferState::done) check(what.note);
        free_.insert(what.note.slot);
      }
      (void)end_.transport().release(id);
      return true;
    });
  }

 private:
  struct Begun {
    Note note;
    bool is_write = false;
  };
  std::span<std::byte> at_slot(uint32_t slot, int64_t at, int64_t bytes) {
    return std::span(memory_).subspan(static_cast<size_t>((slot - first_) * slot_bytes + at),
                                      static_cast<size_t>(bytes));
  }
  void check(const Note& note) {
    for (int64_t i = 0; i + note.run <= slot_bytes; i += note.stride)
      if (!has_pattern(at_slot(note.slot, i, note.run), constant_seed, note.slot * slot_bytes + i))
        ++faults_;
  }

  TrafficEnd& end_;
  PeerId peer_;
  Rng rng_;
  std::vector<std::byte> memory_;
  RegionId region_;
  uint32_t first_ = 0;
  std::set<uint32_t> free_;
  std::map<TransferId, Begun> pending_;
  int64_t begun_ = 0, done_ = 0, failed_ = 0, faults_ = 0;
};

}  // namespace folio::test
