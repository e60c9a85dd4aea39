// SPDX-License-Identifier: Apache-2.0
/// names/sha256_names.cpp: the one file that knows OpenSSL.
#include "folio/names/sha256_names.h"

// The functions that replace these take half as long again, and memory for each hash.
#define OPENSSL_SUPPRESS_DEPRECATED  // NOLINT(readability-identifier-naming): the library's name
#include <openssl/sha.h>

#include <algorithm>
#include <new>

#include "names/checks.h"
#include "names/encoding.h"

namespace folio::inline v1::names {

struct Sha256Names::State {
  [[nodiscard]] Result<PageName> root(std::string_view salt, uint64_t adapter) noexcept;
  [[nodiscard]] Result<PageName> page(const PageName& parent, std::span<const TokenId> tokens,
                                      std::span<const ContentSpan> spans) noexcept;
  /// What a pool asks for: the first page of a sequence has a root to compute, too.
  [[nodiscard]] Result<PageName> name(const PageContent& page) noexcept;

  Digest256 fingerprint;
  size_t header_bytes = 0;
  uint8_t header[max_header_bytes] = {};
};

namespace {

/// The digest of the bytes that `encode(sink)` gives to its sink.
template <class Encode>
PageName hash(const Encode& encode) noexcept {
  SHA256_CTX state;
  bool begun = false;
  encode([&](const void* data, size_t count) {
    // begins here, behind what has been written: loads that follow stores at once may wait for them
    if (!begun) SHA256_Init(&state);
    begun = true;
    SHA256_Update(&state, data, count);
  });
  PageName name;
  SHA256_Final(name.bytes.data(), &state);
  return name;
}

Result<PageName> name_companion(const pool::CompanionContent& page) noexcept {
  if (Status s = names::check_companion(page); !s.is_ok()) return s;
  return hash([&](auto&& sink) { names::encode_companion(page, sink); });
}

}  // namespace

Result<PageName> Sha256Names::State::root(std::string_view salt, uint64_t adapter) noexcept {
  if (Status s = check_salt(salt); !s.is_ok()) return s;
  return hash([&](auto&& sink) { encode_root(fingerprint, salt, adapter, sink); });
}

Result<PageName> Sha256Names::State::page(const PageName& parent, std::span<const TokenId> tokens,
                                          std::span<const ContentSpan> spans) noexcept {
  if (Status s = check_page(tokens, spans); !s.is_ok()) return s;
  return hash([&](auto&& sink) {
    encode_page({header, header_bytes}, parent, tokens, spans, sink);
  });
}

Result<PageName> Sha256Names::State::name(const PageContent& content) noexcept {
  if (content.parent != nullptr) return page(*content.parent, content.tokens, content.spans);
  const Result<PageName> first = root(content.salt, content.adapter);
  return first ? page(*first, content.tokens, content.spans) : first;
}

Result<Sha256Names> Sha256Names::create(const Sha256NamesOptions& options) noexcept {
  if (Status s = check_header(options.header); !s.is_ok()) return s;
  Sha256Names names(new (std::nothrow) State);
  if (names.state_ == nullptr)
    return fail(Errc::out_of_memory, "Sha256Names::create: {} bytes are not to be had",
                sizeof(State));
  State& state = *names.state_;
  state.fingerprint = options.fingerprint;
  state.header_bytes = options.header.size();
  std::copy(options.header.begin(), options.header.end(), state.header);
  return names;
}

Sha256Names::~Sha256Names() { delete state_; }

Result<PageName> Sha256Names::root(std::string_view salt, uint64_t adapter) noexcept {
  return state_ == nullptr ? moved_from("root") : state_->root(salt, adapter);
}

Result<PageName> Sha256Names::page(const PageName& parent, std::span<const TokenId> tokens,
                                   std::span<const ContentSpan> spans) noexcept {
  return state_ == nullptr ? moved_from("page") : state_->page(parent, tokens, spans);
}

Result<PageName> Sha256Names::companion(const PageName& leading, uint32_t group,
                                        const GroupOptions& options) noexcept {
  if (state_ == nullptr) return names::moved_from("companion");
  return name_companion({.leading = leading, .group = group, .options = options});
}

NameFunction Sha256Names::function() noexcept {
  if (state_ == nullptr) return {};
  return {.function =
              [](void* context, const PageContent& page, PageName* name) noexcept {
                const Result<PageName> result = static_cast<State*>(context)->name(page);
                if (result) *name = *result;
                return result.error();
              },
          .context = state_,
          .companion =
              [](void*, const pool::CompanionContent& page, PageName* name) noexcept {
                const Result<PageName> result = name_companion(page);
                if (result) *name = *result;
                return result.error();
              }};
}

}  // namespace folio::inline v1::names
