// SPDX-License-Identifier: Apache-2.0
/// folio/testing/actor.h: a producer or a consumer of an emulated kernel: a coroutine that pauses
/// at every operation.
///
///   Actor producer(Pipeline& p, ...) {
///     co_await p.wait(empty, 1);
///     co_await p.copy(full, range, [&] { return ...; });
///   }
///
/// It awaits operations of its Pipeline and nothing else. Parameters are kept as they are declared:
/// what it takes by reference must outlive the run, and so must the captures of a lambda that is an
/// Actor.
#pragma once

#include <coroutine>
#include <exception>
#include <utility>

namespace folio::inline v1::emulator {

class [[nodiscard]] Actor {
 public:
  struct promise_type {
    Actor get_return_object() noexcept {
      return Actor(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    /// The pipeline reports it; nothing unwinds through it.
    void unhandled_exception() noexcept { threw = true; }
    bool threw = false;
  };

  Actor(Actor&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Actor& operator=(Actor&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Actor() {
    if (handle_) handle_.destroy();
  }

  [[nodiscard]] bool has_ended() const noexcept { return !handle_ || handle_.done(); }
  [[nodiscard]] bool threw() const noexcept { return handle_ && handle_.promise().threw; }
  /// Runs until the next operation or the end. Requires !has_ended().
  void resume() noexcept { handle_.resume(); }

 private:
  explicit Actor(std::coroutine_handle<promise_type> handle) noexcept : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

}  // namespace folio::inline v1::emulator
