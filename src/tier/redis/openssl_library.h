// SPDX-License-Identifier: Apache-2.0
/// tier/redis/openssl_library.h: OpenSSL 3, loaded when the first tier asks for TLS.
#pragma once

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "folio/core/status.h"

namespace folio::inline v1::tier::redis {

struct OpenSslLibrary {
  decltype(&::ERR_peek_error) err_peek_error = nullptr;
  decltype(&::ERR_reason_error_string) err_reason_error_string = nullptr;
  decltype(&::ERR_clear_error) err_clear_error = nullptr;
  decltype(&::BIO_get_new_index) bio_get_new_index = nullptr;
  decltype(&::BIO_meth_new) bio_meth_new = nullptr;
  decltype(&::BIO_meth_free) bio_meth_free = nullptr;
  decltype(&::BIO_meth_set_write) bio_meth_set_write = nullptr;
  decltype(&::BIO_meth_set_read) bio_meth_set_read = nullptr;
  decltype(&::BIO_meth_set_ctrl) bio_meth_set_ctrl = nullptr;
  decltype(&::BIO_new) bio_new = nullptr;
  decltype(&::BIO_get_data) bio_get_data = nullptr;
  decltype(&::BIO_set_data) bio_set_data = nullptr;
  decltype(&::BIO_set_init) bio_set_init = nullptr;
  decltype(&::BIO_set_flags) bio_set_flags = nullptr;
  decltype(&::BIO_clear_flags) bio_clear_flags = nullptr;
  decltype(&::TLS_client_method) tls_client_method = nullptr;
  decltype(&::SSL_CTX_new) ssl_ctx_new = nullptr;
  decltype(&::SSL_CTX_free) ssl_ctx_free = nullptr;
  decltype(&::SSL_CTX_ctrl) ssl_ctx_ctrl = nullptr;
  decltype(&::SSL_CTX_set_verify) ssl_ctx_set_verify = nullptr;
  decltype(&::SSL_CTX_set_default_verify_paths) ssl_ctx_set_default_verify_paths = nullptr;
  decltype(&::SSL_CTX_load_verify_file) ssl_ctx_load_verify_file = nullptr;
  decltype(&::SSL_CTX_use_certificate_chain_file) ssl_ctx_use_certificate_chain_file = nullptr;
  decltype(&::SSL_CTX_use_PrivateKey_file) ssl_ctx_use_private_key_file = nullptr;
  decltype(&::SSL_new) ssl_new = nullptr;
  decltype(&::SSL_free) ssl_free = nullptr;
  decltype(&::SSL_ctrl) ssl_ctrl = nullptr;
  decltype(&::SSL_set_bio) ssl_set_bio = nullptr;
  decltype(&::SSL_set1_host) ssl_set1_host = nullptr;
  decltype(&::SSL_get0_param) ssl_get0_param = nullptr;
  decltype(&::SSL_connect) ssl_connect = nullptr;
  decltype(&::SSL_read_ex) ssl_read_ex = nullptr;
  decltype(&::SSL_write_ex) ssl_write_ex = nullptr;
  decltype(&::SSL_get_error) ssl_get_error = nullptr;
  decltype(&::SSL_get_verify_result) ssl_get_verify_result = nullptr;
  decltype(&::X509_VERIFY_PARAM_set1_ip) x509_verify_param_set1_ip = nullptr;
  decltype(&::X509_VERIFY_PARAM_set1_ip_asc) x509_verify_param_set1_ip_asc = nullptr;
  decltype(&::X509_verify_cert_error_string) x509_verify_cert_error_string = nullptr;
};

/// `libssl.so.3`, with the `libcrypto` that it needs; until the process ends. Errors: unsupported
/// where it cannot be loaded
[[nodiscard]] Status load_openssl() noexcept;

/// To be called behind a `load_openssl` that has succeeded.
[[nodiscard]] const OpenSslLibrary& openssl() noexcept;

}  // namespace folio::inline v1::tier::redis
