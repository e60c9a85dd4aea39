// SPDX-License-Identifier: Apache-2.0
/// tier/redis/ordered_loads.cpp: loads whose leading extents come first.
///
/// A step asks for the next extents of every page by GETRANGE, as many as make `step_bytes` in the
/// largest one, more where pages are few: between two steps the pipeline is empty once. A value
/// that is replaced between two of them has the wrong checksum in the end.
#include <algorithm>
#include <string>
#include <vector>

#include "tier/load_steps.h"
#include "tier/redis/redis_medium.h"

namespace folio::inline v1::tier::redis {
namespace {

constexpr int64_t step_bytes = 64 << 10;        // of a page
constexpr int64_t step_bytes_of_all = 1 << 20;  // at least

struct Loading {
  Job* job;
  std::string key;
  uint32_t next = 0;  ///< extent
  int64_t bytes = 0;  ///< of the extents before it
  uint32_t crc = 0;   ///< of these
  uint32_t crc_of_all = 0;
  bool is_over = false;
};

}  // namespace

class RedisMedium::OrderedLoads {
 public:
  explicit OrderedLoads(RedisMedium& medium) : medium_(medium) {}

  void add(Job& job) {
    pages_.push_back({.job = &job, .key = medium_.key_of(job.name)});
    steps_.add(job.extents);
  }

  void run() {
    if (pages_.empty()) return;
    const int64_t wanted = std::max(step_bytes, step_bytes_of_all / std::ssize(pages_));
    for (uint32_t end = 0; end < steps_.num_extents();) {
      end = steps_.end_of_step(end, wanted);
      run_step(end);
    }
  }

 private:
  void run_step(uint32_t end) {
    commands_.clear();
    asked_.clear();
    for (Loading& page : pages_) {
      if (page.is_over) continue;
      const auto last = std::min(end, static_cast<uint32_t>(page.job->extents.size()));
      Command& part =
          commands_.emplace_back(part_of(page.key, page.job->name, medium_.options_.fingerprint,
                                         page.job->extents, page.next, last, page.bytes));
      part.crc = page.crc;
      part.landed = &page.job->landed;
      part.landed_then = last;
      asked_.push_back(&page);
    }
    medium_.router_.run(commands_);
    const std::lock_guard lock(medium_.mutex_);
    medium_.note_losses();
    for (size_t i = 0; i < asked_.size(); ++i) take(*asked_[i], commands_[i]);
  }

  void take(Loading& page, Command& part) const {
    if (part.answer == Answer::page) {
      if (part.has_header) page.crc_of_all = part.header.crc;
      page.next = part.landed_then;
      page.bytes += part.bytes;
      page.crc = part.crc;
      if (page.next != page.job->extents.size()) return;
      if (page.crc != page.crc_of_all) {
        part.answer = Answer::corrupt;
        part.text = "damaged bytes";
      }
    }
    page.is_over = true;
    medium_.end(*page.job, part);
  }

  RedisMedium& medium_;
  std::vector<Loading> pages_;
  std::vector<Command> commands_;
  std::vector<Loading*> asked_;
  LoadSteps steps_;
};

void RedisMedium::load_in_order(std::span<Job* const> jobs) {
  OrderedLoads loads(*this);
  uint64_t losses = 0;
  {
    const std::lock_guard lock(mutex_);
    note_losses();
    losses = losses_;
    for (Job* const job : jobs)
      if (!ends_at_once(*job)) loads.add(*job);
  }
  loads.run();
  const std::lock_guard lock(mutex_);
  if (losses != losses_) known_.lose();
}

}  // namespace folio::inline v1::tier::redis
