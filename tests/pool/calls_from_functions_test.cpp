// SPDX-License-Identifier: Apache-2.0
/// tests/pool/calls_from_functions_test.cpp: what a function of the caller's may ask of the pool
/// that calls it: const calls; those that would change it are busy, and change nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pool/naive_names.h"
#include "pool/pool_helpers.h"
#include "pool/pool_memory.h"

namespace folio::test {
namespace {

using ::testing::StartsWith;

/// Every call that is not const, with arguments that are right outside of a function.
std::vector<Status> call_all(PagePool& pool, SequenceId id, StepTicket ticket, IoPin pin) {
  const Tokens prompt = {9, 8, 7};
  SequenceId children[1];
  const ReserveRequest request = {.id = id, .new_tokens = 1};
  return {pool.admit(prompt).error(),
          pool.reserve(id, 1),
          pool.reserve({&request, 1}),
          pool.commit(id, prompt),
          pool.trim(id, 0),
          pool.fork(id, 0).error(),
          pool.fork(id, 0, children),
          pool.keep_path({&id, 1}, 0),
          pool.preempt(id),
          pool.resume(id, prompt).error(),
          pool.release(id),
          pool.clear(),
          pool.retain(prompt, {}).error(),
          pool.advance_time(1),
          pool.begin_step({&id, 1}).error(),
          pool.end_step(ticket),
          pool.begin_io(id, 0).error(),
          pool.end_io(pin),
          pool.name(id, 0).error(),
          pool.names_of(id, 0, {}, {})};
}

/// Names pages and hears events, and calls the pool from there.
struct Caller {
  Caller() {
    const EventFunction on_event = {
        .function = [](void* self, const PoolEvent&,
                       std::span<const TokenId>) noexcept { static_cast<Caller*>(self)->call(); },
        .context = this};
    const NameFunction name = {.function =
                                   [](void* self, const PageContent& page, PageName* to) noexcept {
                                     auto& caller = *static_cast<Caller*>(self);
                                     caller.call();
                                     *to = NaiveNames::of(page.parent, page.tokens, page.salt,
                                                          page.adapter);
                                     return caller.fails ? fail(Errc::io, "no name") : Status();
                                   },
                               .context = this};
    pool = make_pool(memory.hooked({.num_pages = 8,
                                    .page_size = 2,
                                    .max_sequences = 4,
                                    .name = name,
                                    .max_retention_ms = 100,
                                    .on_event = on_event,
                                    .max_io_pins = 2}));
    id = pool.admit(Tokens{1, 2, 3, 4, 5}).value().id;
    ticket = pool.begin_step({&id, 1}).value();
    pool.reserve(id, 1).or_throw();
    pin = pool.begin_io(id, 0).value();
  }
  void call() noexcept {
    const std::vector<std::byte> before = memory.snapshot();
    length = pool.length(id).value_or(-1);
    for (const Status& status : call_all(pool, id, ticket, pin)) refusals.push_back(status);
    copies += pool.take_copies().size();
    changed = changed || memory.snapshot() != before;
    ++calls;
  }
  void expect_refusals(int32_t expected_calls) {
    EXPECT_EQ(calls, expected_calls);
    EXPECT_FALSE(changed);
    EXPECT_EQ(copies, 0U);
    for (const Status& status : refusals) {
      EXPECT_EQ(status.code(), Errc::busy) << status.message();
      EXPECT_THAT(std::string(status.message()), StartsWith("PagePool::"));
    }
    expect_sound(pool);
  }

  PoolMemory memory;
  PagePool pool = make_pool({.num_pages = 1});
  SequenceId id;
  StepTicket ticket;
  IoPin pin;
  std::vector<Status> refusals;
  bool changed = false, fails = false;
  size_t copies = 0;
  int32_t calls = 0, length = -1;
};

TEST(CallsFromFunctions, calls_that_would_change_the_pool_are_busy_and_change_nothing) {
  Caller caller;
  feed(caller.pool, caller.id, {1, 2, 3, 4, 5});
  caller.expect_refusals(4);  // two pages, each named and told of
  EXPECT_EQ(caller.length, 5);
  EXPECT_EQ(caller.refusals[1].message(),
            "PagePool::reserve: the pool is calling a function of its options, expected no call "
            "that changes it from there");
}

TEST(CallsFromFunctions, the_pool_works_on_when_the_function_has_returned) {
  Caller caller;
  feed(caller.pool, caller.id, {1, 2, 3, 4, 5});
  caller.pool.end_step(caller.ticket).or_throw();
  caller.pool.end_io(caller.pin).or_throw();
  caller.pool.release(caller.id).or_throw();
  EXPECT_EQ(caller.pool.peek(Tokens{1, 2, 3, 4, 5}), 4);
  caller.pool.clear().or_throw();  // tells of it
  caller.expect_refusals(5);
  EXPECT_EQ(prefill(caller.pool, {1, 2}).index, caller.id.index);
}

TEST(CallsFromFunctions, a_function_that_failed_has_returned) {
  Caller caller;
  caller.fails = true;
  feed(caller.pool, caller.id, {1, 2, 3, 4, 5});
  EXPECT_EQ(caller.pool.name(caller.id, 1).error().code(), Errc::io);
  EXPECT_TRUE(caller.pool.reserve(caller.id, 1).is_ok());
  caller.expect_refusals(4);  // the second page was not named when it was stored
}

}  // namespace
}  // namespace folio::test
