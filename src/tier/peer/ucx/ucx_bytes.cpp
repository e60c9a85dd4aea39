// SPDX-License-Identifier: Apache-2.0
/// tier/peer/ucx/ucx_bytes.cpp: bytes of transfers: sent, received, and given back by UCX.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "tier/peer/ucx/ucx_wire.h"

namespace folio::inline v1::tier {
namespace {

constexpr uint32_t most_sends = 16;         ///< of a link, with UCX
constexpr int64_t most_at_once = 16 << 20;  ///< bytes of a message, by rendezvous
constexpr int64_t most_eager = 64 << 10;    ///< is copied while a cache still has it
constexpr int64_t least_alone = 8 << 10;    ///< shorter runs share a message
constexpr int64_t most_together = 64 << 10;

/// Where the run ends that has `at`.
int64_t end_of_run(const std::vector<int64_t>& starts, int64_t bytes, int64_t at) {
  const auto next = std::upper_bound(starts.begin(), starts.end(), at);
  return next == starts.end() ? bytes : *next;
}

/// Calls `part(memory, bytes)` for [offset, offset + bytes) of what the extents make.
template <class Part>
void for_parts(std::span<const Extent> memory, const std::vector<int64_t>& starts, int64_t offset,
               int64_t bytes, Part part) {
  auto i =
      static_cast<size_t>(std::upper_bound(starts.begin(), starts.end(), offset) - starts.begin()) -
      1;
  while (bytes > 0) {
    const int64_t within = offset - starts[i];
    const int64_t count = std::min(bytes, memory[i].bytes - within);
    part(memory[i].data + within, count);
    offset += count;
    bytes -= count;
    ++i;
  }
}

}  // namespace

// ---- Out

UcxWire::Way UcxWire::way_of(const Link& link) const noexcept {
  if (way_ != Way::unknown) return way_;
  // UCX tells of an endpoint's lanes in no other way; with error handling, TCP has none for that
  char* text = nullptr;
  size_t size = 0;
  FILE* const file = ::open_memstream(&text, &size);
  if (file == nullptr) return Way::rendezvous;
  ucx_.ep_print_info(link.ep, file);
  const bool is_whole = std::fclose(file) == 0;
  const bool is_direct =
      !is_whole || std::string_view(text, size).find("rma_bw#") != std::string_view::npos;
  std::free(text);
  return is_direct ? Way::rendezvous : Way::eager;
}

bool UcxWire::pump(Link& link) noexcept {
  bool has_sent = false;
  if (link.way == Way::unknown && !link.sources.empty()) link.way = way_of(link);
  while (link.sends < most_sends && !link.sources.empty() && link.state == Link::State::open &&
         link.failed.is_ok()) {
    has_sent = true;
    guard(link, [&] {
      const FlowKey key = link.sources.front();
      Flow& flow = link.flows.at(key);
      return send_some(link, key, flow);
    });
  }
  // a peer that waits long for the end of what comes in pieces hears that somebody is there
  if (link.state == Link::State::open && link.has_heard &&
      Clock::now() - link.sent > std::chrono::milliseconds(100))
    guard(link, [&]() -> Status {
      put(link, {.kind = FrameKind::alive});
      return {};
    });
  return has_sent;
}

Status UcxWire::send_some(Link& link, FlowKey key, Flow& flow) {
  const auto run_at = [&](int64_t at) {
    int64_t end = end_of_run(flow.starts, flow.bytes, at);
    if (!flow.remote_starts.empty())
      end = std::min(end, end_of_run(flow.remote_starts, flow.bytes, at));
    return end - at;
  };
  auto operation = std::make_unique<Operation>();
  operation->wire = this;
  operation->link = &link;
  operation->kind = Operation::Kind::data_out;
  operation->flow = key;
  operation->data_header = {.connection = link.connection,
                            .transfer = key.transfer,
                            .offset = flow.moved,
                            .is_of_asker = static_cast<uint8_t>(key.is_own)};
  std::byte* from = nullptr;
  const bool is_eager = link.way == Way::eager;
  int64_t bytes = std::min(run_at(flow.moved), is_eager ? most_eager : most_at_once);
  if (bytes >= least_alone || bytes == flow.bytes - flow.moved) {
    for_parts(flow.memory, flow.starts, flow.moved, 1, [&](std::byte* at, int64_t) { from = at; });
  } else {
    // short runs, up to one that goes alone
    while (flow.moved + bytes < flow.bytes) {
      const int64_t next = run_at(flow.moved + bytes);
      if (next >= least_alone || bytes + next > most_together) break;
      bytes += next;
    }
    operation->body.reserve(static_cast<size_t>(bytes));
    for_parts(flow.memory, flow.starts, flow.moved, bytes, [&](const std::byte* at, int64_t count) {
      operation->body.insert(operation->body.end(), at, at + count);
    });
    from = operation->body.data();
  }
  operation->bytes = bytes;
  ucp_request_param_t how = {};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  how.cb.send = &on_sent;
  how.user_data = operation.get();
  if (is_eager) {
    how.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    how.flags = UCP_AM_SEND_FLAG_EAGER;
  }
  flow.moved += bytes;
  ++flow.operations;
  ++link.operations;
  ++link.sends;
  if (flow.moved == flow.bytes) link.sources.pop_front();
  const Operation& o = *operation;
  const ucs_status_ptr_t request =
      ucx_.am_send_nbx(link.ep, data_message, &o.data_header, sizeof(o.data_header), from,
                       static_cast<size_t>(bytes), &how);
  started(std::move(operation), request);
  return {};
}

// ---- In

ucs_status_t UcxWire::receive(Link& link, const DataHeader& header, void* data, size_t size,
                              bool is_descriptor) noexcept {
  const FlowKey key{.is_own = header.is_of_asker == 0, .transfer = header.transfer};
  const auto found = link.flows.find(key);
  book_.heard(link.peer);
  link.has_heard = true;
  if (found == link.flows.end() || found->second.is_dropped) return UCS_OK;
  Flow& flow = found->second;
  const auto bytes = static_cast<int64_t>(size);
  if (flow.is_source || flow.is_over || bytes < 1 || header.offset < 0 ||
      header.offset > flow.bytes || bytes > flow.bytes - header.offset ||
      bytes > flow.bytes - flow.moved) {
    link.failed = protocol_fault("bytes that nobody asked for");
    return UCS_OK;
  }
  if (!is_descriptor) {
    const auto* from = static_cast<const std::byte*>(data);
    for_parts(flow.memory, flow.starts, header.offset, bytes, [&](std::byte* to, int64_t count) {
      std::memcpy(to, from, static_cast<size_t>(count));
      from += count;
    });
    flow.moved += bytes;
    guard(link, [&] { return settle(link, key); });
    return UCS_OK;
  }
  guard(link, [&]() -> Status {
    auto operation = std::make_unique<Operation>();
    operation->wire = this;
    operation->link = &link;
    operation->kind = Operation::Kind::data_in;
    operation->flow = key;
    operation->data_header = header;
    operation->bytes = bytes;
    void* to = nullptr;
    if (bytes <= end_of_run(flow.starts, flow.bytes, header.offset) - header.offset) {
      for_parts(flow.memory, flow.starts, header.offset, 1,
                [&](std::byte* at, int64_t) { to = at; });
    } else {
      operation->body.resize(size);
      to = operation->body.data();
    }
    ucp_request_param_t how = {};
    how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    how.cb.recv_am = &on_received;
    how.user_data = operation.get();
    ++flow.operations;
    ++link.operations;
    started(std::move(operation), ucx_.am_recv_data_nbx(worker_, data, to, size, &how));
    return {};
  });
  return UCS_INPROGRESS;
}

// ---- Given back

void UcxWire::ended(Operation& operation, ucs_status_t status) noexcept {
  using Kind = Operation::Kind;
  Link* const link = operation.link;
  if (link != nullptr) --link->operations;
  if (operation.kind == Kind::frame_out) {
    book_.left(link->peer, operation.bytes);
  } else if (operation.kind == Kind::frame_in && status == UCS_OK) {
    try {
      arrived_.push_back({operation.frame_header, std::move(operation.body)});
    } catch (const std::bad_alloc&) {
      status = UCS_ERR_NO_MEMORY;
    }
  }
  if (link == nullptr) return;
  if (status != UCS_OK && link->failed.is_ok()) link->failed = fault("a message is lost", status);
  if (operation.kind == Kind::frame_out || operation.kind == Kind::frame_in) return;
  if (operation.kind == Kind::data_out) --link->sends;
  Flow& flow = link->flows.at(operation.flow);  // which stays while it has operations
  --flow.operations;
  if (status != UCS_OK) return;
  if (operation.kind == Kind::data_in) {
    const std::byte* from = operation.body.data();
    if (!operation.body.empty())
      for_parts(flow.memory, flow.starts, operation.data_header.offset, operation.bytes,
                [&](std::byte* to, int64_t bytes) {
                  std::memcpy(to, from, static_cast<size_t>(bytes));
                  from += bytes;
                });
    flow.moved += operation.bytes;
  }
  book_.heard(link->peer);
  guard(*link, [&] { return settle(*link, operation.flow); });
}

}  // namespace folio::inline v1::tier
