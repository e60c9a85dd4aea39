// SPDX-License-Identifier: Apache-2.0
/// tier/events/note_queue.h: what places have told and nobody has sent yet, in memory taken
/// beforehand.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "folio/pool/name.h"

namespace folio::inline v1::tier {

struct Note;

/// What a place has, told anew: a pool's stored notes and their tokens, one behind another, or a
/// tier's names, in ascending order.
struct Retelling {
  std::vector<Note> notes;
  std::vector<TokenId> tokens;
  std::vector<PageName> names;
};

struct Note {
  enum class Kind : uint8_t { stored, removed, cleared, retold };
  Kind kind = Kind::stored;
  uint8_t place = 0;
  bool has_parent = false;
  uint32_t num_tokens = 0;  ///< of the queue's, or the retelling's
  uint32_t group = 0;
  uint64_t adapter = 0;
  PageName name = {}, parent = {};  ///< of a companion: its leading page's, and its own
};

/// Any thread puts, one takes.
class NoteQueue {
 public:
  /// Tokens for 32 a note. Throws std::bad_alloc.
  explicit NoteQueue(size_t max_notes) : max_notes_(max_notes), max_tokens_(32 * max_notes) {
    for (Notes* notes : {&filling_, &taken_}) {
      notes->notes.reserve(max_notes_);
      notes->tokens.reserve(max_tokens_);
    }
  }

  struct Notes {
    std::vector<Note> notes;
    std::vector<TokenId> tokens;
    std::vector<std::unique_ptr<Retelling>> retellings;  ///< of the notes that are one, in order
    int64_t dropped = 0;                                 ///< behind these notes
  };

  /// Takes no memory.
  void put(const Note& note, std::span<const TokenId> tokens) noexcept {
    const std::lock_guard lock(mutex_);
    if (filling_.notes.size() >= max_notes_ ||
        tokens.size() > max_tokens_ - filling_.tokens.size() || filling_.dropped != 0) {
      ++filling_.dropped;
      return;
    }
    filling_.notes.push_back(note);
    filling_.notes.back().num_tokens = static_cast<uint32_t>(tokens.size());
    filling_.tokens.insert(filling_.tokens.end(), tokens.begin(), tokens.end());
  }
  /// Has room whatever waits. Throws std::bad_alloc.
  void put(uint8_t place, std::unique_ptr<Retelling> retelling) {
    const std::lock_guard lock(mutex_);
    filling_.retellings.reserve(filling_.retellings.size() + 1);
    filling_.notes.push_back({.kind = Note::Kind::retold, .place = place});
    filling_.retellings.push_back(std::move(retelling));
  }
  /// What was taken before has gone then.
  [[nodiscard]] Notes& take() noexcept {
    taken_.notes.clear();
    taken_.tokens.clear();
    taken_.retellings.clear();
    taken_.dropped = 0;
    const std::lock_guard lock(mutex_);
    std::swap(filling_, taken_);
    return taken_;
  }
  [[nodiscard]] int64_t size() const noexcept {
    const std::lock_guard lock(mutex_);
    return std::ssize(filling_.notes);
  }

 private:
  const size_t max_notes_, max_tokens_;
  mutable std::mutex mutex_;
  Notes filling_, taken_;
};

}  // namespace folio::inline v1::tier
