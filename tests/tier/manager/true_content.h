// SPDX-License-Identifier: Apache-2.0
/// tests/tier/manager/true_content.h: what K/V stand for, by the rules of the pool's headers alone:
/// a word for each token and all that it depends on, and the names of pages with their words.
#pragma once

#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "folio/names/sha256_names.h"
#include "folio/pool/page_pool.h"

namespace folio::test {

/// The tokens of a sequence that are committed, and what they depend on.
struct TrueContent {
  std::string salt = {};
  uint64_t adapter = 0;
  std::vector<ContentSpan> items = {};  ///< those behind the tokens are still to come
  std::vector<TokenId> tokens = {};
  std::vector<uint64_t> words = {};  ///< of the K/V of each token: of it and all before

  /// `words` of some more tokens.
  [[nodiscard]] std::vector<uint64_t> words_of(std::span<const TokenId> more) const {
    std::vector<uint64_t> result;
    uint64_t word = words.empty() ? 1 : words.back();
    const auto mix = [&word](uint64_t value) {
      word = (word ^ value) * 0x9e3779b97f4a7c15U;
      word ^= word >> 29;
    };
    if (words.empty()) {
      mix(salt.size());
      mix(adapter);
    }
    auto position = static_cast<int32_t>(tokens.size());
    for (const TokenId token : more) {
      for (const ContentSpan& item : items)
        if (item.offset == position) {
          mix(static_cast<uint64_t>(item.length) + 77);
          mix(item.hash.bytes[0] + 1000U);
        }
      mix(static_cast<uint64_t>(token) + 2);
      result.push_back(word);
      ++position;
    }
    return result;
  }
  void append(std::span<const TokenId> more) {
    const std::vector<uint64_t> added = words_of(more);
    words.insert(words.end(), added.begin(), added.end());
    tokens.insert(tokens.end(), more.begin(), more.end());
  }
  void cut(size_t length, bool keeps_items) {
    tokens.resize(length);
    words.resize(length);
    if (!keeps_items)
      std::erase_if(items, [&](const ContentSpan& item) {
        return item.offset >= static_cast<int32_t>(length);
      });
  }
  [[nodiscard]] bool is_of(const TrueContent& other) const {
    return salt == other.salt && adapter == other.adapter;
  }
};

/// Names of full pages and their words, both ways.
class KnownPages {
 public:
  explicit KnownPages(int32_t page_size) : page_size_(static_cast<size_t>(page_size)) {}

  [[nodiscard]] NameFunction function() { return names_.function(); }

  /// Of page `p`, which is full, those before it being known.
  PageName add(const TrueContent& of, size_t p) {
    const size_t first = p * page_size_, last = first + page_size_;
    const auto known = names_of_words_.find(of.words[last - 1]);
    if (known != names_of_words_.end()) return known->second;
    std::vector<ContentSpan> spans;
    for (ContentSpan item : of.items) {
      item.offset -= static_cast<int32_t>(first);
      if (item.offset < static_cast<int32_t>(page_size_) && item.offset + item.length > 0)
        spans.push_back(item);
    }
    const PageName parent = p == 0 ? PageName{} : names_of_words_.at(of.words[first - 1]);
    PageName name;
    const NameFunction give = names_.function();
    give.function(give.context,
                  {.parent = p == 0 ? nullptr : &parent,
                   .tokens = std::span(of.tokens).subspan(first, page_size_),
                   .spans = spans,
                   .salt = of.salt,
                   .adapter = of.adapter},
                  &name)
        .or_throw();
    names_of_words_[of.words[last - 1]] = name;
    words_[name] = {of.words.begin() + static_cast<std::ptrdiff_t>(first),
                    of.words.begin() + static_cast<std::ptrdiff_t>(last)};
    return name;
  }
  /// Whether these are bytes of a page of that name: K of its tokens, then V.
  [[nodiscard]] bool are_of(const PageName& name, std::span<const std::byte> bytes) const {
    const auto at = words_.find(name);
    if (at == words_.end()) return false;
    std::vector<uint64_t> both = at->second;
    both.insert(both.end(), at->second.begin(), at->second.end());
    return bytes.size() == both.size() * sizeof(uint64_t) &&
           std::memcmp(bytes.data(), both.data(), bytes.size()) == 0;
  }

 private:
  size_t page_size_;
  Sha256Names names_ = Sha256Names::create().value();
  std::map<uint64_t, PageName> names_of_words_;  ///< by the last token's word
  std::map<PageName, std::vector<uint64_t>> words_;
};

}  // namespace folio::test
