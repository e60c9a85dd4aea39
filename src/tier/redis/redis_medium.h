// SPDX-License-Identifier: Apache-2.0
/// tier/redis/redis_medium.h: pages as keys of a server, and a thread that asks and tidies.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "folio/tier/medium.h"
#include "tier/redis/known_names.h"
#include "tier/redis/router.h"

namespace folio::inline v1::tier::redis {

class RedisMedium final : public Medium {
 public:
  /// Throws std::system_error where no thread is to be had.
  RedisMedium(const Settings& settings, const TierOptions& options,
              std::unique_ptr<Encryption> encryption);
  /// Unlinks what is to go, if the server answers.
  ~RedisMedium() override;

  bool has(const PageName& name) noexcept override { return find_now({&name, 1}) == 1; }
  int32_t find(std::span<const PageName> names) noexcept override;
  void run(std::span<Job* const> jobs) noexcept override;
  void drop(const PageName& name) noexcept override;
  bool visit_names(const NameVisitor& visitor) override;
  uint32_t batch() const noexcept override;
  bool loads_in_order() const noexcept override { return true; }
  void count(TierFigures& figures) const noexcept override;
  Status last_fault() const noexcept override;

  [[nodiscard]] std::string key_of(const PageName& name) const;

 private:
  /// As `find`, without waiting.
  int32_t find_now(std::span<const PageName> names) noexcept;
  class OrderedLoads;
  void run_commands(std::span<Job* const> jobs);
  void load_in_order(std::span<Job* const> jobs);
  // The table is locked.
  /// Whether a job ends without the server.
  [[nodiscard]] bool ends_at_once(Job& job);
  void end(Job& job, const Command& command);
  [[nodiscard]] TierOutcome end_load(const PageName& name, const Command& command);
  [[nodiscard]] TierOutcome end_store(const PageName& name, const Command& command);
  void note(const Command& command, std::string_view what);
  void note_losses() noexcept;
  void let_go(const PageName& name);
  /// No UNLINK of a name that is to be stored anew is under way, nor will be.
  void wait_for_unlinks(std::unique_lock<std::mutex>& lock, std::span<Job* const> jobs);
  [[nodiscard]] Clock::time_point end_of_ttl() const noexcept;

  // The tidying thread.
  void tidy() noexcept;
  void wait_for_work(std::unique_lock<std::mutex>& lock) noexcept;
  /// Unlinks or asks about some names; whether the server has answered.
  [[nodiscard]] bool tidy_some(std::unique_lock<std::mutex>& lock);

  const Settings settings_;
  const TierOptions options_;
  const std::string prefix_;  ///< of keys
  Router router_;
  mutable std::mutex mutex_;
  KnownNames known_;
  uint64_t losses_ = 0;
  int64_t dropped_ = 0;
  Status last_fault_;
  std::condition_variable wake_, tidied_;
  std::deque<PageName> leaving_, asked_;
  std::vector<PageName> unlinking_;  ///< of which the server has been told, and has not answered
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace folio::inline v1::tier::redis
