// SPDX-License-Identifier: Apache-2.0
/// tier/redis/redis_medium.cpp: jobs as commands, answers as outcomes; its thread is in
/// tidying.cpp.
#include "tier/redis/redis_medium.h"

#include <algorithm>
#include <new>
#include <utility>

namespace folio::inline v1::tier::redis {
namespace {

constexpr int64_t most_of_value = int64_t{512} << 20;  // that servers take
constexpr size_t most_leaving = 1 << 16, most_asked = 1 << 12;
constexpr uint32_t batch_depths = 8;  // a pause between batches is worth so much

void add_hex(std::string& to, const Digest256& digest) {
  constexpr char digits[] = "0123456789abcdef";
  for (const uint8_t byte : digest.bytes) {
    to += digits[byte >> 4];
    to += digits[byte & 15];
  }
}

std::string prefix_of(const std::string& name_space, const Digest256& fingerprint) {
  std::string prefix = "folio:" + name_space + ":";
  add_hex(prefix, fingerprint);
  return prefix + ":";
}

void end_all(std::span<Job* const> jobs, TierOutcome outcome) {
  for (Job* const job : jobs) job->outcome = outcome;
}

bool begins_with(const Command& command, std::string_view word) {
  return command.answer == Answer::error && std::string_view(command.text).starts_with(word);
}

}  // namespace

RedisMedium::RedisMedium(const Settings& settings, const TierOptions& options,
                         std::unique_ptr<Encryption> encryption)
    : settings_(settings),
      options_(options),
      prefix_(prefix_of(settings.name_space, options.fingerprint)),
      router_(settings, std::move(encryption)),
      known_(options.max_bytes, settings.max_names, options.on_change),
      thread_([this] { tidy(); }) {}

RedisMedium::~RedisMedium() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

uint32_t RedisMedium::batch() const noexcept { return settings_.depth * batch_depths; }

std::string RedisMedium::key_of(const PageName& name) const {
  std::string key;
  key.reserve(prefix_.size() + 2 * name.bytes.size());
  key += prefix_;
  add_hex(key, name);
  return key;
}

Clock::time_point RedisMedium::end_of_ttl() const noexcept {
  return settings_.ttl_s == 0 ? Clock::time_point::max()
                              : Clock::now() + std::chrono::seconds(settings_.ttl_s);
}

void RedisMedium::note_losses() noexcept {
  if (std::exchange(losses_, router_.losses()) != losses_) known_.lose();
}

int32_t RedisMedium::find(std::span<const PageName> names) noexcept {
  const int32_t found = find_now(names);
  const auto unknown = names.subspan(static_cast<size_t>(found));
  if (settings_.ask_wait.count() == 0 || unknown.empty()) return found;
  {
    std::unique_lock lock(mutex_);
    tidied_.wait_for(lock, settings_.ask_wait, [&] {
      const Clock::time_point now = Clock::now();
      return closing_ || std::none_of(unknown.begin(), unknown.end(), [&](const PageName& name) {
               return known_.of(name, now) == Known::asked;
             });
    });
  }
  return found + find_now(unknown);
}

int32_t RedisMedium::find_now(std::span<const PageName> names) noexcept {
  if (router_.is_away()) return 0;
  try {
    const std::lock_guard lock(mutex_);
    note_losses();
    const Clock::time_point now = Clock::now();
    size_t found = 0;
    for (; found < names.size(); ++found) {
      const Known known = known_.of(names[found], now);
      if (known != Known::present &&
          (known != Known::nothing || settings_.unknown != UnknownPages::hoped))
        break;
    }
    if (settings_.unknown == UnknownPages::hoped) return static_cast<int32_t>(found);
    for (const PageName& name : names.subspan(found)) {
      if (asked_.size() == most_asked) break;
      if (known_.of(name, now) != Known::nothing) continue;
      known_.note(name, Known::asked);
      asked_.push_back(name);
    }
    if (!asked_.empty()) wake_.notify_one();
    return static_cast<int32_t>(found);
  } catch (const std::bad_alloc&) {
    return 0;
  }
}

void RedisMedium::drop(const PageName& name) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    let_go(name);
  } catch (const std::bad_alloc&) {}
}

void RedisMedium::let_go(const PageName& name) {
  if (leaving_.size() == most_leaving) {
    last_fault_ = fail(Errc::busy, "redis tier: {} pages wait to be unlinked, one of them stays",
                       most_leaving);
    known_.note(leaving_.front(), Known::nothing);
    leaving_.pop_front();
  }
  known_.note(name, Known::leaving);
  leaving_.push_back(name);
  wake_.notify_one();
}

bool RedisMedium::visit_names(const NameVisitor& visitor) {
  const std::lock_guard lock(mutex_);
  const std::vector<PageName> names = known_.told_names();
  visitor.function(visitor.context, names);
  return true;
}

void RedisMedium::count(TierFigures& figures) const noexcept {
  const std::lock_guard lock(mutex_);
  figures.pages = known_.own_pages();
  figures.bytes = known_.own_bytes();
  figures.dropped_pages = dropped_;
}

Status RedisMedium::last_fault() const noexcept {
  const std::lock_guard lock(mutex_);
  return last_fault_;
}

void RedisMedium::note(const Command& command, std::string_view what) {
  last_fault_ = fail(Errc::io, "redis tier: {}: {}{}", router_.text_of(command.node), what,
                     shown(command.text));
}

// ---- Jobs

void RedisMedium::run(std::span<Job* const> jobs) noexcept {
  const bool is_in_order =
      jobs.front()->kind == Job::Kind::load && jobs.front()->order == LoadOrder::extents;
  try {
    if (is_in_order)
      load_in_order(jobs);
    else
      run_commands(jobs);
  } catch (const std::bad_alloc&) {
    end_all(jobs, TierOutcome::failed);
    const std::lock_guard lock(mutex_);
    last_fault_ = fail(Errc::out_of_memory, "redis tier: no memory for {} commands", jobs.size());
  }
}

void RedisMedium::run_commands(std::span<Job* const> jobs) {
  std::vector<Job*> sent;
  std::vector<Command> commands;
  commands.reserve(jobs.size());
  uint64_t losses = 0;
  {
    std::unique_lock lock(mutex_);
    wait_for_unlinks(lock, jobs);
    note_losses();
    losses = losses_;
    for (Job* const job : jobs)
      if (!ends_at_once(*job)) sent.push_back(job);
  }
  for (const Job* const job : sent) {
    const std::string key = key_of(job->name);
    commands.push_back(
        job->kind == Job::Kind::load
            ? get_of(key, job->name, options_.fingerprint, job->extents)
            : set_of(key, job->name, options_.fingerprint, job->extents, settings_.ttl_s));
  }
  router_.run(commands);
  const std::lock_guard lock(mutex_);
  note_losses();
  for (size_t i = 0; i < sent.size(); ++i) end(*sent[i], commands[i]);
  // Some answers may be of the server that was there before.
  if (losses != losses_) known_.lose();
}

void RedisMedium::wait_for_unlinks(std::unique_lock<std::mutex>& lock, std::span<Job* const> jobs) {
  std::vector<PageName> anew;
  for (const Job* const job : jobs)
    if (job->kind == Job::Kind::store && known_.of(job->name, Clock::now()) == Known::leaving)
      anew.push_back(job->name);
  if (anew.empty()) return;
  const auto is_anew = [&](const PageName& name) { return std::ranges::count(anew, name) != 0; };
  tidied_.wait(lock, [&] { return std::ranges::none_of(unlinking_, is_anew); });
  std::erase_if(leaving_, is_anew);
}

bool RedisMedium::ends_at_once(Job& job) {
  const Known known = known_.use(job.name, Clock::now());
  if (job.kind == Job::Kind::load) {
    job.outcome = TierOutcome::missing;
    return known == Known::leaving;
  }
  const int64_t most = std::min(options_.max_bytes, most_of_value);
  const bool is_too_large =
      bytes_of(job.extents) > most - static_cast<int64_t>(sizeof(PayloadHeader));
  job.outcome = is_too_large ? TierOutcome::full : TierOutcome::done;
  return is_too_large || known == Known::present;
}

void RedisMedium::end(Job& job, const Command& command) {
  job.outcome =
      job.kind == Job::Kind::load ? end_load(job.name, command) : end_store(job.name, command);
  if (settings_.ttl_s != 0 && options_.on_change.function != nullptr)
    wake_.notify_one();  // its time may be the next to end
}

TierOutcome RedisMedium::end_load(const PageName& name, const Command& command) {
  const Clock::time_point now = Clock::now();
  const bool is_leaving = known_.of(name, now) == Known::leaving;
  const auto note_absent = [&] {
    if (!is_leaving) known_.note_absent(name, now + settings_.absent);
  };
  switch (command.answer) {
    case Answer::page:
      if (!is_leaving) known_.note_seen(name, end_of_ttl());
      return TierOutcome::done;
    case Answer::nil: note_absent(); return TierOutcome::missing;
    case Answer::corrupt:
      note(command, "a value is not the page that it should be: ");
      note_absent();  // so that it can be stored anew
      return TierOutcome::corrupt;
    default: break;
  }
  note(command, command.answer == Answer::none ? "" : "GET is answered by ");
  if (!begins_with(command, "WRONGTYPE")) return TierOutcome::failed;
  note_absent();
  return TierOutcome::corrupt;
}

TierOutcome RedisMedium::end_store(const PageName& name, const Command& command) {
  if (command.answer == Answer::status && command.text == "OK") {
    for (const PageName& leaves : known_.note_stored(name, value_bytes(command), end_of_ttl()))
      let_go(leaves);
    return TierOutcome::done;
  }
  note(command, command.answer == Answer::none ? "" : "SET is answered by ");
  if (known_.of(name, Clock::now()) == Known::leaving) let_go(name);  // what was there before
  return begins_with(command, "OOM") ? TierOutcome::full : TierOutcome::failed;
}

}  // namespace folio::inline v1::tier::redis
