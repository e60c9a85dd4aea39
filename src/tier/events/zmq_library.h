// SPDX-License-Identifier: Apache-2.0
/// tier/events/zmq_library.h: ZeroMQ, loaded when the first publisher or subscriber asks for it.
#pragma once

#include <zmq.h>

#include "folio/core/status.h"

namespace folio::inline v1::tier {

struct ZmqLibrary {
  decltype(&::zmq_ctx_new) ctx_new = nullptr;
  decltype(&::zmq_ctx_term) ctx_term = nullptr;
  decltype(&::zmq_socket) socket = nullptr;
  decltype(&::zmq_close) close = nullptr;
  decltype(&::zmq_setsockopt) setsockopt = nullptr;
  decltype(&::zmq_getsockopt) getsockopt = nullptr;
  decltype(&::zmq_bind) bind = nullptr;
  decltype(&::zmq_connect) connect = nullptr;
  decltype(&::zmq_socket_monitor) socket_monitor = nullptr;
  decltype(&::zmq_poll) poll = nullptr;
  decltype(&::zmq_strerror) strerror = nullptr;
  decltype(&::zmq_msg_init) msg_init = nullptr;
  decltype(&::zmq_msg_init_size) msg_init_size = nullptr;
  decltype(&::zmq_msg_init_data) msg_init_data = nullptr;
  decltype(&::zmq_msg_data) msg_data = nullptr;
  decltype(&::zmq_msg_size) msg_size = nullptr;
  decltype(&::zmq_msg_send) msg_send = nullptr;
  decltype(&::zmq_msg_recv) msg_recv = nullptr;
  decltype(&::zmq_msg_more) msg_more = nullptr;
  decltype(&::zmq_msg_close) msg_close = nullptr;
};

/// `libzmq.so.5`, or what pip's pyzmq brings beside folio; until the process ends. Errors:
/// unsupported where none can be loaded, for `call`
[[nodiscard]] Status load_zmq(const char* call) noexcept;

/// To be called behind a `load_zmq` that has succeeded.
[[nodiscard]] const ZmqLibrary& zmq() noexcept;

}  // namespace folio::inline v1::tier
