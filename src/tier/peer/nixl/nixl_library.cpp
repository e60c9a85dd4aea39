// SPDX-License-Identifier: Apache-2.0
/// tier/peer/nixl/nixl_library.cpp: where NIXL's library is looked for, and its functions.
#include "tier/peer/nixl/nixl_library.h"

#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

#include "tier/shared_library.h"

namespace folio::inline v1::tier {
namespace {

constexpr const char* library_name = "libnixl_capi.so";

/// For its UCX, whose variables are the environment's.
void prepare_environment() {
  // it would take over the process's handlers of SIGSEGV and others, to print where it was
  ::setenv("UCX_HANDLE_ERRORS", "none", 0);
  // its module for InfiniBand ends the process by a signal at exit where there is no such device
  std::error_code error;
  const std::filesystem::directory_iterator devices("/sys/class/infiniband", error);
  if (error || devices == std::filesystem::directory_iterator()) ::setenv("UCX_MODULES", "^ib", 0);
}

/// What the loader finds by itself, then where pip puts NIXL's packages beside ours.
std::vector<std::string> places(std::string_view path) {
  if (!path.empty()) return {std::string(path)};
  std::vector<std::string> all = {library_name};
  for (const char* const folder : {".nixl_cu13.mesonpy.libs", ".nixl_cu12.mesonpy.libs"})
    for (std::string& file : files_of_pip(folder, library_name)) all.push_back(std::move(file));
  return all;
}

/// Its fault; empty: it is loaded.
std::string load(const std::string& place, NixlLibrary& l) {
  SharedLibrary library(place);
  const auto find = [&](const char* name, auto* function) {
    library.find(std::string("nixl_capi_") + name, function);
  };
  find("create_configured_agent", &l.create_configured_agent);
  find("destroy_agent", &l.destroy_agent);
  find("get_plugin_params", &l.get_plugin_params);
  find("destroy_mem_list", &l.destroy_mem_list);
  find("params_add", &l.params_add);
  find("destroy_params", &l.destroy_params);
  find("create_backend", &l.create_backend);
  find("destroy_backend", &l.destroy_backend);
  find("create_reg_dlist", &l.create_reg_dlist);
  find("reg_dlist_add_desc", &l.reg_dlist_add_desc);
  find("destroy_reg_dlist", &l.destroy_reg_dlist);
  find("register_mem", &l.register_mem);
  find("deregister_mem", &l.deregister_mem);
  find("get_local_md", &l.get_local_md);
  find("load_remote_md", &l.load_remote_md);
  find("invalidate_remote_md", &l.invalidate_remote_md);
  find("create_xfer_dlist", &l.create_xfer_dlist);
  find("xfer_dlist_add_desc", &l.xfer_dlist_add_desc);
  find("destroy_xfer_dlist", &l.destroy_xfer_dlist);
  find("create_xfer_req", &l.create_xfer_req);
  find("post_xfer_req", &l.post_xfer_req);
  find("get_xfer_status", &l.get_xfer_status);
  find("release_xfer_req", &l.release_xfer_req);
  find("destroy_xfer_req", &l.destroy_xfer_req);
  find("gen_notif", &l.gen_notif);
  find("create_notif_map", &l.create_notif_map);
  find("destroy_notif_map", &l.destroy_notif_map);
  find("notif_map_clear", &l.notif_map_clear);
  find("get_notifs", &l.get_notifs);
  find("notif_map_size", &l.notif_map_size);
  find("notif_map_get_agent_at", &l.notif_map_get_agent_at);
  find("notif_map_get_notifs_size", &l.notif_map_get_notifs_size);
  find("notif_map_get_notif", &l.notif_map_get_notif);
  library.find_if_there("nixl_capi_mem_free", &l.free_bytes);
  if (l.free_bytes == nullptr) l.free_bytes = &std::free;
  if (!library.fault().empty()) library.close();
  return library.fault();
}

}  // namespace

Result<const NixlLibrary*> load_nixl(std::string_view path) noexcept {
  try {
    static std::mutex mutex;
    static std::map<std::string, std::unique_ptr<const NixlLibrary>, std::less<>> loaded;
    const std::lock_guard lock(mutex);
    if (const auto found = loaded.find(path); found != loaded.end()) return found->second.get();
    prepare_environment();
    auto library = std::make_unique<NixlLibrary>();
    std::string faults;
    for (const std::string& place : places(path)) {
      const std::string fault = load(place, *library);
      if (fault.empty())
        return loaded.emplace(std::string(path), std::move(library)).first->second.get();
      if (!faults.empty()) faults += "; ";
      faults += fault;
    }
    return fail(Errc::unsupported,
                "make_nixl_transport: NIXL cannot be loaded (pip: nixl-cu13, beside folio): {}",
                std::string_view(faults));
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "make_nixl_transport: no memory");
  } catch (const std::system_error& e) {
    return fail(Errc::io, "make_nixl_transport: the system refuses: {}", e.what());
  }
}

}  // namespace folio::inline v1::tier
