// SPDX-License-Identifier: Apache-2.0
/// tests/names/encoding_test.cpp: different contents never share an encoding: the bytes themselves
/// are compared, and read back by a reader that knows only the description.
#include "names/encoding.h"

#include <gtest/gtest.h>

#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "folio/names/sha256_names.h"

namespace folio::test {
namespace {

using Bytes = std::vector<uint8_t>;

struct Root {
  Digest256 fingerprint;
  uint64_t adapter = 0;
  Bytes salt;
  bool operator==(const Root&) const = default;
};

struct Page {
  Bytes header;
  PageName parent;
  std::vector<TokenId> tokens;
  std::vector<ContentSpan> spans;
  bool operator==(const Page&) const = default;
};

/// Keeps what it is given, and in how many pieces.
struct Collector {
  Bytes bytes;
  int pieces = 0;
  void operator()(const void* data, size_t count) {
    const auto* first = static_cast<const uint8_t*>(data);
    bytes.insert(bytes.end(), first, first + count);
    ++pieces;
  }
};

Bytes encoding(const Root& root) {
  Collector sink;
  const auto* salt = reinterpret_cast<const char*>(root.salt.data());
  names::encode_root(root.fingerprint, {salt, root.salt.size()}, root.adapter, sink);
  return sink.bytes;
}

Bytes encoding(const Page& page) {
  Collector sink;
  names::encode_page(page.header, page.parent, page.tokens, page.spans, sink);
  return sink.bytes;
}

// ---- A reader, byte by byte

class Reader {
 public:
  explicit Reader(const Bytes& bytes) : bytes_(bytes) {}
  uint64_t number(int count) {
    uint64_t value = 0;
    for (int i = 0; i < count; ++i) value += uint64_t{bytes_.at(at_++)} << (8 * i);
    return value;
  }
  int32_t i32() { return static_cast<int32_t>(number(4)); }
  Bytes some(uint64_t count) {
    Bytes read;
    for (uint64_t i = 0; i < count; ++i) read.push_back(bytes_.at(at_++));
    return read;
  }
  std::string word() {
    const Bytes read = some(11);
    return {read.begin(), read.end()};
  }
  Digest256 digest() {
    Digest256 read;
    for (uint8_t& byte : read.bytes) byte = bytes_.at(at_++);
    return read;
  }
  [[nodiscard]] bool at_end() const { return at_ == bytes_.size(); }

 private:
  const Bytes& bytes_;
  size_t at_ = 0;
};

Root read_root(const Bytes& bytes) {
  Reader reader(bytes);
  Root root;
  RC_ASSERT(reader.word() == "folio root1");
  root.fingerprint = reader.digest();
  root.adapter = reader.number(8);
  root.salt = reader.some(reader.number(4));
  RC_ASSERT(reader.at_end());
  return root;
}

Page read_page(const Bytes& bytes) {
  Reader reader(bytes);
  Page page;
  RC_ASSERT(reader.word() == "folio page1");
  page.header = reader.some(reader.number(4));
  page.parent = reader.digest();
  page.tokens.resize(reader.number(4));
  for (TokenId& token : page.tokens) token = reader.i32();
  page.spans.resize(reader.number(4));
  for (ContentSpan& span : page.spans) {
    span.offset = reader.i32();
    span.length = reader.i32();
    span.hash = reader.digest();
  }
  RC_ASSERT(reader.at_end());
  return page;
}

// ---- Arbitrary contents: few letters, so that equal parts are common

Digest256 any_digest() {
  Digest256 digest;
  digest.bytes[0] = *rc::gen::inRange<uint8_t>(0, 2);
  digest.bytes[31] = *rc::gen::inRange<uint8_t>(0, 2);
  return digest;
}

Bytes any_bytes() {
  return *rc::gen::container<Bytes>(rc::gen::element<uint8_t>(0, 1, 2, 255, 'f'));
}

Root any_root() {
  return {any_digest(), *rc::gen::element<uint64_t>(0, 1, 1ULL << 32), any_bytes()};
}

/// Spans as `page` takes them: ascending, none overlapping, each with a token in the page.
Page any_page() {
  Page page{any_bytes(), any_digest(), {}, {}};
  page.tokens = *rc::gen::nonEmpty(rc::gen::container<std::vector<TokenId>>(
      rc::gen::element<TokenId>(0, 1, -1, 256, 1 << 24, INT32_MIN)));
  const auto count = static_cast<int32_t>(page.tokens.size());
  for (int32_t at = *rc::gen::inRange(-2, 3); at < count;) {
    const int32_t length = *rc::gen::inRange(1, 4);
    if (at + length > 0) page.spans.push_back({at, length, any_digest()});
    at += length + *rc::gen::inRange(0, 6);
  }
  return page;
}

RC_GTEST_PROP(NameEncoding, a_root_can_be_read_back, ()) {
  const Root root = any_root();
  RC_ASSERT(read_root(encoding(root)) == root);
}

RC_GTEST_PROP(NameEncoding, a_page_can_be_read_back, ()) {
  const Page page = any_page();
  RC_ASSERT(read_page(encoding(page)) == page);
}

RC_GTEST_PROP(NameEncoding, two_contents_share_an_encoding_only_if_they_are_equal, ()) {
  const Page a = any_page(), b = any_page();
  RC_ASSERT((encoding(a) == encoding(b)) == (a == b));
  const Root r = any_root(), s = any_root();
  RC_ASSERT((encoding(r) == encoding(s)) == (r == s));
  RC_ASSERT(encoding(a) != encoding(r));
}

/// What moves over a border between two parts is another content.
RC_GTEST_PROP(NameEncoding, what_moves_from_one_part_to_the_next_changes_the_encoding, ()) {
  const Page page = any_page();
  Page fewer = page, other_header = page;
  fewer.tokens.pop_back();
  RC_ASSERT(encoding(fewer) != encoding(page));
  other_header.header.push_back(page.parent.bytes[0]);
  RC_ASSERT(encoding(other_header) != encoding(page));
  Page turned = page;
  std::reverse(turned.spans.begin(), turned.spans.end());
  RC_ASSERT((encoding(turned) == encoding(page)) == (turned.spans == page.spans));
}

// ---- Names

Sha256Names names_with(const Bytes& header) {
  return Sha256Names::create({.header = header}).value();
}

PageName name_of(const Page& page) {
  return names_with(page.header).page(page.parent, page.tokens, page.spans).value();
}

RC_GTEST_PROP(NameEncoding, one_bit_of_any_part_changes_the_name, ()) {
  Page page = any_page();
  if (page.header.empty()) page.header.push_back(0);
  if (page.spans.empty()) page.spans.push_back({0, 1, {}});
  const PageName before = name_of(page);
  const auto flipped = [&](auto change) {
    Page other = page;
    change(other);
    return name_of(other) != before;
  };
  const auto bit = *rc::gen::inRange(0, 8);
  const auto byte = *rc::gen::inRange<size_t>(0, 32);
  const auto mask = static_cast<uint8_t>(1 << bit);
  const auto t = *rc::gen::inRange<size_t>(0, page.tokens.size());
  RC_ASSERT(flipped([&](Page& p) { p.header.back() ^= mask; }));
  RC_ASSERT(flipped([&](Page& p) { p.parent.bytes[byte] ^= mask; }));
  RC_ASSERT(flipped([&](Page& p) { p.tokens[t] ^= TokenId{1} << (bit * 4 % 31); }));
  RC_ASSERT(flipped([&](Page& p) { p.spans.back().hash.bytes[byte] ^= mask; }));
  RC_ASSERT(flipped([&](Page& p) { p.spans.back().length += 1; }));
  RC_ASSERT(flipped([&](Page& p) { p.spans.front().offset -= 1, p.spans.front().length += 1; }));
  RC_ASSERT(flipped([&](Page& p) { p.spans.pop_back(); }));
}

RC_GTEST_PROP(NameEncoding, one_bit_of_fingerprint_adapter_or_salt_changes_the_root, ()) {
  Root root = any_root();
  root.salt.push_back(0);
  const auto name_of_root = [](const Root& r) {
    const auto* salt = reinterpret_cast<const char*>(r.salt.data());
    Sha256Names names = Sha256Names::create({.fingerprint = r.fingerprint}).value();
    return names.root({salt, r.salt.size()}, r.adapter).value();
  };
  const PageName before = name_of_root(root);
  const auto bit = *rc::gen::inRange(0, 64);
  Root fingerprint = root, adapter = root, salt = root, longer = root;
  fingerprint.fingerprint.bytes[static_cast<size_t>(bit / 2)] ^= static_cast<uint8_t>(1 << bit % 8);
  adapter.adapter ^= uint64_t{1} << bit;
  salt.salt.back() ^= static_cast<uint8_t>(1 << bit % 8);
  longer.salt.push_back(0);
  for (const Root& other : {fingerprint, adapter, salt, longer})
    RC_ASSERT(name_of_root(other) != before);
}

RC_GTEST_PROP(NameEncoding, tokens_are_little_endian_whatever_the_machine, ()) {
  const std::vector<TokenId> tokens = any_page().tokens;
  Collector copied, shifted;
  names::ByteWriter one(copied), other(shifted);
  one.tokens(tokens);
  other.tokens<std::endian::big>(tokens);  // as on a machine where they lie otherwise
  one.flush();
  other.flush();
  RC_ASSERT(shifted.bytes.size() == 4 * tokens.size());
  if (std::endian::native == std::endian::little) RC_ASSERT(copied.bytes == shifted.bytes);
}

TEST(NameEncoding, sixteen_tokens_without_header_and_spans_are_one_piece_of_two_blocks) {
  Collector sink;
  names::encode_page({}, {}, std::vector<TokenId>(16), {}, sink);
  EXPECT_EQ(sink.bytes.size() + 9, 128U);  // SHA-256 ends with a bit and its 64-bit length
  EXPECT_EQ(sink.pieces, 1);
}

TEST(NameEncoding, what_is_longer_than_a_piece_comes_in_several_and_in_order) {
  const Page page{Bytes(200, 1), {}, std::vector<TokenId>(1000, 0x01020304), {}};
  Collector sink;
  names::encode_page(page.header, page.parent, page.tokens, page.spans, sink);
  EXPECT_GT(sink.pieces, 1);
  EXPECT_EQ(read_page(sink.bytes), page);
  const Root root{{}, 3, Bytes(5000, 7)};
  EXPECT_EQ(read_root(encoding(root)), root);
}

}  // namespace
}  // namespace folio::test
