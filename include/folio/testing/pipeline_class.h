// SPDX-License-Identifier: Apache-2.0
/// folio/testing/pipeline_class.h: the class of pipeline.h, which says what it is for and has the
/// bodies. Include that one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "folio/core/status.h"
#include "folio/testing/access_order.h"
#include "folio/testing/actor.h"
#include "folio/testing/mbarrier.h"

namespace folio::inline v1::emulator {

struct BarrierId {
  int32_t index = -1;
};

class Pipeline {
 public:
  /// What a copy does when it lands; gives the bytes of its transaction.
  using CopyEffect = std::function<Result<int64_t>()>;

  struct Request {
    enum class Kind : uint8_t {
      start,
      wait,
      arrive,
      expect_tx,
      arrive_expect_tx,
      copy,
      read,
      write,
      stop,
      ended
    };
    Kind kind = Kind::start;
    int32_t barrier = -1;
    int32_t parity = 0;
    int64_t bytes = 0;
    SharedRange range;
    CopyEffect effect;
    Status reason;
  };
  /// What an actor awaits.
  class [[nodiscard]] Operation {
   public:
    Operation(Pipeline* pipeline, Request request) noexcept
        : pipeline_(pipeline), request_(std::move(request)) {}
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<>) noexcept {
      pipeline_->running_->request = std::move(request_);
    }
    void await_resume() const noexcept {}

   private:
    Pipeline* pipeline_;
    Request request_;
  };

  /// `shared_bytes` of shared memory are watched, rounded down to whole granules.
  Pipeline(int64_t shared_bytes, uint64_t seed)
      : shared_bytes_(shared_bytes), seed_(seed), random_(seed), order_(0, 0) {}
  Pipeline(const Pipeline&) = delete;  // actors point to it
  Pipeline& operator=(const Pipeline&) = delete;

  BarrierId add_barrier(std::string label, int32_t arrivals) {
    barriers_.push_back({std::move(label), Mbarrier(arrivals), {}, {}});
    return {static_cast<int32_t>(barriers_.size()) - 1};
  }
  void add_actor(std::string label, Actor coroutine) {
    actors_.emplace_back(std::move(label), std::move(coroutine));
  }

  /// mbarrier.try_wait.parity in a loop.
  Operation wait(BarrierId barrier, int64_t parity) {
    return make(Request::Kind::wait, barrier, 0, parity);
  }
  Operation arrive(BarrierId barrier) { return make(Request::Kind::arrive, barrier, 0); }
  Operation expect_tx(BarrierId barrier, int64_t bytes) {
    return make(Request::Kind::expect_tx, barrier, bytes);
  }
  Operation arrive_expect_tx(BarrierId barrier, int64_t bytes) {
    return make(Request::Kind::arrive_expect_tx, barrier, bytes);
  }
  /// cp.async.bulk: issues a copy into `range`; `effect` runs when it lands, and `barrier` is told
  /// the bytes that it returns.
  Operation copy(BarrierId barrier, SharedRange range, CopyEffect effect) {
    return {this, {Request::Kind::copy, barrier.index, 0, 0, range, std::move(effect), {}}};
  }
  /// The actor is about to read, or to write, `range` with ordinary instructions; it does so right
  /// after this is awaited.
  Operation read(SharedRange range) {
    return {this, {Request::Kind::read, -1, 0, 0, range, {}, {}}};
  }
  Operation write(SharedRange range) {
    return {this, {Request::Kind::write, -1, 0, 0, range, {}, {}}};
  }
  /// Ends the run with the actor's own failure if `reason` is one.
  Operation stop_if(Status reason) {
    return {this, {Request::Kind::stop, -1, 0, 0, {}, {}, std::move(reason)}};
  }

  /// Runs to the end of all actors. Call once.
  /// Errors: invalid_argument with "seed S, step N: <name of the fault>: who, what, where"; the
  /// failure of `stop_if` or of a copy keeps
  ///         its code.
  [[nodiscard]] Status run(int64_t max_steps = int64_t{1} << 22);

  [[nodiscard]] Fault fault() const noexcept { return fault_; }
  [[nodiscard]] int64_t steps() const noexcept { return step_; }
  /// Completed phases.
  [[nodiscard]] int64_t phases(BarrierId barrier) const { return at(barrier.index).state.phase(); }

 private:
  struct Party {
    Party(std::string name_, Actor coroutine_) noexcept
        : label(std::move(name_)), coroutine(std::move(coroutine_)) {}
    std::string label;
    Actor coroutine;
    Request request;
    Clock seen;
    /// [barrier] that a wait must ask for; not_waited before the first
    std::vector<int64_t> next_phase;
    /// [barrier] phase of the last expect_tx since the last wait; -1: none
    std::vector<int64_t> expected_in;
    uint64_t weight = 1;
  };
  struct Barrier {
    std::string label;
    Mbarrier state;
    Clock arriving;  ///< what has been seen by those who arrived in the open phase
    Clock visible;   ///< what a wait for the last completed phase makes seen
  };
  struct Flight {
    int32_t actor = 0;
    int32_t barrier = 0;
    SharedRange range;
    Clock issued;
    CopyEffect effect;
  };
  static constexpr int64_t not_waited = -2;

  Operation make(Request::Kind kind, BarrierId barrier, int64_t bytes, int64_t parity = 0) {
    return {this, {kind, barrier.index, static_cast<int32_t>(parity), bytes, {}, {}, {}}};
  }
  [[nodiscard]] const Barrier& at(int32_t barrier) const {
    return barriers_[static_cast<size_t>(barrier)];
  }
  Barrier& at(int32_t barrier) { return barriers_[static_cast<size_t>(barrier)]; }
  [[nodiscard]] size_t thread_of(int32_t barrier) const noexcept {
    return actors_.size() + static_cast<size_t>(barrier);
  }
  int32_t index_of(const Party& actor) const noexcept {
    return static_cast<int32_t>(&actor - actors_.data());
  }

  uint64_t draw() noexcept;
  void set_up();
  Status failure(Fault fault, const std::string& text, Errc code = Errc::invalid_argument);
  Status check(const Request& request, const Party& actor);
  Status settle(Fault fault, bool completes, int32_t barrier, const std::string& who);
  Status check_wait(Party& actor, bool& passes);
  Status check_order(const Access& access, const std::string& who, const char* verb);
  Status perform(Party& actor);
  Status issue(Party& actor);
  Status land(size_t flight);
  Status resume(Party& actor);
  Status step(bool& done);
  Status stuck();
  [[nodiscard]] std::string describe(int32_t barrier) const;

  int64_t shared_bytes_;
  uint64_t seed_;
  uint64_t random_;
  AccessOrder order_;
  std::vector<Party> actors_;
  std::vector<Barrier> barriers_;
  std::vector<Flight> flights_;
  std::vector<int32_t> choices_;  // actors, then ~flight
  Party* running_ = nullptr;
  uint64_t copy_weight_ = 1;
  int64_t step_ = 0;
  Fault fault_ = Fault::none;
};

}  // namespace folio::inline v1::emulator
