// SPDX-License-Identifier: Apache-2.0
/// python/src/tiers/pool_user.h: what calls a pool and is none: managers, servers, ends of
/// handovers.
///
/// Their calls are made with the GIL, or under the locks of both objects where there is none, for
/// the pool may call functions of Python's. While such a function runs, other threads may come:
/// they find the user busy, as the function itself does.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <thread>
#include <utility>

#include "../pool.h"
#include "of_process.h"

namespace folio::python {

struct PoolUser {
  nb::object pool;    ///< a PagePool
  nb::object memory;  ///< of its pages
  OfProcess process = {};
  bool is_called = false;
  std::thread::id caller = {};  ///< while it is called

  [[nodiscard]] Pool& pool_of() const { return nb::cast<Pool&>(pool); }
};

/// A call of `self`, which is `user`. Throws Error with code busy within another one.
class CallOfUser {
 public:
  CallOfUser(nb::handle self, PoolUser& user) : locked_(self, user.pool), user_(user) {
    const auto name = nb::cast<std::string>(self.type().attr("__name__"));
    user.process.expect_here(name.c_str());
    if (user.is_called)
      throw Error(
          fail(Errc::busy, "{}: it is in a call, which waits for a function of Python's", name));
    user.is_called = true;
    user.caller = std::this_thread::get_id();
  }
  CallOfUser(const CallOfUser&) = delete;
  CallOfUser& operator=(const CallOfUser&) = delete;
  ~CallOfUser() { user_.is_called = false; }

 private:
  nb::ft_object2_guard locked_;
  PoolUser& user_;
};

/// What `User::seen` was at its last poll, for who waits while others call.
template <class User>
uint64_t seen_by(nb::handle self) {
  const nb::ft_object_guard locked(self);
  const User& user = *nb::inst_ptr<User>(self);
  user.process.expect_here("wait");
  return user.seen;
}

/// Ends `made`, which may call the pool's functions, from a destructor.
template <class Made>
void end_user(const PoolUser& user, Made& made) {
  if (!made) return;
  const nb::error_scope unraised;
  const nb::ft_object_guard locked(user.pool);
  user.process.end(made);
}

/// For the garbage collector: a pool's functions may lead back to its user. The pool gives them up.
template <class User>
int traverse_user(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  const PoolUser& user = *nb::inst_ptr<User>(self);
  Py_VISIT(user.pool.ptr());
  Py_VISIT(user.memory.ptr());
  return 0;
}

template <class User>
inline const PyType_Slot slots_of_user[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(traverse_user<User>)}, {0, nullptr}};

}  // namespace folio::python
