// SPDX-License-Identifier: Apache-2.0
/// tier/redis/tls.cpp: the one file that knows OpenSSL's TLS.
///
/// OpenSSL writes to sockets by calls that end the process with a signal where the peer has closed;
/// so it is given a BIO of ours.
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "tier/redis/openssl_library.h"
#include "tier/redis/stream.h"

namespace folio::inline v1::tier::redis {
namespace {

struct Freer {
  void operator()(SSL_CTX* context) const noexcept { openssl().ssl_ctx_free(context); }
  void operator()(SSL* ssl) const noexcept { openssl().ssl_free(ssl); }
};
using SslContext = std::unique_ptr<SSL_CTX, Freer>;
using Ssl = std::unique_ptr<SSL, Freer>;

/// The first reason that OpenSSL has noted on this thread.
std::string reason() {
  const unsigned long code = openssl().err_peek_error();
  const char* const text = code == 0 ? nullptr : openssl().err_reason_error_string(code);
  openssl().err_clear_error();
  return text == nullptr ? "no reason given" : text;
}

// ---- A BIO over a socket, whose number is its data

int socket_of(BIO* bio) {
  return static_cast<int>(reinterpret_cast<intptr_t>(openssl().bio_get_data(bio)));
}

int ended(BIO* bio, ssize_t bytes, int retry) {
  openssl().bio_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
  if (bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
    openssl().bio_set_flags(bio, retry | BIO_FLAGS_SHOULD_RETRY);
  return static_cast<int>(bytes);
}

int send_bytes(BIO* bio, const char* from, int bytes) {
  return ended(bio, send(socket_of(bio), from, static_cast<size_t>(bytes), MSG_NOSIGNAL),
               BIO_FLAGS_WRITE);
}

int receive_bytes(BIO* bio, char* to, int bytes) {
  return ended(bio, recv(socket_of(bio), to, static_cast<size_t>(bytes), 0), BIO_FLAGS_READ);
}

long control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

BIO* make_bio(int fd) {
  struct Method {
    BIO_METHOD* method = openssl().bio_meth_new(
        openssl().bio_get_new_index() | BIO_TYPE_SOURCE_SINK, "folio socket");
    Method() {
      openssl().bio_meth_set_write(method, send_bytes);
      openssl().bio_meth_set_read(method, receive_bytes);
      openssl().bio_meth_set_ctrl(method, control);
    }
    ~Method() { openssl().bio_meth_free(method); }
  };
  static const Method method;
  BIO* const bio = openssl().bio_new(method.method);
  if (bio == nullptr) return nullptr;
  openssl().bio_set_data(bio, reinterpret_cast<void*>(static_cast<intptr_t>(fd)));
  openssl().bio_set_init(bio, 1);
  return bio;
}

// ---- Streams

constexpr size_t record_bytes = 16384;  // of TLS, at most

class TlsStream final : public Stream {
 public:
  TlsStream(Socket socket, Ssl ssl) noexcept : socket_(std::move(socket)), ssl_(std::move(ssl)) {}

  Status shake_hands(Clock::time_point deadline) {
    for (;;) {
      openssl().err_clear_error();
      const int done = openssl().ssl_connect(ssl_.get());
      if (done == 1) return {};
      const Result<size_t> ended = after(done, reads_);
      if (!ended) return refused(ended.error());
      if (Status s = wait_for(socket_.fd(), reads_, deadline); !s.is_ok()) return s;
    }
  }

  Result<size_t> read(std::span<const iovec> to) noexcept override {
    size_t all = 0;
    for (const iovec& run : to) {
      for (size_t at = 0; at < run.iov_len;) {
        openssl().err_clear_error();
        size_t got = 0;
        const int done = openssl().ssl_read_ex(ssl_.get(), static_cast<char*>(run.iov_base) + at,
                                               run.iov_len - at, &got);
        if (done == 1) {
          at += got;
          all += got;
          continue;
        }
        const Result<size_t> ended = after(done, reads_);
        if (!ended && all == 0) return ended.error();
        return all;  // what is wrong is said by the next call
      }
    }
    return all;
  }

  /// Short runs go together: a record for each of them would be slow.
  Result<size_t> write(std::span<const iovec> from) noexcept override {
    const char* bytes = static_cast<const char*>(from.front().iov_base);
    size_t count = from.front().iov_len;
    if (count < record_bytes / 4) {
      count = 0;
      for (const iovec& run : from) {
        const size_t part = std::min(run.iov_len, record_bytes - count);
        std::memcpy(gathered_.data() + count, run.iov_base, part);
        count += part;
        if (part < run.iov_len) break;
      }
      bytes = gathered_.data();
    }
    openssl().err_clear_error();
    size_t written = 0;
    const int done = openssl().ssl_write_ex(ssl_.get(), bytes, count, &written);
    if (done == 1) return written;
    return after(done, writes_);
  }

  Status wait(Until until, Clock::time_point deadline) noexcept override {
    const auto events = until == Until::readable ? reads_ : static_cast<short>(reads_ | writes_);
    return wait_for(socket_.fd(), events, deadline);
  }

 private:
  /// 0 where the call is to be made again when `events` have come.
  Result<size_t> after(int done, short& events) {
    switch (openssl().ssl_get_error(ssl_.get(), done)) {
      case SSL_ERROR_WANT_READ: events = POLLIN; return size_t{0};
      case SSL_ERROR_WANT_WRITE: events = POLLOUT; return size_t{0};
      case SSL_ERROR_ZERO_RETURN: return fail(Errc::io, "the server has closed the connection");
      case SSL_ERROR_SYSCALL:
        if (openssl().err_peek_error() == 0) return fail(Errc::io, "the connection broke");
        [[fallthrough]];
      default: return fail(Errc::io, "TLS: {}", reason());
    }
  }
  [[nodiscard]] Status refused(const Status& why) const {
    const long verified = openssl().ssl_get_verify_result(ssl_.get());
    if (verified == X509_V_OK) return why;
    return fail(Errc::io, "TLS: the server's certificate: {}",
                openssl().x509_verify_cert_error_string(verified));
  }

  Socket socket_;
  Ssl ssl_;
  short reads_ = POLLIN, writes_ = POLLOUT;  ///< what calls wait for
  std::array<char, record_bytes> gathered_{};
};

/// A server of several names learns which is meant.
long set_name_to_ask_for(SSL& ssl, const std::string& name) {
  return openssl().ssl_ctrl(&ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                            const_cast<char*>(name.c_str()));
}

class Tls final : public Encryption {
 public:
  Tls(SslContext context, ServerCheck check, std::string name)
      : context_(std::move(context)), check_(check), name_(std::move(name)) {}

  Result<std::unique_ptr<Stream>> shake_hands(Socket socket, const std::string& host,
                                              Clock::time_point deadline) const override {
    Ssl ssl(openssl().ssl_new(context_.get()));
    BIO* const bio = ssl == nullptr ? nullptr : make_bio(socket.fd());
    if (bio == nullptr) return fail(Errc::io, "TLS: {}", reason());
    openssl().ssl_set_bio(ssl.get(), bio, bio);
    if (Status s = expect_name(*ssl, name_.empty() ? host : name_); !s.is_ok()) return s;
    auto stream = std::make_unique<TlsStream>(std::move(socket), std::move(ssl));
    if (Status s = stream->shake_hands(deadline); !s.is_ok()) return s;
    return std::unique_ptr<Stream>(std::move(stream));
  }

 private:
  [[nodiscard]] Status expect_name(SSL& ssl, const std::string& name) const {
    X509_VERIFY_PARAM* const checks = openssl().ssl_get0_param(&ssl);
    const bool is_ip =
        !name.empty() && openssl().x509_verify_param_set1_ip_asc(checks, name.c_str()) == 1;
    openssl().err_clear_error();
    if (!is_ip && !name.empty() && set_name_to_ask_for(ssl, name) != 1)
      return fail(Errc::io, "TLS: {}", reason());
    if (check_ != ServerCheck::name) {
      openssl().x509_verify_param_set1_ip(checks, nullptr, 0);
      return {};
    }
    if (name.empty())
      return fail(Errc::io, "TLS: the server's name is not known; server_name may say it");
    if (!is_ip && openssl().ssl_set1_host(&ssl, name.c_str()) != 1)
      return fail(Errc::io, "TLS: {}", reason());
    return {};
  }

  SslContext context_;
  ServerCheck check_;
  std::string name_;
};

Status cannot_use(const char* option, const std::string& file) {
  return fail(Errc::io, "make_redis_tier: {} '{}' cannot be used: {}", option, file, reason());
}

}  // namespace

Result<std::unique_ptr<Encryption>> make_encryption(const Settings& s) {
  if (Status loaded = load_openssl(); !loaded.is_ok()) return loaded;
  const OpenSslLibrary& o = openssl();
  o.err_clear_error();
  SslContext context(o.ssl_ctx_new(o.tls_client_method()));
  if (context == nullptr) return fail(Errc::io, "make_redis_tier: no TLS: {}", reason());
  o.ssl_ctx_ctrl(context.get(), SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, nullptr);
  o.ssl_ctx_ctrl(context.get(), SSL_CTRL_MODE,
                 SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER, nullptr);
  o.ssl_ctx_set_verify(context.get(),
                       s.check == ServerCheck::none ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, nullptr);
  if (s.authorities_file.empty()) {
    o.ssl_ctx_set_default_verify_paths(context.get());
  } else if (o.ssl_ctx_load_verify_file(context.get(), s.authorities_file.c_str()) != 1) {
    return cannot_use("authorities_file", s.authorities_file);
  }
  if (!s.certificate_file.empty()) {
    if (o.ssl_ctx_use_certificate_chain_file(context.get(), s.certificate_file.c_str()) != 1)
      return cannot_use("certificate_file", s.certificate_file);
    if (o.ssl_ctx_use_private_key_file(context.get(), s.key_file.c_str(), SSL_FILETYPE_PEM) != 1)
      return cannot_use("key_file", s.key_file);
  }
  return std::unique_ptr<Encryption>(
      std::make_unique<Tls>(std::move(context), s.check, s.server_name));
}

}  // namespace folio::inline v1::tier::redis
