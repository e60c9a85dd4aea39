// SPDX-License-Identifier: Apache-2.0
/// examples/own_medium.cpp: pages in an object store behind HTTP: a medium of one's own, the check
/// of what every medium keeps, and a tier over it. `own_medium URL`, of a server like
/// object_server.py.
#include <folio/testing/medium_conformance.h>
#include <folio/tier/medium.h>

#include <cstdio>
#include <map>

#include "object_client.h"

using namespace folio;

namespace {

/// An object a page: its header, then its bytes. Beyond `max_bytes` the oldest go.
class ObjectStore final : public tier::Medium {
 public:
  ObjectStore(const std::string& url, const TierOptions& options)
      : options_(options), client_(url + "/" + key_of(options.fingerprint) + "/") {
    std::vector<std::pair<std::string, int64_t>> objects;
    note("list", client_.list(objects), 200);
    for (const auto& [key, bytes] : objects) add(name_of(key), bytes);
  }
  ~ObjectStore() override { remove_leaving(); }
  bool has(const PageName& name) override {
    const std::lock_guard lock(mutex_);
    return pages_.contains(name);
  }
  void run(std::span<tier::Job* const> jobs) override {
    for (tier::Job* const job : jobs) {
      const std::lock_guard alone(busy_[job->name.bytes[0] % busy_.size()]);
      job->outcome = job->kind == tier::Job::Kind::load ? load(*job) : store(*job);
    }
    remove_leaving();
  }
  /// The object goes with the next run, or at the end: drop does not wait.
  void drop(const PageName& name) override {
    const std::lock_guard lock(mutex_);
    leave(name);
  }
  void count(TierFigures& figures) const override {
    const std::lock_guard lock(mutex_);
    figures.pages = std::ssize(pages_);
    figures.bytes = bytes_;
    figures.dropped_pages = dropped_;
  }
  Status last_fault() const override {
    const std::lock_guard lock(mutex_);
    return fault_;
  }

 private:
  TierOutcome store(const tier::Job& job) {
    if (has(job.name)) return TierOutcome::done;
    const Bytes body = body_of(job, options_.fingerprint);
    if (std::ssize(body) > options_.max_bytes) return TierOutcome::full;
    if (!note("PUT", client_.put(key_of(job.name), body), 201)) return TierOutcome::failed;
    const std::lock_guard lock(mutex_);
    add(job.name, std::ssize(body));
    return TierOutcome::done;
  }
  TierOutcome load(const tier::Job& job) {
    if (!has(job.name)) return TierOutcome::missing;
    Bytes body;
    const long status = client_.get(key_of(job.name), body);
    if (status != 404 && !note("GET", status, 200)) return TierOutcome::failed;
    if (status == 200 && fill(job, options_.fingerprint, body)) return TierOutcome::done;
    drop(job.name);  // so that it can be stored anew
    return status == 404 ? TierOutcome::missing : TierOutcome::corrupt;
  }
  bool note(const char* what, long status, long expected) {
    const std::lock_guard lock(mutex_);
    if (status != expected)
      fault_ = fail(Errc::io, "ObjectStore: {} is answered by {}", what, status);
    return status == expected;
  }
  /// Objects of pages that have gone, unless they were stored anew.
  void remove_leaving() {
    std::unique_lock lock(mutex_);
    const std::vector<PageName> leaving = std::exchange(leaving_, {});
    lock.unlock();
    for (const PageName& name : leaving) {
      const std::lock_guard alone(busy_[name.bytes[0] % busy_.size()]);
      if (!has(name)) note("DELETE", client_.remove(key_of(name)), 204);
    }
  }
  void leave(const PageName name) {  // locked, as the next
    const auto page = pages_.find(name);
    if (page == pages_.end()) return;
    bytes_ -= page->second.bytes;
    pages_.erase(page);
    leaving_.push_back(name);
    ++dropped_;
    tier::tell(options_.on_change, TierChange::removed, name);
  }
  void add(const PageName& name, int64_t bytes) {
    pages_[name] = {bytes, ++age_};
    bytes_ += bytes;
    tier::tell(options_.on_change, TierChange::stored, name);
    const auto age = [](const auto& page) { return page.second.age; };
    while (bytes_ > options_.max_bytes) leave(std::ranges::min_element(pages_, {}, age)->first);
  }
  struct Page {
    int64_t bytes = 0, age = 0;
  };
  const TierOptions options_;
  const ObjectClient client_;
  std::array<std::mutex, 64> busy_;  ///< requests of one name come one behind another
  mutable std::mutex mutex_;         ///< of what follows
  std::map<PageName, Page> pages_;
  std::vector<PageName> leaving_;
  int64_t bytes_ = 0, age_ = 0, dropped_ = 0;
  Status fault_;
};

/// Stores 8 pages where there is room for 5; the next tier finds those five.
int use_as_tier(const auto& make) {
  const TierOptions options{.max_bytes = 6'000};
  int found = 0;
  for (const bool stores : {true, false}) {
    const auto tier = tier::make_queued_tier(make(options).value(), options).value();
    for (uint8_t n = 0; n < 8; ++n) {
      Bytes bytes(1000, stores ? std::byte{n} : std::byte{0xff});
      const Extent extent{bytes.data(), std::ssize(bytes)};
      const TierPage page{.name = {{n}}, .extents = {&extent, 1}};
      if (!stores && tier->find({&page.name, 1}) == 0) continue;
      (stores ? tier->store({&page, 1}) : tier->load({&page, 1}, 60'000)).value();
      TierCompletion end;
      while (tier->poll({&end, 1}) == 0) std::this_thread::yield();
      if (!stores && bytes == Bytes(1000, std::byte{n})) ++found;
    }
  }
  return found == 5 ? 0 : std::printf("%d of 8 pages found, expected 5\n", found);
}

}  // namespace

int main(int count, char** words) {
  if (count != 2) return 2;
  const auto make = [&](const TierOptions& options) -> Result<std::unique_ptr<tier::Medium>> {
    return std::unique_ptr<tier::Medium>(std::make_unique<ObjectStore>(words[1], options));
  };
  const TierOptions few{.max_bytes = 200'000};
  const tier::MediumReport report = tier::check_medium(
      {.make = make, .options = few, .keeps = true, .tells = true, .too_many_pages = 30});
  std::printf("%s%zu rules checked\n", report.text().c_str(), report.checked.size());
  return report.is_ok() ? use_as_tier(make) : 1;
}
