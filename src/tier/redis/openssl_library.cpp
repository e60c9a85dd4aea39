// SPDX-License-Identifier: Apache-2.0
/// tier/redis/openssl_library.cpp: the functions of OpenSSL, looked up at the first use.
#include "tier/redis/openssl_library.h"

#include <string>

#include "tier/shared_library.h"

namespace folio::inline v1::tier::redis {
namespace {

/// A look-up in a library finds what those have that it needs, too: libcrypto here.
std::string look_up(OpenSslLibrary& l) {
  SharedLibrary library("libssl.so.3");
  library.find("ERR_peek_error", &l.err_peek_error);
  library.find("ERR_reason_error_string", &l.err_reason_error_string);
  library.find("ERR_clear_error", &l.err_clear_error);
  library.find("BIO_get_new_index", &l.bio_get_new_index);
  library.find("BIO_meth_new", &l.bio_meth_new);
  library.find("BIO_meth_free", &l.bio_meth_free);
  library.find("BIO_meth_set_write", &l.bio_meth_set_write);
  library.find("BIO_meth_set_read", &l.bio_meth_set_read);
  library.find("BIO_meth_set_ctrl", &l.bio_meth_set_ctrl);
  library.find("BIO_new", &l.bio_new);
  library.find("BIO_get_data", &l.bio_get_data);
  library.find("BIO_set_data", &l.bio_set_data);
  library.find("BIO_set_init", &l.bio_set_init);
  library.find("BIO_set_flags", &l.bio_set_flags);
  library.find("BIO_clear_flags", &l.bio_clear_flags);
  library.find("TLS_client_method", &l.tls_client_method);
  library.find("SSL_CTX_new", &l.ssl_ctx_new);
  library.find("SSL_CTX_free", &l.ssl_ctx_free);
  library.find("SSL_CTX_ctrl", &l.ssl_ctx_ctrl);
  library.find("SSL_CTX_set_verify", &l.ssl_ctx_set_verify);
  library.find("SSL_CTX_set_default_verify_paths", &l.ssl_ctx_set_default_verify_paths);
  library.find("SSL_CTX_load_verify_file", &l.ssl_ctx_load_verify_file);
  library.find("SSL_CTX_use_certificate_chain_file", &l.ssl_ctx_use_certificate_chain_file);
  library.find("SSL_CTX_use_PrivateKey_file", &l.ssl_ctx_use_private_key_file);
  library.find("SSL_new", &l.ssl_new);
  library.find("SSL_free", &l.ssl_free);
  library.find("SSL_ctrl", &l.ssl_ctrl);
  library.find("SSL_set_bio", &l.ssl_set_bio);
  library.find("SSL_set1_host", &l.ssl_set1_host);
  library.find("SSL_get0_param", &l.ssl_get0_param);
  library.find("SSL_connect", &l.ssl_connect);
  library.find("SSL_read_ex", &l.ssl_read_ex);
  library.find("SSL_write_ex", &l.ssl_write_ex);
  library.find("SSL_get_error", &l.ssl_get_error);
  library.find("SSL_get_verify_result", &l.ssl_get_verify_result);
  library.find("X509_VERIFY_PARAM_set1_ip", &l.x509_verify_param_set1_ip);
  library.find("X509_VERIFY_PARAM_set1_ip_asc", &l.x509_verify_param_set1_ip_asc);
  library.find("X509_verify_cert_error_string", &l.x509_verify_cert_error_string);
  return library.fault();
}

using OpenSsl = LibraryOnce<OpenSslLibrary, look_up>;

}  // namespace

Status load_openssl() noexcept {
  return OpenSsl::load("make_redis_tier",
                       "TLS needs OpenSSL 3, which cannot be loaded (Debian: libssl3)");
}

const OpenSslLibrary& openssl() noexcept { return OpenSsl::functions(); }

}  // namespace folio::inline v1::tier::redis
