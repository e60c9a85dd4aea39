// SPDX-License-Identifier: Apache-2.0
/// python/src/tiers/lmcache_connector.cpp: a tier as LMCache's native clients are: calls that begin
/// and return, one eventfd, and what has ended.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../pool_functions.h"
#include "page_arrays.h"
#include "tier_handle.h"
#include "tier_options.h"

namespace folio::python {
namespace {

using tier::TierOutcome;

/// A batch of loads or stores, until all of its pages have ended.
struct Batch {
  uint64_t id = 0;
  bool is_load = false;
  size_t left = 0;
  std::vector<uint8_t> done = {};
  TierOutcome worst = TierOutcome::done;
  nb::object memory = {};  ///< keeps it; given back with the GIL, as an answer's
};

/// Names that are asked for, or dropped, by the connector's thread.
struct Question {
  uint64_t id = 0;
  std::vector<PageName> names = {};
  bool drops = false;
};

/// What LMCache gets of a batch that has ended.
struct Answer {
  uint64_t id = 0;
  bool is_ok = false;
  std::string error = {};
  std::optional<std::vector<uint8_t>> results = {};
  nb::object memory = {};
};

// Answers move without the GIL: none may be copied.
static_assert(std::is_nothrow_move_constructible_v<Answer>);

/// Threads: any. Locks: nobody who holds the mutex waits for the GIL.
class Connector {
 public:
  Connector(nb::object tier, nb::callable name_of, int64_t load_timeout_ms)
      : handle_(std::move(tier)), name_of_(std::move(name_of)), load_timeout_ms_(load_timeout_ms) {
    if (!nb::isinstance<TierHandle>(handle_)) refuse_argument("tier: expected a Tier");
    if (load_timeout_ms < 0)
      refuse_argument("load_timeout_ms is {}, expected 0 or more", load_timeout_ms);
    auto& handle = nb::cast<TierHandle&>(handle_);
    fd_ = handle.signal();
    tier_ = handle.lend_to_manager(nb::none());
    thread_ = std::thread([this] { answer_questions(); });
  }
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;
  ~Connector() {
    try {
      close();
    } catch (...) {  // Python's signals: what is under way was waited for
    }
  }

  [[nodiscard]] int event_fd() const { return fd_; }

  uint64_t submit(const nb::sequence& keys, const nb::sequence& memoryviews, bool is_load) {
    auto batch = std::make_unique<Batch>();
    const std::vector<PageName> names = names_of_keys(keys);
    PagesOfCall bytes(memoryviews, nb::none(), names.size(), is_load);
    std::vector<tier::TierPage> pages;
    for (size_t i = 0; i < names.size(); ++i) {
      const size_t begin = i == 0 ? 0 : bytes.page_ends[i - 1];
      pages.push_back(
          {names[i], std::span(bytes.extents).subspan(begin, bytes.page_ends[i] - begin)});
    }
    batch->memory = std::move(bytes.keep);
    batch->is_load = is_load;
    batch->left = names.size();
    batch->done.resize(names.size());
    const WithoutGil free;
    const std::lock_guard lock(mutex_);
    tier::Tier& below = open_tier();
    batch->id = next_id_++;
    const Result<tier::TierTicket> ticket =
        is_load ? below.load(pages, load_timeout_ms_) : below.store(pages);
    const uint64_t id = batch->id;
    if (ticket.has_value()) {
      under_way_.emplace(ticket.value().value, std::move(batch));
    } else {  // busy: as a batch that has failed
      end(*batch, std::string(ticket.error().message()));
    }
    return id;
  }

  uint64_t ask(const nb::sequence& keys, bool drops) {
    Question question{0, names_of_keys(keys), drops};
    const WithoutGil free;
    const std::lock_guard lock(mutex_);
    static_cast<void>(open_tier());
    question.id = next_id_++;
    const uint64_t id = question.id;
    questions_.push_back(std::move(question));
    asked_.notify_one();
    return id;
  }

  /// (id, whether all of it is done, why not, of each key whether it is done or there; None of
  /// stores)
  nb::list drain() {
    std::vector<Answer> ended;
    {
      const WithoutGil free;
      uint64_t noted = 0;
      [[maybe_unused]] const ssize_t read = ::read(fd_, &noted, sizeof noted);
      const std::lock_guard lock(mutex_);
      collect();
      ended = std::exchange(answers_, {});
    }
    nb::list out;
    for (const Answer& answer : ended) {
      nb::object results = nb::none();
      if (answer.results) {
        nb::list each;
        for (const uint8_t is_so : *answer.results) each.append(is_so != 0);
        results = each;
      }
      out.append(nb::make_tuple(answer.id, answer.is_ok, answer.error, results));
    }
    return out;
  }

  /// Waits for what is under way; what ends then is told nobody. A second thread waits for the
  /// first one.
  void close() {
    const auto closing = lock_with_gil(closing_);
    {
      const WithoutGil free;
      {
        const std::lock_guard lock(mutex_);
        if (tier_ == nullptr) return;
        is_closing_ = true;
        asked_.notify_one();
      }
      thread_.join();
      const std::lock_guard lock(mutex_);
      for (const auto& [ticket, batch] : under_way_) tier_->cancel({ticket});
      tier_ = nullptr;
    }
    auto& handle = nb::cast<TierHandle&>(handle_);
    handle.take_back();
    handle.close(0);  // nothing touches the buffers from here on
    std::unordered_map<uint64_t, std::unique_ptr<Batch>> given_up;
    std::vector<Answer> untold;
    const WithoutGil free;
    const std::lock_guard lock(mutex_);
    given_up.swap(under_way_);
    untold.swap(answers_);
  }

 private:
  std::vector<PageName> names_of_keys(const nb::sequence& keys) const {
    std::vector<PageName> names;
    for (const nb::handle key : keys)
      names.push_back(python::name_of(name_of_(key), "name_of: expected to give"));
    if (names.empty()) refuse_argument("keys: expected one or more, got none");
    return names;
  }

  [[nodiscard]] tier::Tier& open_tier() const {
    if (tier_ == nullptr || is_closing_) throw Error(fail(Errc::io, "connector: it is closed"));
    return *tier_;
  }

  // The mutex is held.

  void note_answer() const {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(fd_, &one, sizeof one);
  }

  void end(Batch& batch, std::string error) {
    Answer answer{batch.id, error.empty(), std::move(error), {}, std::move(batch.memory)};
    if (batch.is_load) answer.results = std::move(batch.done);
    answers_.push_back(std::move(answer));
    note_answer();
  }

  void collect() {
    if (tier_ == nullptr) return;
    tier::TierCompletion completions[256];
    for (;;) {
      const size_t count = tier_->poll(completions);
      for (size_t i = 0; i < count; ++i) take(completions[i]);
      if (count < std::size(completions)) return;
    }
  }

  void take(const tier::TierCompletion& completion) {
    const auto found = under_way_.find(completion.ticket.value);
    if (found == under_way_.end()) return;
    Batch& batch = *found->second;
    if (completion.outcome == TierOutcome::done)
      batch.done[completion.page] = 1;
    else
      batch.worst = completion.outcome;
    if (--batch.left != 0) return;
    std::string error;
    if (batch.worst != TierOutcome::done) {
      error = std::string(batch.is_load ? "a load" : "a store") + " ended as " +
              tier::name(batch.worst);
      const Status fault = tier_->last_fault();
      if (batch.worst != TierOutcome::missing && !fault.is_ok())
        error += ": " + std::string(fault.message());
    }
    end(batch, std::move(error));
    under_way_.erase(found);
  }

  // The thread.

  void answer_questions() {
    std::unique_lock lock(mutex_);
    for (;;) {
      asked_.wait(lock, [&] { return is_closing_ || !questions_.empty(); });
      if (is_closing_) return;
      const Question question = std::move(questions_.front());
      questions_.pop_front();
      lock.unlock();
      Answer answer = answer_to(question);
      lock.lock();
      answers_.push_back(std::move(answer));
      note_answer();
    }
  }

  /// `tier_` stays as long as the thread.
  [[nodiscard]] Answer answer_to(const Question& question) const {
    std::vector<uint8_t> there(question.names.size());
    static_cast<void>(tier_->find(question.names));  // a server is asked by this, and waited for
    tier_->find_each(question.names, there);
    std::string error;
    if (question.drops)
      if (const Status dropped = tier_->drop(question.names); !dropped.is_ok())
        error = std::string(dropped.message());
    return {question.id, error.empty(), error, std::move(there), {}};
  }

  nb::object handle_;
  nb::callable name_of_;
  int64_t load_timeout_ms_;
  int fd_ = -1;
  std::mutex closing_;  // before the other
  std::mutex mutex_;
  tier::Tier* tier_ = nullptr;
  bool is_closing_ = false;
  uint64_t next_id_ = 1;
  std::unordered_map<uint64_t, std::unique_ptr<Batch>> under_way_;
  std::vector<Answer> answers_;
  std::condition_variable asked_;
  std::deque<Question> questions_;
  std::thread thread_;
};

/// Of the process that has its threads.
struct Client {
  OfProcess process = {};
  std::unique_ptr<Connector> made;

  ~Client() { process.end(made); }
  [[nodiscard]] Connector& here() const {
    process.expect_here("LMCacheConnector");
    return *made;
  }
};

void make_client(Client* self, nb::object tier, nb::callable name_of, int64_t load_timeout_ms) {
  new (self)
      Client{{}, std::make_unique<Connector>(std::move(tier), std::move(name_of), load_timeout_ms)};
}

}  // namespace

void bind_lmcache(nb::module_& m) {
  nb::class_<Client>(m, "LMCacheConnector",
                     R"(A tier as a native client of LMCache (IStorageConnector).

Calls begin and return an id; `event_fd` is readable while `drain_completions` has something. Memory
of a batch is held until it has ended. Any thread may call anything.)")
      .def("__init__", &make_client, nb::arg("tier"), nb::arg("name_of"),
           nb::arg("load_timeout_ms") = 0,
           R"(tier: becomes the connector's. name_of: gives the name, 1 to 32 bytes, of a key.

load_timeout_ms: loads that take longer end as "late"; 0: none.)")
      .def("event_fd", [](const Client& self) { return self.here().event_fd(); })
      .def(
          "submit_batch_get",
          [](const Client& self, const nb::sequence& keys, const nb::sequence& memoryviews) {
            return self.here().submit(keys, memoryviews, true);
          },
          nb::arg("keys"), nb::arg("memoryviews"), "Begins to load; its result is one per key.")
      .def(
          "submit_batch_set",
          [](const Client& self, const nb::sequence& keys, const nb::sequence& memoryviews) {
            return self.here().submit(keys, memoryviews, false);
          },
          nb::arg("keys"), nb::arg("memoryviews"), "Begins to store; done when all of it is.")
      .def(
          "submit_batch_exists",
          [](const Client& self, const nb::sequence& keys) { return self.here().ask(keys, false); },
          nb::arg("keys"), "Begins to ask which are there.")
      .def(
          "submit_batch_delete",
          [](const Client& self, const nb::sequence& keys) { return self.here().ask(keys, true); },
          nb::arg("keys"), "Begins to drop; its result is which were there.")
      .def(
          "drain_completions", [](const Client& self) { return self.here().drain(); },
          nb::sig("def drain_completions(self) -> list[tuple[int, bool, str, list[bool] | None]]"),
          "(id, whether all of the batch is done, why not, results or None) of what has ended.")
      .def(
          "close", [](const Client& self) { self.here().close(); },
          "Cancels what has not begun, waits for the rest, and ends the tier.");
}

}  // namespace folio::python
