// SPDX-License-Identifier: Apache-2.0
/// tier/peer/ucx/ucx_library.h: UCX, loaded when the first transport asks for it: its libraries
/// start threads and catch signals as soon as they are there, which nobody wants who does not use
/// them.
#pragma once

#include <ucp/api/ucp.h>

#include <string_view>

#include "folio/core/status.h"

namespace folio::inline v1::tier {

struct UcxLibrary {
  decltype(&::ucp_config_read) config_read = nullptr;
  decltype(&::ucp_config_modify) config_modify = nullptr;
  decltype(&::ucp_config_release) config_release = nullptr;
  decltype(&::ucp_init_version) init_version = nullptr;
  decltype(&::ucp_cleanup) cleanup = nullptr;
  decltype(&::ucp_worker_create) worker_create = nullptr;
  decltype(&::ucp_worker_destroy) worker_destroy = nullptr;
  decltype(&::ucp_worker_get_address) worker_get_address = nullptr;
  decltype(&::ucp_worker_release_address) worker_release_address = nullptr;
  decltype(&::ucp_worker_progress) worker_progress = nullptr;
  decltype(&::ucp_worker_get_efd) worker_get_efd = nullptr;
  decltype(&::ucp_worker_arm) worker_arm = nullptr;
  decltype(&::ucp_worker_set_am_recv_handler) worker_set_am_recv_handler = nullptr;
  decltype(&::ucp_ep_create) ep_create = nullptr;
  decltype(&::ucp_ep_close_nbx) ep_close_nbx = nullptr;
  decltype(&::ucp_ep_flush_nbx) ep_flush_nbx = nullptr;
  decltype(&::ucp_ep_print_info) ep_print_info = nullptr;
  decltype(&::ucp_am_send_nbx) am_send_nbx = nullptr;
  decltype(&::ucp_am_recv_data_nbx) am_recv_data_nbx = nullptr;
  decltype(&::ucp_request_check_status) request_check_status = nullptr;
  decltype(&::ucp_request_free) request_free = nullptr;
  decltype(&::ucs_status_string) status_string = nullptr;
};

/// What TCP receives at once, as UCX's settings say; UCX ends a process that is sent more, so both
/// sides must have the same.
[[nodiscard]] std::string_view tcp_segment() noexcept;

/// The same for all, until the process ends. Errors: unsupported where it cannot be loaded
[[nodiscard]] Result<const UcxLibrary*> load_ucx() noexcept;

}  // namespace folio::inline v1::tier
