// SPDX-License-Identifier: Apache-2.0
/// tests/names/vectors.cpp: lines of words.
#include "names/vectors.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace folio::test {
namespace {

std::string bytes_of_hex(const std::string& hex) {
  if (hex == "-") return {};
  if (hex.size() % 2 != 0) throw std::runtime_error("half a byte: " + hex);
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2)
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

std::vector<std::string> parts(const std::string& word, char separator) {
  std::vector<std::string> found;
  std::istringstream in(word == "-" ? "" : word);
  for (std::string part; std::getline(in, part, separator);) found.push_back(part);
  return found;
}

std::string word(std::istringstream& line) {
  std::string next;
  if (!(line >> next)) throw std::runtime_error("a word is missing: " + line.str());
  return next;
}

std::vector<TokenId> tokens_of(const std::string& word) {
  std::vector<TokenId> tokens;
  for (const std::string& part : parts(word, ',')) tokens.push_back(std::stoi(part));
  return tokens;
}

std::vector<ContentSpan> spans_of(const std::string& word) {
  std::vector<ContentSpan> spans;
  for (const std::string& span : parts(word, ',')) {
    const std::vector<std::string> part = parts(span, ':');
    spans.push_back({std::stoi(part.at(0)), std::stoi(part.at(1)), digest_of_hex(part.at(2))});
  }
  return spans;
}

NameVector vector_of(std::istringstream& line) {
  NameVector v;
  const std::string kind = word(line);
  if (kind == "page") {
    v.kind = NameVector::Kind::page;
    v.header = bytes_of_hex(word(line));
    v.parent = digest_of_hex(word(line));
    v.tokens = tokens_of(word(line));
    v.spans = spans_of(word(line));
  } else if (kind == "companion") {
    v.kind = NameVector::Kind::companion;
    v.parent = digest_of_hex(word(line));
    v.group = static_cast<uint32_t>(std::stoul(word(line)));
    v.rule.rule = static_cast<GroupRule>(std::stoi(word(line)));
    const int32_t reach = std::stoi(word(line));
    if (v.rule.rule == GroupRule::window) v.rule.window = reach;
    if (v.rule.rule == GroupRule::chunked) v.rule.chunk = reach;
    if (v.rule.rule == GroupRule::state) v.rule.checkpoint = reach;
    v.rule.sinks = std::stoi(word(line));
  } else {
    v.kind = kind == "root" ? NameVector::Kind::root : NameVector::Kind::chain;
    v.fingerprint = digest_of_hex(word(line));
    v.adapter = std::stoull(word(line));
    v.salt = bytes_of_hex(word(line));
    if (kind == "chain") v.page_size = std::stoi(word(line));
    if (kind == "chain") v.tokens = tokens_of(word(line));
    if (kind != "chain" && kind != "root") throw std::runtime_error("no such vector: " + kind);
  }
  for (const std::string& name : parts(word(line), ',')) v.names.push_back(digest_of_hex(name));
  return v;
}

}  // namespace

Digest256 digest_of_hex(const std::string& hex) {
  const std::string bytes = bytes_of_hex(hex);
  Digest256 digest;
  if (bytes.size() != digest.bytes.size()) throw std::runtime_error("not 256 bits: " + hex);
  std::copy(bytes.begin(), bytes.end(), digest.bytes.begin());
  return digest;
}

std::vector<NameVector> name_vectors() {
  std::ifstream in(FOLIO_NAME_VECTORS);
  std::vector<NameVector> vectors;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    vectors.push_back(vector_of(words));
  }
  return vectors;
}

}  // namespace folio::test
