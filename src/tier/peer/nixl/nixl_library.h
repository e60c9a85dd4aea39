// SPDX-License-Identifier: Apache-2.0
/// tier/peer/nixl/nixl_library.h: the part of NIXL's C interface that is used, and its library,
/// loaded when the first transport asks for it. NIXL's packages have no headers: the declarations
/// are ours, of version 1.5.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "folio/core/status.h"

namespace folio::inline v1::tier {

namespace nixl {

/// What NIXL gives out, and alone looks into.
struct Agent;
struct Backend;
struct Memories;
struct Notifications;
struct Options;
struct Parameters;
struct Regions;
struct Request;
struct Runs;

/// Below 0: an error.
using Code = int;
inline constexpr Code done = 0, in_progress = 1;
inline constexpr int memory_of_host = 0;
inline constexpr int write_operation = 1;

/// Zeros mean the same to every version: no threads and no locks of NIXL's own.
struct AgentConfig {
  uint64_t zeros[8] = {};
};

}  // namespace nixl

struct NixlLibrary {
  nixl::Code (*create_configured_agent)(const char* name, const nixl::AgentConfig*,
                                        nixl::Agent**) = nullptr;
  nixl::Code (*destroy_agent)(nixl::Agent*) = nullptr;
  nixl::Code (*get_plugin_params)(nixl::Agent*, const char* plugin, nixl::Memories**,
                                  nixl::Parameters**) = nullptr;
  nixl::Code (*destroy_mem_list)(nixl::Memories*) = nullptr;
  nixl::Code (*params_add)(nixl::Parameters*, const char* key, const char* value) = nullptr;
  nixl::Code (*destroy_params)(nixl::Parameters*) = nullptr;
  nixl::Code (*create_backend)(nixl::Agent*, const char* plugin, nixl::Parameters*,
                               nixl::Backend**) = nullptr;
  nixl::Code (*destroy_backend)(nixl::Backend*) = nullptr;
  nixl::Code (*create_reg_dlist)(int memory, nixl::Regions**, bool is_sorted) = nullptr;
  nixl::Code (*reg_dlist_add_desc)(nixl::Regions*, uintptr_t, size_t bytes, uint64_t device,
                                   const void* about, size_t about_bytes) = nullptr;
  nixl::Code (*destroy_reg_dlist)(nixl::Regions*) = nullptr;
  nixl::Code (*register_mem)(nixl::Agent*, nixl::Regions*, nixl::Options*) = nullptr;
  nixl::Code (*deregister_mem)(nixl::Agent*, nixl::Regions*, nixl::Options*) = nullptr;
  /// The bytes are `free_bytes`' to free, and so is the name below.
  nixl::Code (*get_local_md)(nixl::Agent*, void** bytes, size_t* size) = nullptr;
  nixl::Code (*load_remote_md)(nixl::Agent*, const void* bytes, size_t, char** agent) = nullptr;
  nixl::Code (*invalidate_remote_md)(nixl::Agent*, const char* agent) = nullptr;
  nixl::Code (*create_xfer_dlist)(int memory, nixl::Runs**, bool is_sorted) = nullptr;
  nixl::Code (*xfer_dlist_add_desc)(nixl::Runs*, uintptr_t, size_t bytes,
                                    uint64_t device) = nullptr;
  nixl::Code (*destroy_xfer_dlist)(nixl::Runs*) = nullptr;
  nixl::Code (*create_xfer_req)(nixl::Agent*, int operation, nixl::Runs* here, nixl::Runs* there,
                                const char* agent, nixl::Request**, nixl::Options*) = nullptr;
  nixl::Code (*post_xfer_req)(nixl::Agent*, nixl::Request*, nixl::Options*) = nullptr;
  nixl::Code (*get_xfer_status)(nixl::Agent*, nixl::Request*) = nullptr;
  nixl::Code (*release_xfer_req)(nixl::Agent*, nixl::Request*) = nullptr;
  nixl::Code (*destroy_xfer_req)(nixl::Request*) = nullptr;
  nixl::Code (*gen_notif)(nixl::Agent*, const char* agent, const void* bytes, size_t,
                          nixl::Options*) = nullptr;
  nixl::Code (*create_notif_map)(nixl::Notifications**) = nullptr;
  nixl::Code (*destroy_notif_map)(nixl::Notifications*) = nullptr;
  nixl::Code (*notif_map_clear)(nixl::Notifications*) = nullptr;
  nixl::Code (*get_notifs)(nixl::Agent*, nixl::Notifications*, nixl::Options*) = nullptr;
  nixl::Code (*notif_map_size)(nixl::Notifications*, size_t*) = nullptr;
  nixl::Code (*notif_map_get_agent_at)(nixl::Notifications*, size_t, const char** agent) = nullptr;
  nixl::Code (*notif_map_get_notifs_size)(nixl::Notifications*, const char* agent,
                                          size_t*) = nullptr;
  nixl::Code (*notif_map_get_notif)(nixl::Notifications*, const char* agent, size_t,
                                    const void** bytes, size_t*) = nullptr;
  void (*free_bytes)(void*) = nullptr;  ///< the system's, where NIXL has none of its own
};

/// One for each path, until the process ends; an empty path: see `NixlOptions::library`. Errors:
/// unsupported where it cannot be loaded, with the reason for each place
[[nodiscard]] Result<const NixlLibrary*> load_nixl(std::string_view path) noexcept;

}  // namespace folio::inline v1::tier
