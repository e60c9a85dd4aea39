// SPDX-License-Identifier: Apache-2.0
/// src/c/pool_arguments.cpp: what the calls of the pool are given, read and checked.
#include "c/pool.h"

namespace folio::inline v1::c {

Result<std::span<const TokenId>> tokens_of(const char* function, const char* argument,
                                           const int32_t* tokens, int64_t count) {
  if (Status s = check_array(function, argument, tokens, "num_tokens", count, sizeof *tokens);
      !s.is_ok())
    return s;
  return std::span<const TokenId>(tokens, static_cast<size_t>(count));
}

Status ConvertedOptions::read(const char* function, const folio_sequence_options* given) {
  if (given == nullptr) return {};
  folio_sequence_options o = {};
  if (Status s = c::read(function, "options", given, o); !s.is_ok()) return s;
  if (o.salt == nullptr && o.salt_bytes > 0) return null_argument(function, "options->salt");
  if (o.salt_bytes > PagePool::max_salt_bytes)
    return fail(Errc::invalid_argument, "{}: options->salt_bytes is {}, expected at most {}",
                function, o.salt_bytes, PagePool::max_salt_bytes);
  options.salt = std::string_view(o.salt, o.salt_bytes);
  options.adapter = o.adapter;
  return read_retention(function, o);
}

Status ConvertedOptions::read_retention(const char* function, const folio_sequence_options& given) {
  const int64_t count = given.num_retention;
  if (Status s = check_array(function, "options->retention", given.retention,
                             "options->num_retention", count, sizeof *given.retention);
      !s.is_ok())
    return s;
  if (count > static_cast<int64_t>(max_retention_ranges))
    return fail(Errc::invalid_argument, "{}: options->num_retention is {}, expected at most {}",
                function, count, max_retention_ranges);
  for (int64_t i = 0; i < count; ++i) {
    const folio_retention_range& r = given.retention[i];
    if (r.reserved != 0)
      return fail(Errc::invalid_argument, "{}: options->retention[{}].reserved is {}, expected 0",
                  function, i, r.reserved);
    ranges[i] = {r.begin, r.end, r.level, r.milliseconds};
  }
  options.retention = {ranges, static_cast<size_t>(count)};
  bool decodes = false;
  if (Status s =
          read_flag(function, "options->has_decode_retention", given.has_decode_retention, decodes);
      !s.is_ok())
    return s;
  if (decodes && given.decode_level < 0)  // -1 would say that none is given
    return fail(Errc::invalid_argument, "{}: options->decode_level is {}, expected 0 .. {}",
                function, given.decode_level, retention_level::pinned);
  if (!decodes && (given.decode_level != 0 || given.decode_milliseconds != 0))
    return fail(Errc::invalid_argument,
                "{}: options->has_decode_retention is 0, expected 1, as a level or time is given",
                function);
  if (decodes) options.decode_retention = {given.decode_level, given.decode_milliseconds};
  return {};
}

}  // namespace folio::inline v1::c
