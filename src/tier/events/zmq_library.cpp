// SPDX-License-Identifier: Apache-2.0
/// tier/events/zmq_library.cpp: the functions of ZeroMQ, looked up at the first use.
#include "tier/events/zmq_library.h"

#include <string>
#include <vector>

#include "tier/shared_library.h"

namespace folio::inline v1::tier {
namespace {

std::string look_up(ZmqLibrary& l) {
  std::vector<std::string> places = files_of_pip("pyzmq.libs", "libzmq-");
  places.insert(places.begin(), "libzmq.so.5");
  SharedLibrary library(places);
  library.find("zmq_ctx_new", &l.ctx_new);
  library.find("zmq_ctx_term", &l.ctx_term);
  library.find("zmq_socket", &l.socket);
  library.find("zmq_close", &l.close);
  library.find("zmq_setsockopt", &l.setsockopt);
  library.find("zmq_getsockopt", &l.getsockopt);
  library.find("zmq_bind", &l.bind);
  library.find("zmq_connect", &l.connect);
  library.find("zmq_socket_monitor", &l.socket_monitor);
  library.find("zmq_poll", &l.poll);
  library.find("zmq_strerror", &l.strerror);
  library.find("zmq_msg_init", &l.msg_init);
  library.find("zmq_msg_init_size", &l.msg_init_size);
  library.find("zmq_msg_init_data", &l.msg_init_data);
  library.find("zmq_msg_data", &l.msg_data);
  library.find("zmq_msg_size", &l.msg_size);
  library.find("zmq_msg_send", &l.msg_send);
  library.find("zmq_msg_recv", &l.msg_recv);
  library.find("zmq_msg_more", &l.msg_more);
  library.find("zmq_msg_close", &l.msg_close);
  return library.fault();
}

using Zmq = LibraryOnce<ZmqLibrary, look_up>;

}  // namespace

Status load_zmq(const char* call) noexcept {
  return Zmq::load(call, "ZeroMQ cannot be loaded (Debian: libzmq5; pip: pyzmq, beside folio)");
}

const ZmqLibrary& zmq() noexcept { return Zmq::functions(); }

}  // namespace folio::inline v1::tier
