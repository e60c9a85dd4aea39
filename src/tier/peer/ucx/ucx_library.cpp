// SPDX-License-Identifier: Apache-2.0
/// src/tier/peer/ucx/ucx_library.cpp: the functions of UCX, looked up at the first use.
#include "tier/peer/ucx/ucx_library.h"

#include <cstdlib>
#include <string>

#include "tier/shared_library.h"

namespace folio::inline v1::tier {
namespace {

constexpr const char* segment_setting = "UCX_TCP_RX_SEG_SIZE";

std::string look_up(UcxLibrary& l) {
  // it would take over the process's handlers of SIGSEGV and others, to print where it was
  ::setenv("UCX_HANDLE_ERRORS", "none", 0);
  // a message that is received at once is not put together first; 64k is the default
  ::setenv(segment_setting, "512k", 0);
  SharedLibrary library("libucp.so.0");
  library.find("ucp_config_read", &l.config_read);
  library.find("ucp_config_modify", &l.config_modify);
  library.find("ucp_config_release", &l.config_release);
  library.find("ucp_init_version", &l.init_version);
  library.find("ucp_cleanup", &l.cleanup);
  library.find("ucp_worker_create", &l.worker_create);
  library.find("ucp_worker_destroy", &l.worker_destroy);
  library.find("ucp_worker_get_address", &l.worker_get_address);
  library.find("ucp_worker_release_address", &l.worker_release_address);
  library.find("ucp_worker_progress", &l.worker_progress);
  library.find("ucp_worker_get_efd", &l.worker_get_efd);
  library.find("ucp_worker_arm", &l.worker_arm);
  library.find("ucp_worker_set_am_recv_handler", &l.worker_set_am_recv_handler);
  library.find("ucp_ep_create", &l.ep_create);
  library.find("ucp_ep_close_nbx", &l.ep_close_nbx);
  library.find("ucp_ep_flush_nbx", &l.ep_flush_nbx);
  library.find("ucp_ep_print_info", &l.ep_print_info);
  library.find("ucp_am_send_nbx", &l.am_send_nbx);
  library.find("ucp_am_recv_data_nbx", &l.am_recv_data_nbx);
  library.find("ucp_request_check_status", &l.request_check_status);
  library.find("ucp_request_free", &l.request_free);
  library.find("ucs_status_string", &l.status_string);
  return library.fault();
}

using Ucx = LibraryOnce<UcxLibrary, look_up>;

}  // namespace

std::string_view tcp_segment() noexcept {
  const char* const text = ::getenv(segment_setting);
  return text == nullptr ? "" : text;
}

Result<const UcxLibrary*> load_ucx() noexcept {
  if (Status is = Ucx::load("make_ucx_transport", "UCX cannot be loaded (Debian: libucx0)");
      !is.is_ok())
    return is;
  return &Ucx::functions();
}

}  // namespace folio::inline v1::tier
