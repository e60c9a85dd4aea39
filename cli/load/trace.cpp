// SPDX-License-Identifier: Apache-2.0
/// cli/load/trace.cpp: parsing and checking of trace lines.
#include "load/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_map>

#include "parts/text.h"

namespace folio::cli {
namespace {

using nlohmann::json;

// A request of a million tokens has 65,536 ids of 20 digits in blocks of 16, one of
// max_request_tokens 32,768 in blocks of 512; a longer line is not a request.
constexpr int64_t max_line_bytes = int64_t{1} << 22;
constexpr int64_t max_line_depth = 64;

Status bad(const std::string& reason) { return {Errc::invalid_argument, reason}; }

// A value as it stands in the line, cut where it is long. Arrays and objects only by their kind:
// nobody needs to see them whole.
std::string text_of(const json& value) {
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
    return bad(fmt::format("{} is {}, {}", what, text_of(value), expected));
  const bool beyond_int64 =
      value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX};
  const auto number = value.get<int64_t>();
  if (beyond_int64 || number < bounds.low || number > bounds.high) {
    return bad(fmt::format("{} is {}, {}", what, text_of(value), expected));
  }
  return number;
}

Result<int64_t> integer_field(const json& line, const char* field, Bounds bounds) {
  const auto found = line.find(field);
  if (found == line.end()) return bad(fmt::format("the field \"{}\" is missing", field));
  return integer_of(*found, field, bounds);
}

/// Null where the field is missing or null.
const json* given(const json& line, const char* field) {
  const auto found = line.find(field);
  return found == line.end() || found->is_null() ? nullptr : &*found;
}

/// Milliseconds, cut to whole ones.
Result<int64_t> timestamp_of(const json& value) {
  constexpr int64_t most = int64_t{1} << 53;
  if (value.is_number_float()) {
    const auto number = value.get<double>();
    if (number >= 0.0 && number <= static_cast<double>(most)) return static_cast<int64_t>(number);
    return bad(
        fmt::format("timestamp is {}, expected a number from 0 to {}", text_of(value), most));
  }
  return integer_of(value, "timestamp", {0, most});
}

/// Lines to requests, by the form that the first one has.
class LineReader {
 public:
  Result<TraceRequest> request_of(const json& line, int64_t number) {
    if (Status s = take_block_size(line, number); !s.is_ok()) return s;
    const auto input = integer_field(line, "input_length", {1, max_request_tokens});
    if (!input) return input.error();
    const auto output = output_length_of(line, max_request_tokens - *input);
    if (!output) return output.error();
    if (Status s = take_timestamp(line); !s.is_ok()) return s;
    auto ids = hash_ids_of(line, *input);
    if (!ids) return ids.error();
    if (Status s = check_block_tokens(line, *input); !s.is_ok()) return s;
    return TraceRequest{number,
                        timestamp_,
                        static_cast<int32_t>(*input),
                        static_cast<int32_t>(*output),
                        tokens_per_block_,
                        std::move(*ids)};
  }

 private:
  Status take_block_size(const json& line, int64_t number) {
    const json* const value = given(line, "block_size");
    Result<int64_t> size = mooncake_tokens_per_block;
    if (value != nullptr) size = integer_of(*value, "block_size", {1, most_tokens_per_block});
    if (!size) return size.error();
    if (first_line_ == 0) {
      first_line_ = number;
      is_simulators_ = value != nullptr;
      tokens_per_block_ = static_cast<int32_t>(*size);
    } else if (value != nullptr && *size != tokens_per_block_) {
      return bad(fmt::format("block_size is {}, expected {} as in line {}{}", *size,
                             tokens_per_block_, first_line_,
                             is_simulators_ ? "" : ", which has none"));
    }
    return {};
  }

  Result<int64_t> output_length_of(const json& line, int64_t most) const {
    if (is_simulators_ && given(line, "output_length") == nullptr) return int64_t{0};
    return integer_field(line, "output_length", {0, most});
  }

  Status take_timestamp(const json& line) {
    const json* const value = given(line, "timestamp");
    if (is_simulators_ && value == nullptr) return {};
    const auto time = is_simulators_ ? timestamp_of(*value)
                                     : integer_field(line, "timestamp", {0, int64_t{1} << 53});
    if (!time) return time.error();
    timestamp_ = *time;
    return {};
  }

  Result<std::vector<int32_t>> hash_ids_of(const json& line, int64_t input_length) {
    const auto found = line.find("hash_ids");
    if (found == line.end()) return bad("the field \"hash_ids\" is missing");
    if (!found->is_array()) return bad("hash_ids is no array");
    const int64_t expected = (input_length + tokens_per_block_ - 1) / tokens_per_block_;
    if (static_cast<int64_t>(found->size()) != expected) {
      return bad(fmt::format(
          "hash_ids has {} ids, expected {} for an input_length of {} at {} tokens per id",
          found->size(), expected, input_length, tokens_per_block_));
    }
    std::vector<int32_t> ids;
    ids.reserve(found->size());
    for (size_t i = 0; i < found->size(); ++i) {
      const auto id = id_of((*found)[i], fmt::format("hash_ids[{}]", i));
      if (!id) return id.error();
      ids.push_back(static_cast<int32_t>(*id));
    }
    return ids;
  }

  Result<int64_t> id_of(const json& value, const std::string& what) {
    if (!is_simulators_) return integer_of(value, what, {0, max_hash_id});
    if (!value.is_number_integer() && !value.is_string()) {
      return bad(fmt::format("{} is {}, expected an integer of 64 bits or a string", what,
                             text_of(value)));
    }
    // 5 and "5" are one id, as they are there.
    const auto& name = value.is_string() ? value.get_ref<const std::string&>() : value.dump();
    const auto next = static_cast<int64_t>(ids_.size());
    if (next > max_hash_id) return bad("the trace has more ids than 31 bits tell apart");
    return ids_.try_emplace(name, static_cast<int32_t>(next)).first->second;
  }

  Status check_block_tokens(const json& line, int64_t input_length) const {
    const json* const value = given(line, "block_tokens");
    if (!is_simulators_ || value == nullptr) return {};
    if (!value->is_array()) return bad("block_tokens is no array");
    const int64_t blocks = (input_length + tokens_per_block_ - 1) / tokens_per_block_;
    if (static_cast<int64_t>(value->size()) != blocks)
      return bad(fmt::format("block_tokens has {} numbers, expected {}, one for each id",
                             value->size(), blocks));
    for (int64_t i = 0; i < blocks; ++i) {
      const json& tokens = (*value)[static_cast<size_t>(i)];
      const int64_t expected =
          std::min<int64_t>(tokens_per_block_, input_length - i * tokens_per_block_);
      if (tokens != expected)
        return bad(fmt::format("block_tokens[{}] is {}, expected {} by block_size and input_length",
                               i, text_of(tokens), expected));
    }
    return {};
  }

  int64_t first_line_ = 0;  // of a request; 0: none so far
  bool is_simulators_ = false;
  int32_t tokens_per_block_ = mooncake_tokens_per_block;
  int64_t timestamp_ = 0;  // of the last request
  std::unordered_map<std::string, int32_t> ids_;
};

Result<json> object_of(std::string_view text) {
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
  return line;
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
  LineReader reader;
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
    const auto line = object_of(text);
    auto request = line ? reader.request_of(*line, number) : line.error();
    if (!request) return bad(fmt::format("{}:{}: {}", path, number, request.error().message()));
    requests.push_back(std::move(*request));
  }
  if (requests.empty()) return bad(fmt::format("{}: the trace has no requests", path));
  return requests;
}

int64_t cached_tokens(const TraceRequest& request) {
  return int64_t{request.input_length} + std::max(request.output_length, 1) - 1;
}

TraceDemand demand_of(std::span<const TraceRequest> trace) {
  TraceDemand demand{.requests = std::ssize(trace)};
  for (const TraceRequest& request : trace) {
    demand.prompt_tokens += request.input_length;
    demand.output_tokens += request.output_length;
    const int64_t tokens = cached_tokens(request);
    if (tokens <= demand.longest_tokens) continue;
    demand.longest_tokens = tokens;
    demand.longest_line = request.line;
  }
  return demand;
}

}  // namespace folio::cli
