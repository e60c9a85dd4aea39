// SPDX-License-Identifier: Apache-2.0
/// tier/peer/nixl/nixl_agent.cpp: calls of NIXL's C interface.
#include "tier/peer/nixl/nixl_agent.h"

#include <memory>
#include <utility>

namespace folio::inline v1::tier {
namespace {

constexpr const char* plugin = "UCX";

Status fault(const char* what, nixl::Code code) {
  return fail(Errc::io, "Transport: NIXL: {}: error {}", what, code);
}

uintptr_t number_of(const std::byte* at) noexcept { return reinterpret_cast<uintptr_t>(at); }

}  // namespace

void NixlRegions::add(const NixlRegion& region) {
  by_first_[region.first] = by_region_[region.region] = region;
}

void NixlRegions::clear() noexcept {
  by_first_.clear();
  by_region_.clear();
}

bool NixlRegions::locate(std::span<const RegionRun> runs, std::vector<Extent>* extents) const {
  extents->clear();
  extents->reserve(runs.size());
  for (const RegionRun& run : runs) {
    const auto found = by_region_.find(run.region.value);
    if (found == by_region_.end() || run.offset < 0 || run.bytes < 1) return false;
    const auto [first, bytes, region] = found->second;
    const auto offset = static_cast<uint64_t>(run.offset), count = static_cast<uint64_t>(run.bytes);
    if (offset > bytes || count > bytes - offset) return false;
    // a peer's memory: only its address is used, by NIXL
    extents->push_back({reinterpret_cast<std::byte*>(first + offset), run.bytes});
  }
  return true;
}

uint64_t NixlRegions::find(const std::byte* data, int64_t bytes) const noexcept {
  const uint64_t first = number_of(data);
  auto next = by_first_.upper_bound(first);
  if (next == by_first_.begin() || bytes < 0) return 0;
  const NixlRegion& region = (--next)->second;
  const uint64_t within = first - region.first, count = static_cast<uint64_t>(bytes);
  return within <= region.bytes && count <= region.bytes - within ? region.region : 0;
}

// ---- Beginning and end

Result<std::unique_ptr<NixlAgent>> NixlAgent::open(const NixlLibrary& nixl, const std::string& name,
                                                   std::string_view transports) {
  std::unique_ptr<NixlAgent> agent(new NixlAgent(nixl));
  if (Status s = agent->start(name, transports); !s.is_ok()) return s;
  return agent;
}

Status NixlAgent::start(const std::string& name, std::string_view transports) {
  name_ = name;
  const nixl::AgentConfig config;
  nixl::Code code = nixl_.create_configured_agent(name.c_str(), &config, &agent_);
  if (code != nixl::done) return fault("no agent", code);
  nixl::Memories* memories = nullptr;
  nixl::Parameters* parameters = nullptr;
  code = nixl_.get_plugin_params(agent_, plugin, &memories, &parameters);
  if (code != nixl::done) return fault("its plugin UCX is not there", code);
  (void)nixl_.destroy_mem_list(memories);
  // the default, 20 s, is longer than anybody waits
  std::string settings = "KEEPALIVE_INTERVAL=1s";
  if (!transports.empty()) settings += ",TLS=" + std::string(transports);
  code = nixl_.params_add(parameters, "engine_config", settings.c_str());
  if (code == nixl::done) code = nixl_.create_backend(agent_, plugin, parameters, &backend_);
  (void)nixl_.destroy_params(parameters);
  if (code != nixl::done) return fault("its UCX finds nothing to work with", code);
  code = nixl_.create_notif_map(&notifications_);
  return code == nixl::done ? Status() : fault("no notifications", code);
}

NixlAgent::~NixlAgent() {
  if (notifications_ != nullptr) (void)nixl_.destroy_notif_map(notifications_);
  while (agent_ != nullptr && !regions_.empty()) remove_region(regions_.begin()->first);
  if (agent_ != nullptr) (void)nixl_.destroy_agent(agent_);
  if (backend_ != nullptr) (void)nixl_.destroy_backend(backend_);
}

// ---- Memory

template <class Call>
nixl::Code NixlAgent::with_region(RegionId region, std::span<std::byte> memory,
                                  Call call) const noexcept {
  nixl::Regions* list = nullptr;
  nixl::Code code = nixl_.create_reg_dlist(nixl::memory_of_host, &list, false);
  if (code != nixl::done) return code;
  code = nixl_.reg_dlist_add_desc(list, number_of(memory.data()), memory.size(), region.value,
                                  nullptr, 0);
  if (code == nixl::done) code = call(list);
  (void)nixl_.destroy_reg_dlist(list);
  return code;
}

Status NixlAgent::add_region(RegionId region, std::span<std::byte> memory) {
  regions_[region] = memory;
  const nixl::Code code = with_region(region, memory, [&](nixl::Regions* list) {
    return nixl_.register_mem(agent_, list, nullptr);
  });
  if (code == nixl::done) return {};
  regions_.erase(region);
  return fault("memory cannot be registered", code);
}

void NixlAgent::remove_region(RegionId region) noexcept {
  const auto found = regions_.find(region);
  if (found == regions_.end()) return;
  (void)with_region(region, found->second, [&](nixl::Regions* list) {
    return nixl_.deregister_mem(agent_, list, nullptr);
  });
  regions_.erase(found);
}

std::vector<NixlRegion> NixlAgent::regions() const {
  std::vector<NixlRegion> all;
  all.reserve(regions_.size());
  for (const auto& [region, memory] : regions_)
    all.push_back(
        {.first = number_of(memory.data()), .bytes = memory.size(), .region = region.value});
  return all;
}

Result<std::vector<std::byte>> NixlAgent::about() const {
  void* bytes = nullptr;
  size_t size = 0;
  const nixl::Code code = nixl_.get_local_md(agent_, &bytes, &size);
  if (code != nixl::done) return fault("it cannot say what it has", code);
  const std::unique_ptr<void, void (*)(void*)> owner(bytes, nixl_.free_bytes);
  const auto* const first = static_cast<const std::byte*>(bytes);
  return std::vector<std::byte>(first, first + size);
}

Result<std::string> NixlAgent::learn(std::span<const std::byte> about) {
  char* name = nullptr;
  const nixl::Code code = nixl_.load_remote_md(agent_, about.data(), about.size(), &name);
  if (code != nixl::done) return fault("no way to a peer", code);
  const std::unique_ptr<char, void (*)(void*)> owner(name, nixl_.free_bytes);
  return std::string(name);
}

void NixlAgent::forget(const std::string& agent) noexcept {
  (void)nixl_.invalidate_remote_md(agent_, agent.c_str());
}

// ---- Notifications

Status NixlAgent::notify(const std::string& agent, std::span<const std::byte> bytes) noexcept {
  const nixl::Code code =
      nixl_.gen_notif(agent_, agent.c_str(), bytes.data(), bytes.size(), nullptr);
  return code >= nixl::done ? Status() : fault("a peer is lost", code);
}

std::vector<std::vector<std::byte>> NixlAgent::take() {
  std::vector<std::vector<std::byte>> all;
  size_t agents = 0;
  // an error is seen again in whatever is asked for next
  (void)nixl_.get_notifs(agent_, notifications_, nullptr);
  if (nixl_.notif_map_size(notifications_, &agents) != nixl::done || agents == 0) return all;
  for (size_t i = 0; i < agents; ++i) {
    const char* name = nullptr;
    size_t count = 0;
    if (nixl_.notif_map_get_agent_at(notifications_, i, &name) != nixl::done) continue;
    (void)nixl_.notif_map_get_notifs_size(notifications_, name, &count);
    for (size_t j = 0; j < count; ++j) {
      const void* bytes = nullptr;
      size_t size = 0;
      if (nixl_.notif_map_get_notif(notifications_, name, j, &bytes, &size) != nixl::done) continue;
      const auto* const first = static_cast<const std::byte*>(bytes);
      all.emplace_back(first, first + size);
    }
  }
  (void)nixl_.notif_map_clear(notifications_);
  return all;
}

// ---- Writes

Result<nixl::Request*> NixlAgent::begin_write(const std::string& agent,
                                              std::span<const NixlPiece> pieces) noexcept {
  nixl::Runs *here = nullptr, *there = nullptr;
  nixl::Request* write = nullptr;
  nixl::Code code = nixl_.create_xfer_dlist(nixl::memory_of_host, &here, false);
  if (code == nixl::done) code = nixl_.create_xfer_dlist(nixl::memory_of_host, &there, false);
  const auto add = [&](nixl::Runs* list, const std::byte* at, int64_t bytes, uint64_t region) {
    if (code == nixl::done)
      code = nixl_.xfer_dlist_add_desc(list, number_of(at), static_cast<size_t>(bytes), region);
  };
  for (const NixlPiece& piece : pieces) {
    add(here, piece.here, piece.bytes, piece.here_region);
    add(there, piece.there, piece.bytes, piece.there_region);
  }
  if (code == nixl::done)
    code = nixl_.create_xfer_req(agent_, nixl::write_operation, here, there, agent.c_str(), &write,
                                 nullptr);
  if (here != nullptr) (void)nixl_.destroy_xfer_dlist(here);
  if (there != nullptr) (void)nixl_.destroy_xfer_dlist(there);
  if (code != nixl::done) return fault("memory of a peer cannot be written to", code);
  code = nixl_.post_xfer_req(agent_, write, nullptr);
  if (code >= nixl::done) return write;
  drop(write);
  return fault("a write to a peer has failed", code);
}

Result<bool> NixlAgent::look(nixl::Request* write) noexcept {
  const nixl::Code code = nixl_.get_xfer_status(agent_, write);
  if (code < nixl::done) return fault("a write to a peer has failed", code);
  return code == nixl::done;
}

void NixlAgent::drop(nixl::Request* write) noexcept {
  (void)nixl_.release_xfer_req(agent_, write);
  (void)nixl_.destroy_xfer_req(write);
}

}  // namespace folio::inline v1::tier
