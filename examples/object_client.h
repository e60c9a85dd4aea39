// SPDX-License-Identifier: Apache-2.0
/// examples/object_client.h: what own_medium.cpp says to an object store, and what is in an object.
#pragma once

#include <curl/curl.h>
#include <folio/tier/medium.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

using Bytes = std::vector<std::byte>;

/// A page's name as a key, and back.
inline std::string key_of(const folio::Digest256& name) {
  std::string key;
  for (const uint8_t byte : name.bytes)
    for (const int digit : {byte >> 4, byte & 15}) key += "0123456789abcdef"[digit];
  return key;
}
inline folio::Digest256 name_of(const std::string& key) {
  folio::Digest256 name;
  for (size_t i = 0; i < name.bytes.size(); ++i)
    name.bytes[i] = static_cast<uint8_t>(std::stoi(key.substr(2 * i, 2), nullptr, 16));
  return name;
}

/// A page as an object: its header, then its bytes.
inline Bytes body_of(const folio::tier::Job& job, const folio::Digest256& fingerprint) {
  const auto header = folio::tier::make_page_header(job.name, fingerprint, job.extents);
  Bytes body(header.begin(), header.end());
  for (const folio::Extent& e : job.extents) body.insert(body.end(), e.data, e.data + e.bytes);
  return body;
}
/// Whether the body is the page; its bytes are in the job's extents then.
inline bool fill(const folio::tier::Job& job, const folio::Digest256& fingerprint,
                 const Bytes& body) {
  int64_t bytes = folio::tier::page_header_bytes;
  for (const folio::Extent& e : job.extents) bytes += e.bytes;
  if (std::ssize(body) != bytes) return false;
  const std::byte* from = body.data() + folio::tier::page_header_bytes;
  for (const folio::Extent& e : job.extents) {
    std::memcpy(e.data, from, static_cast<size_t>(e.bytes));
    from += e.bytes;
  }
  const auto header = std::span(body).first(folio::tier::page_header_bytes);
  return !folio::tier::fault_of_page(header, job.name, fingerprint, job.extents);
}

/// The objects of a folder. Any thread may call: each has connections of its own. Calls return the
/// status of HTTP, 0 where there is no answer.
class ObjectClient {
 public:
  /// `url` ends with a slash.
  explicit ObjectClient(std::string url) : url_(std::move(url)) {}

  long put(const std::string& key, const Bytes& bytes) const {
    Bytes answer;
    return request("PUT", key, &bytes, answer);
  }
  long get(const std::string& key, Bytes& bytes) const {
    return request("GET", key, nullptr, bytes);
  }
  long remove(const std::string& key) const {
    Bytes answer;
    return request("DELETE", key, nullptr, answer);
  }
  /// Keys and sizes.
  long list(std::vector<std::pair<std::string, int64_t>>& objects) const {
    Bytes answer;
    const long status = request("GET", "", nullptr, answer);
    std::istringstream lines({reinterpret_cast<const char*>(answer.data()), answer.size()});
    std::string key;
    for (int64_t bytes = 0; lines >> key >> bytes;) objects.emplace_back(key, bytes);
    return status;
  }

 private:
  static size_t take(char* data, size_t, size_t count, void* answer) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(data);
    static_cast<Bytes*>(answer)->insert(static_cast<Bytes*>(answer)->end(), bytes, bytes + count);
    return count;
  }
  long request(const char* method, const std::string& key, const Bytes* body, Bytes& answer) const {
    thread_local const std::unique_ptr<CURL, void (*)(CURL*)> curl(curl_easy_init(),
                                                                   curl_easy_cleanup);
    CURL* const c = curl.get();
    curl_easy_reset(c);  // connections stay
    curl_easy_setopt(c, CURLOPT_URL, (url_ + key).c_str());
    curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, 30'000L);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, &answer);
    if (body != nullptr) {
      curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body->size()));
      curl_easy_setopt(c, CURLOPT_POSTFIELDS, body->data());
    }
    long status = 0;
    if (curl_easy_perform(c) == CURLE_OK) curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
    return status;
  }

  const std::string url_;
};
