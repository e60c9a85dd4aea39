// SPDX-License-Identifier: Apache-2.0
/// tier/peer/ucx/ucx_wire.cpp: the worker and what it tells; links are in ucx_links.cpp, transfers
/// in ucx_flows.cpp, their bytes in ucx_bytes.cpp.
#include "tier/peer/ucx/ucx_wire.h"

#include <poll.h>

#include <cstring>
#include <new>
#include <system_error>
#include <thread>

#include "folio/tier/transports.h"
#include "tier/checks.h"
#include "tier/peer/booked_transport.h"
#include "tier/peer/bytes.h"

namespace folio::inline v1::tier {

// ---- Beginning and end

Status UcxWire::fault(const char* what, ucs_status_t status) const noexcept {
  return fail(Errc::io, "Transport: UCX: {}: {}", what, ucx_.status_string(status));
}

Status UcxWire::open(std::string_view transports) {
  ucp_config_t* config = nullptr;
  ucs_status_t status = ucx_.config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) return fault("its settings cannot be read", status);
  const std::string tls(transports);
  if (!tls.empty()) status = ucx_.config_modify(config, "TLS", tls.c_str());
  // the default, 20 s, is longer than anybody waits
  if (status == UCS_OK) status = ucx_.config_modify(config, "KEEPALIVE_INTERVAL", "1s");
  if (status == UCS_OK) {
    ucp_params_t params = {};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
    status = ucx_.init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context_);
  }
  ucx_.config_release(config);
  if (status == UCS_ERR_NO_DEVICE && !tls.empty())
    return fail(Errc::io,
                "make_ucx_transport: transports is \"{}\", expected names of UCX's that are there",
                transports);
  if (status != UCS_OK) return fault("it does not start", status);

  ucp_worker_params_t worker = {};
  worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  status = ucx_.worker_create(context_, &worker, &worker_);
  if (status != UCS_OK) return fault("it has no worker", status);
  const auto handle = [&](unsigned id, ucp_am_recv_callback_t callback) {
    ucp_am_handler_param_t handler = {};
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                         UCP_AM_HANDLER_PARAM_FIELD_ARG;
    handler.id = id;
    handler.cb = callback;
    handler.arg = this;
    if (status == UCS_OK) status = ucx_.worker_set_am_recv_handler(worker_, &handler);
  };
  handle(frame_message, &on_frame_message);
  handle(data_message, &on_data_message);
  ucp_address_t* address = nullptr;
  size_t bytes = 0;
  if (status == UCS_OK) status = ucx_.worker_get_efd(worker_, &worker_fd_);
  if (status == UCS_OK) status = ucx_.worker_get_address(worker_, &address, &bytes);
  if (status != UCS_OK) return fault("it cannot be set up", status);
  ByteWriter writer;
  writer.put_all(std::span<const char>(tcp_segment()));
  writer.put_all(std::span(reinterpret_cast<const std::byte*>(address), bytes));
  address_ = std::move(writer.bytes());
  ucx_.worker_release_address(worker_, address);
  return waker_.get() >= 0 ? Status() : fail(Errc::io, "Transport: the system gives no event");
}

UcxWire::~UcxWire() {
  const auto end = Clock::now() + std::chrono::seconds(2);
  for (Link& link : links_)
    close(link, fail(Errc::io, "Transport: this end is destroyed"), Farewell::said);
  while (!links_.empty() && Clock::now() < end)
    if (!progress()) std::this_thread::yield();
  if (worker_ != nullptr) ucx_.worker_destroy(worker_);
  if (context_ != nullptr) ucx_.cleanup(context_);
}

// ---- Work

bool UcxWire::progress() noexcept {
  constexpr int most_at_once = 64;
  int calls = 0;
  while (calls < most_at_once && ucx_.worker_progress(worker_) != 0) ++calls;
  bool is_busy = calls > 0 || !arrived_.empty();
  take_all();
  for (auto at = links_.begin(); at != links_.end();) {
    Link& link = *at++;
    if (!link.failed.is_ok()) close(link, link.failed, link.farewell);
    if (link.state == Link::State::open) is_busy |= pump(link);
    if (link.state == Link::State::closing) move_on(link);
  }
  links_.remove_if([](const Link& link) { return link.state == Link::State::closed; });
  return is_busy;
}

void UcxWire::wait(int64_t milliseconds) noexcept {
  // what comes soon is not worth a call of the system
  const auto spin_until = Clock::now() + std::chrono::microseconds(20);
  while (Clock::now() < spin_until)
    if (ucx_.worker_progress(worker_) != 0) return;
  if (!arrived_.empty() || ucx_.worker_arm(worker_) != UCS_OK) return;
  pollfd entries[2] = {{.fd = worker_fd_, .events = POLLIN, .revents = 0},
                       {.fd = waker_.get(), .events = POLLIN, .revents = 0}};
  (void)::poll(entries, 2, static_cast<int>(milliseconds));
  if (entries[1].revents != 0) waker_.clear();
}

// ---- What UCX tells

ucs_status_t UcxWire::on_frame_message(void* wire, const void* header, size_t header_bytes,
                                       void* data, size_t bytes,
                                       const ucp_am_recv_param_t* param) noexcept {
  UcxWire& self = *static_cast<UcxWire*>(wire);
  FrameHeader frame;
  if (header_bytes != sizeof(frame) ||
      bytes > static_cast<size_t>(max_frame_bytes(self.book_.options())))
    return UCS_OK;
  std::memcpy(&frame, header, sizeof(frame));
  try {
    if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0) {
      const auto* const first = static_cast<const std::byte*>(data);
      self.arrived_.push_back({frame, std::vector<std::byte>(first, first + bytes)});
      return UCS_OK;
    }
    auto operation = std::make_unique<Operation>();
    operation->wire = &self;
    operation->kind = Operation::Kind::frame_in;
    operation->frame_header = frame;
    operation->body.resize(bytes);
    operation->link = self.find(frame.connection);  // none for who connects
    if (operation->link != nullptr) ++operation->link->operations;
    ucp_request_param_t how = {};
    how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    how.cb.recv_am = &on_received;
    how.user_data = operation.get();
    void* const to = operation->body.data();
    self.started(std::move(operation),
                 self.ucx_.am_recv_data_nbx(self.worker_, data, to, bytes, &how));
    return UCS_INPROGRESS;
  } catch (const std::bad_alloc&) {
    if (Link* const link = self.find(frame.connection); link != nullptr)
      link->failed = fail(Errc::out_of_memory, "Transport: no memory for what a peer sends");
    return UCS_OK;
  }
}

ucs_status_t UcxWire::on_data_message(void* wire, const void* header, size_t header_bytes,
                                      void* data, size_t bytes,
                                      const ucp_am_recv_param_t* param) noexcept {
  UcxWire& self = *static_cast<UcxWire*>(wire);
  DataHeader about;
  if (header_bytes != sizeof(about)) return UCS_OK;
  std::memcpy(&about, header, sizeof(about));
  Link* const link = self.find(about.connection);
  if (link == nullptr) return UCS_OK;
  return self.receive(*link, about, data, bytes,
                      (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0);
}

void UcxWire::on_error(void* wire, ucp_ep_h ep, ucs_status_t status) noexcept {
  UcxWire& self = *static_cast<UcxWire*>(wire);
  for (Link& link : self.links_)
    if (link.ep == ep) {
      link.is_broken = true;
      if (link.failed.is_ok()) link.failed = self.fault("a peer is lost", status);
    }
}

void UcxWire::on_sent(void* request, ucs_status_t status, void* operation) noexcept {
  const std::unique_ptr<Operation> done(static_cast<Operation*>(operation));
  const UcxLibrary& ucx = done->wire->ucx_;
  done->wire->ended(*done, status);
  ucx.request_free(request);
}

void UcxWire::on_received(void* request, ucs_status_t status, size_t, void* operation) noexcept {
  on_sent(request, status, operation);
}

void UcxWire::started(std::unique_ptr<Operation> operation, ucs_status_ptr_t request) noexcept {
  if (UCS_PTR_IS_PTR(request)) {
    (void)operation.release();  // `on_sent` has it
    return;
  }
  ended(*operation, UCS_PTR_STATUS(request));
}

}  // namespace folio::inline v1::tier

namespace folio::inline v1::tier {

Result<std::unique_ptr<Transport>> make_ucx_transport(const TransportOptions& options,
                                                      const UcxOptions& ucx) noexcept {
  if (Status s = tier::check_options(options); !s.is_ok()) return s;
  if (Status s = tier::check_text("make_ucx_transport", "transports", ucx.transports); !s.is_ok())
    return s;
  const auto id = tier::random_end_id();
  if (!id) return id.error();
  const auto library = tier::load_ucx();
  if (!library) return library.error();
  try {
    auto book = std::make_unique<tier::Book>(options, tier::WireKind::ucx, *id);
    auto wire = std::make_unique<tier::UcxWire>(*book, **library);
    if (Status s = wire->open(ucx.transports); !s.is_ok()) return s;
    return std::unique_ptr<Transport>(std::make_unique<tier::BookedTransport>(
        std::move(book), std::move(wire), tier::BookedTransport::Work::by_thread));
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "make_ucx_transport: no memory");
  } catch (const std::system_error& e) {
    return fail(Errc::io, "make_ucx_transport: no thread to be had: {}", e.what());
  }
}

}  // namespace folio::inline v1::tier
