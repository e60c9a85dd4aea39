// SPDX-License-Identifier: Apache-2.0
/// tier/redis/router.h: commands to the nodes that have their keys. Any thread.
///
/// One server is a cluster of one node, until it says otherwise: by MOVED, which names a slot's
/// node, or by ASK, which names it for one command.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>

#include "tier/redis/nodes.h"

namespace folio::inline v1::tier::redis {

inline constexpr uint32_t num_slots = 16384;
/// CRC16 of what stands between the key's first braces, or of the key, as clusters count.
[[nodiscard]] uint32_t slot_of(std::string_view key) noexcept;

class Router {
 public:
  Router(const Settings& settings, std::unique_ptr<Encryption> encryption)
      : nodes_(settings, std::move(encryption)) {}

  /// Each gets its answer, or none and why.
  void run(std::span<Command> commands);
  [[nodiscard]] bool is_away() const { return nodes_.are_all_away(); }
  [[nodiscard]] uint64_t losses() const noexcept { return nodes_.losses(); }
  [[nodiscard]] std::string text_of(uint32_t node) const {
    return redis::text_of(nodes_.address(node));
  }

 private:
  struct Way {
    Command* command;
    bool asks;  ///< goes where ASK said
  };
  struct Redirection {
    uint32_t slot, node;
    bool asks;
  };

  [[nodiscard]] uint32_t node_of(std::string_view key) const noexcept;
  void send(uint32_t node, std::span<const Way> ways);
  [[nodiscard]] Status exchange(uint32_t node, std::span<Command* const> commands);
  /// Where an answer sends its command; none: nowhere.
  [[nodiscard]] Result<Redirection> redirection(const Command& command);
  void leave(uint32_t node);        ///< its slots are another's, who may know better
  void learn_slots(uint32_t node);  ///< asks it, unless that was done just now
  void read_slots(const redisReply& slots, uint32_t node);

  Nodes nodes_;
  std::atomic<bool> is_cluster_ = false;
  std::array<std::atomic<uint16_t>, num_slots> node_of_slot_{};
  std::atomic<Clock::rep> learned_at_ = 0;
};

}  // namespace folio::inline v1::tier::redis
