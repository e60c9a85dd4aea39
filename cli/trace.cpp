// SPDX-License-Identifier: Apache-2.0
/// cli/trace.cpp: parsing and checking of trace lines.
#include "trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>

#include "text.h"

namespace folio::cli {
namespace {

using nlohmann::json;

// The longest request has max_request_tokens / 512 ids of ten digits; a longer line is not a
// request.
constexpr int64_t max_line_bytes = int64_t{1} << 20;
constexpr int64_t max_line_depth = 64;

Status bad(const std::string& reason) { return {Errc::invalid_argument, reason}; }

// A value as it stands in the line, cut where it is long. Arrays and objects only by their kind:
// nobody needs to see them whole.
std::string shown(const json& value) {
  if (value.is_array()) return fmt::format("an array of {}", value.size());
  if (value.is_object()) return "an object";
  return printable(value.dump(), 40);
}

// Brackets of JSON that are open at the same time. Text that is no JSON gets some number.
int64_t depth_of(std::string_view text) {
  int64_t depth = 0, deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return deepest;
}

struct Bounds {
  int64_t low;
  int64_t high;
};

Result<int64_t> integer_of(const json& value, const std::string& what, Bounds bounds) {
  const auto expected = fmt::format("expected an integer from {} to {}", bounds.low, bounds.high);
  if (!value.is_number_integer())
    return bad(fmt::format("{} is {}, {}", what, shown(value), expected));
  const bool beyond_int64 =
      value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX};
  const auto number = value.get<int64_t>();
  if (beyond_int64 || number < bounds.low || number > bounds.high) {
    return bad(fmt::format("{} is {}, {}", what, shown(value), expected));
  }
  return number;
}

Result<int64_t> integer_field(const json& line, const char* field, Bounds bounds) {
  const auto found = line.find(field);
  if (found == line.end()) return bad(fmt::format("the field \"{}\" is missing", field));
  return integer_of(*found, field, bounds);
}

Result<std::vector<int32_t>> hash_ids_of(const json& line, int64_t input_length) {
  const auto found = line.find("hash_ids");
  if (found == line.end()) return bad("the field \"hash_ids\" is missing");
  if (!found->is_array()) return bad("hash_ids is no array");
  const int64_t expected = (input_length + tokens_per_block - 1) / tokens_per_block;
  if (static_cast<int64_t>(found->size()) != expected) {
    return bad(fmt::format(
        "hash_ids has {} ids, expected {} for an input_length of {} at {} tokens per id",
        found->size(), expected, input_length, tokens_per_block));
  }
  std::vector<int32_t> ids;
  ids.reserve(found->size());
  for (size_t i = 0; i < found->size(); ++i) {
    const auto id = integer_of((*found)[i], fmt::format("hash_ids[{}]", i), {0, max_hash_id});
    if (!id) return id.error();
    ids.push_back(static_cast<int32_t>(*id));
  }
  return ids;
}

Result<TraceRequest> request_of(std::string_view text) {
  json line;
  // The parser takes a null byte for the end of its input.
  if (text.find('\0') != text.npos) return bad("not a JSON object: a null byte in the line");
  // A request has two levels; what handles values recursively must not be led deep.
  if (const int64_t depth = depth_of(text); depth > max_line_depth) {
    return bad(
        fmt::format("the line nests {} brackets, expected at most {}", depth, max_line_depth));
  }
  try {
    line = json::parse(text);
  } catch (const json::exception& error) {
    const std::string_view what = error.what();
    const size_t tag = what.find("] ");
    return bad(fmt::format("not a JSON object: {}",
                           printable(tag == what.npos ? what : what.substr(tag + 2), 200)));
  }
  if (!line.is_object())
    return bad(fmt::format("expected a JSON object, got {}", line.type_name()));
  const auto input = integer_field(line, "input_length", {1, max_request_tokens});
  if (!input) return input.error();
  const auto output = integer_field(line, "output_length", {0, max_request_tokens - *input});
  if (!output) return output.error();
  const auto timestamp = integer_field(line, "timestamp", {0, int64_t{1} << 53});
  if (!timestamp) return timestamp.error();
  auto ids = hash_ids_of(line, *input);
  if (!ids) return ids.error();
  return TraceRequest{0, *timestamp, static_cast<int32_t>(*input), static_cast<int32_t>(*output),
                      std::move(*ids)};
}

bool is_blank(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return std::isspace(c) != 0; });
}

}  // namespace

Result<std::vector<TraceRequest>> read_trace(const std::string& path, int64_t limit) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Status(Errc::io, fmt::format("{}: cannot open the trace", path));
  return read_trace(file, path, limit);
}

Result<std::vector<TraceRequest>> read_trace(std::istream& file, const std::string& path,
                                             int64_t limit) {
  std::vector<TraceRequest> requests;
  const auto buffer = std::make_unique_for_overwrite<char[]>(static_cast<size_t>(max_line_bytes));
  for (int64_t number = 1; limit == 0 || static_cast<int64_t>(requests.size()) < limit; ++number) {
    file.getline(buffer.get(), max_line_bytes);
    if (file.bad()) return Status(Errc::io, fmt::format("{}: cannot read the trace", path));
    const int64_t read = file.gcount();
    if (file.fail() && read == max_line_bytes - 1) {
      return bad(
          fmt::format("{}:{}: the line is longer than {} bytes", path, number, max_line_bytes - 2));
    }
    if (file.fail()) break;
    const std::string_view text(buffer.get(), static_cast<size_t>(file.eof() ? read : read - 1));
    if (is_blank(text)) continue;
    auto request = request_of(text);
    if (!request) return bad(fmt::format("{}:{}: {}", path, number, request.error().message()));
    request->line = number;
    requests.push_back(std::move(*request));
  }
  if (requests.empty()) return bad(fmt::format("{}: the trace has no requests", path));
  return requests;
}

}  // namespace folio::cli
