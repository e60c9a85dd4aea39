// SPDX-License-Identifier: Apache-2.0
/// folio/testing/pipeline.h: runs the producers and consumers of a kernel against emulated
/// mbarriers, in a seeded random order.
///
///   Pipeline p(shared_bytes, seed);
///   const BarrierId full = p.add_barrier("full", 1), empty = p.add_barrier("empty", 2);
///   p.add_actor("producer", producer(p, full, empty));         // a coroutine, see actor.h
///   p.add_actor("consumer", consumer(p, full, empty));
///   Status status = p.run();                                   // what went wrong, by name;
///                                                              fault() says which kind
///
/// Each operation is a point where any other actor or any copy in flight may go on. A copy lands at
/// a random time after it was issued and reports its bytes to its barrier; that makes these bytes
/// visible, and nothing else that its issuer did. Reads and writes of shared memory are declared
/// with their bytes and checked for order by vector clocks (access_order.h), so that overwriting,
/// reading early and reading behind a wrong parity are found on every schedule; what depends on the
/// schedule (deadlock, bytes of a later phase) takes a few seeds: `interleave`.
///
/// Waits of one actor on one barrier ask for the phases one after the other, from phase 0, or from
/// the one "before" it (parity 1 on a fresh barrier passes); anything else is a wrong phase.
/// Thread safety: externally synchronised; everything runs on the calling thread. Setting up and
/// running allocate and may throw std::bad_alloc; faults are values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "folio/core/status.h"
#include "folio/testing/access_order.h"
#include "folio/testing/mbarrier.h"
#include "folio/testing/pipeline_class.h"  // IWYU pragma: export

namespace folio::inline v1::emulator {

/// splitmix64 (Steele, Lea and Flood 2014).
inline uint64_t Pipeline::draw() noexcept {
  uint64_t z = random_ += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/// Some runs are fair, in others somebody is up to 64 times slower than the rest: both kinds of
/// schedule show different faults.
inline void Pipeline::set_up() {
  order_ = AccessOrder(shared_bytes_, static_cast<int32_t>(actors_.size()));
  const size_t threads = actors_.size() + barriers_.size();
  for (Party& actor : actors_) {
    actor.seen.assign(threads, 0);
    actor.seen[static_cast<size_t>(index_of(actor))] = 1;  // 0: nothing yet
    actor.next_phase.assign(barriers_.size(), not_waited);
    actor.expected_in.assign(barriers_.size(), -1);
    actor.weight = uint64_t{1} << (3 * (draw() % 3));
  }
  for (Barrier& barrier : barriers_) {
    barrier.arriving.assign(threads, 0);
    barrier.visible.assign(threads, 0);
  }
  copy_weight_ = uint64_t{1} << (3 * (draw() % 3));
}

inline Status Pipeline::failure(Fault fault, const std::string& text, Errc code) {
  fault_ = fault;
  return fail(code, "seed {}, step {}: {}: {}", seed_, step_, name(fault), text);
}

/// "full[0] (phase 3 is open: 1 of 1 arrivals, 4096 bytes missing, 0 copies in flight)"
inline std::string Pipeline::describe(int32_t barrier) const {
  const Mbarrier& state = at(barrier).state;
  return at(barrier).label + " (phase " + std::to_string(state.phase()) +
         " is open: " + std::to_string(state.arrivals() - state.pending()) + " of " +
         std::to_string(state.arrivals()) + " arrivals, " + std::to_string(state.missing_bytes()) +
         " bytes missing, " + std::to_string(state.copies_in_flight()) + " copies in flight)";
}

inline Status Pipeline::check(const Request& request, const Party& actor) {
  using Kind = Request::Kind;
  const bool has_barrier = request.kind >= Kind::wait && request.kind <= Kind::copy;
  if (has_barrier &&
      (request.barrier < 0 || request.barrier >= static_cast<int32_t>(barriers_.size())))
    return failure(Fault::invalid, actor.label + " uses a barrier that does not exist");
  if (request.kind == Kind::wait && request.parity != 0 && request.parity != 1)
    return failure(Fault::invalid, actor.label + " waits for parity " +
                                       std::to_string(request.parity) + ", expected 0 or 1");
  if (request.bytes < 0)
    return failure(Fault::invalid,
                   actor.label + " expects " + std::to_string(request.bytes) + " bytes");
  const bool has_range =
      request.kind == Kind::copy || request.kind == Kind::read || request.kind == Kind::write;
  if (has_range && !order_.contains(request.range)) {
    return failure(Fault::bad_access,
                   actor.label + " touches shared bytes [" + std::to_string(request.range.begin) +
                       ", " + std::to_string(request.range.begin + request.range.bytes) +
                       "), expected a part of [0, " + std::to_string(shared_bytes_) +
                       ") in whole granules of 16");
  }
  return {};
}

/// After an operation on a barrier: its fault, or the phase that it completed.
inline Status Pipeline::settle(Fault fault, bool completes, int32_t barrier,
                               const std::string& who) {
  if (fault == Fault::too_many_arrivals)
    return failure(fault, who + " arrives once more than " + describe(barrier) + " was made for");
  if (fault == Fault::wrong_byte_count)
    return failure(
        fault,
        who + " completes, or overflows, " + describe(barrier) +
            ": fewer bytes were expected than are copied, the rest would count for the next phase");
  if (completes) {
    Barrier& b = at(barrier);
    join(b.visible, b.arriving);
    b.visible[thread_of(barrier)] = b.state.phase();
    b.arriving.assign(b.arriving.size(), 0);
  }
  return {};
}

/// Whether the wait passes now, and that it is for the phase whose turn it is.
inline Status Pipeline::check_wait(Party& actor, bool& passes) {
  const Request& request = actor.request;
  const auto barrier = static_cast<size_t>(request.barrier);
  const Mbarrier& state = barriers_[barrier].state;
  passes = state.passes(request.parity);
  const int64_t phase = passes ? state.phase() - 1 : state.phase();
  const int64_t next = actor.next_phase[barrier];
  const int64_t expected = next != not_waited ? next : request.parity == 0 ? 0 : -1;
  if (phase == expected) return {};
  return failure(Fault::wrong_phase, actor.label + " waits with parity " +
                                         std::to_string(request.parity) +
                                         ", which now means phase " + std::to_string(phase) +
                                         ", but its next is phase " + std::to_string(expected) +
                                         " of " + describe(request.barrier));
}

inline Status Pipeline::check_order(const Access& access, const std::string& who,
                                    const char* verb) {
  if (access.disorder == Disorder::none) return {};
  const std::string what = who + " " + verb + " shared byte " + std::to_string(access.at);
  if (access.disorder == Disorder::never_written)
    return failure(Fault::read_before_arrival, what + ", which nothing has written");
  const std::string& other = actors_[static_cast<size_t>(access.by)].label;
  if (access.disorder == Disorder::after_read)
    return failure(Fault::overwrite_before_release,
                   what + ", which " + other + " reads without a release that was waited for");
  const bool reads = verb[0] == 'r';
  return failure(
      reads ? Fault::read_before_arrival : Fault::overwrite_before_arrival,
      what + ", which " + other + " writes (or copies) without an arrival that was waited for");
}

inline Status Pipeline::issue(Party& actor) {
  Request& request = actor.request;
  Barrier& barrier = at(request.barrier);
  const int64_t expected_in = actor.expected_in[static_cast<size_t>(request.barrier)];
  if (expected_in >= 0 && expected_in != barrier.state.phase()) {
    return failure(Fault::wrong_byte_count, actor.label + " issues a copy for phase " +
                                                std::to_string(expected_in) + " of " +
                                                describe(request.barrier) +
                                                ": fewer bytes were expected than are copied");
  }
  barrier.state.begin_copy();
  flights_.push_back(
      {index_of(actor), request.barrier, request.range, actor.seen, std::move(request.effect)});
  return {};
}

inline Status Pipeline::land(size_t flight) {
  const Flight copy = std::move(flights_[flight]);
  flights_.erase(flights_.begin() + static_cast<ptrdiff_t>(flight));
  const std::string who = "a copy of " + actors_[static_cast<size_t>(copy.actor)].label;
  Barrier& barrier = at(copy.barrier);
  const AccessOrder::Write write{static_cast<int32_t>(thread_of(copy.barrier)), copy.actor,
                                 barrier.state.phase() + 1};
  if (Status status = check_order(order_.write(copy.range, write, copy.issued), who, "overwrites");
      !status.is_ok())
    return status;
  Result<int64_t> bytes = copy.effect();
  if (!bytes) {
    const Status reason = bytes.error();
    return failure(Fault::bad_access, who + ": " + std::string(reason.message()), reason.code());
  }
  bool completes = false;
  const Fault fault = barrier.state.complete_tx(*bytes, completes);
  return settle(fault, completes, copy.barrier, who);
}

inline Status Pipeline::perform(Party& actor) {
  using Kind = Request::Kind;
  Request& request = actor.request;
  if (Status status = check(request, actor); !status.is_ok()) return status;
  const auto self = static_cast<size_t>(index_of(actor));
  bool completes = false;
  switch (request.kind) {
    case Kind::start:
    case Kind::ended: return {};
    case Kind::wait: {
      const Barrier& barrier = at(request.barrier);
      int64_t& next = actor.next_phase[static_cast<size_t>(request.barrier)];
      next = barrier.state.phase();  // check_wait has seen that phase - 1 was its turn
      join(actor.seen, barrier.visible);
      actor.expected_in.assign(actor.expected_in.size(), -1);
      return {};
    }
    case Kind::expect_tx:
    case Kind::arrive_expect_tx: {
      Barrier& barrier = at(request.barrier);
      actor.expected_in[static_cast<size_t>(request.barrier)] = barrier.state.phase();
      const Fault fault = barrier.state.expect_tx(request.bytes, completes);
      if (fault != Fault::none || request.kind == Kind::expect_tx)
        return settle(fault, completes, request.barrier, actor.label);
      [[fallthrough]];
    }
    case Kind::arrive: {
      Barrier& barrier = at(request.barrier);
      join(barrier.arriving, actor.seen);
      ++actor.seen[self];
      const Fault fault = barrier.state.arrive(completes);
      return settle(fault, completes, request.barrier, actor.label);
    }
    case Kind::copy: return issue(actor);
    case Kind::read:
      return check_order(order_.read(request.range, static_cast<int32_t>(self), actor.seen),
                         actor.label, "reads");
    case Kind::write: {
      const AccessOrder::Write write{static_cast<int32_t>(self), static_cast<int32_t>(self),
                                     actor.seen[self]};
      return check_order(order_.write(request.range, write, actor.seen), actor.label, "overwrites");
    }
    case Kind::stop:
      if (request.reason.is_ok()) return {};
      return failure(Fault::stopped, actor.label + ": " + std::string(request.reason.message()),
                     request.reason.code());
  }
  return {};
}

/// Nobody can go on: who waits for what. A barrier whose arrivals are complete lacks bytes, or has
/// too many.
inline Status Pipeline::stuck() {
  Fault fault = Fault::deadlock;
  std::string text;
  for (const Party& actor : actors_) {
    if (actor.request.kind != Request::Kind::wait) continue;
    const Mbarrier& state = at(actor.request.barrier).state;
    if (state.pending() == 0 && state.missing_bytes() != 0) fault = Fault::wrong_byte_count;
    text += (text.empty() ? "" : "; ") + actor.label + " waits with parity " +
            std::to_string(actor.request.parity) + " for " + describe(actor.request.barrier);
  }
  return failure(fault, text);
}

inline Status Pipeline::resume(Party& actor) {
  running_ = &actor;
  actor.request = {};
  actor.coroutine.resume();
  if (actor.coroutine.threw())
    return failure(Fault::stopped, actor.label + " threw an exception", Errc::internal);
  if (actor.coroutine.has_ended()) {
    actor.request.kind = Request::Kind::ended;
  } else if (actor.request.kind == Request::Kind::start) {
    return failure(Fault::invalid,
                   actor.label + " awaits something that is no operation of this pipeline");
  }
  return {};
}

/// One actor or one landing copy, chosen at random by weight.
inline Status Pipeline::step(bool& done) {
  choices_.clear();
  uint64_t total = 0;
  bool all_ended = true;
  for (Party& actor : actors_) {
    if (actor.request.kind == Request::Kind::ended) continue;
    all_ended = false;
    bool ready = true;
    if (actor.request.kind == Request::Kind::wait) {
      if (Status status = check(actor.request, actor); !status.is_ok()) return status;
      if (Status status = check_wait(actor, ready); !status.is_ok()) return status;
    }
    if (!ready) continue;
    choices_.push_back(index_of(actor));
    total += actor.weight;
  }
  if (all_ended) {
    done = true;
    if (flights_.empty()) return {};
    return failure(Fault::unfinished_copy,
                   "all actors have ended before a copy of " +
                       actors_[static_cast<size_t>(flights_[0].actor)].label + " landed for " +
                       describe(flights_[0].barrier));
  }
  total += copy_weight_ * flights_.size();
  if (total == 0) return stuck();
  uint64_t ticket = draw() % total;
  for (const int32_t choice : choices_) {
    Party& actor = actors_[static_cast<size_t>(choice)];
    if (ticket >= actor.weight) {
      ticket -= actor.weight;
      continue;
    }
    if (Status status = perform(actor); !status.is_ok()) return status;
    return resume(actor);
  }
  return land(static_cast<size_t>(ticket / copy_weight_));
}

inline Status Pipeline::run(int64_t max_steps) {
  for (const Barrier& barrier : barriers_) {
    if (barrier.state.arrivals() < 1)
      return failure(Fault::invalid, barrier.label + " is made for less than 1 arrival");
  }
  set_up();
  for (bool done = false; !done; ++step_) {
    if (step_ >= max_steps)
      return failure(Fault::endless,
                     "still running; the limit is " + std::to_string(max_steps) + " steps");
    if (Status status = step(done); !status.is_ok()) return status;
  }
  return {};
}

/// Runs `program(Pipeline&)`, which adds barriers and actors, once for each of `runs` seeds; the
/// first failure. What the program returns (a pointer to what its actors refer to, say) is kept
/// until its run is over.
template <class Program>
[[nodiscard]] Status interleave(int64_t shared_bytes, uint64_t first_seed, int runs,
                                Program&& program) {
  for (int i = 0; i < runs; ++i) {
    std::optional<Pipeline> pipeline(std::in_place, shared_bytes,
                                     first_seed + static_cast<uint64_t>(i));
    Status status;
    if constexpr (std::is_void_v<std::invoke_result_t<Program&, Pipeline&>>) {
      program(*pipeline);
      status = pipeline->run();
    } else {
      const auto kept = program(*pipeline);
      status = pipeline->run();
      pipeline.reset();  // actors end before what they refer to
    }
    if (!status.is_ok()) return status;
  }
  return {};
}

}  // namespace folio::inline v1::emulator
