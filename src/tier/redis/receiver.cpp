// SPDX-License-Identifier: Apache-2.0
/// tier/redis/receiver.cpp: answers, byte by byte: whatever a server sends ends in an answer or in
/// an error.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <new>

#include "tier/redis/pipeline.h"

namespace folio::inline v1::tier::redis {
namespace {

constexpr size_t room_for_lines = 512;          // that is read beyond a page: copied, so not large
constexpr size_t most_extents = 256;            // of one call of the kernel
constexpr size_t most_aside = 64 * 1024;        // at once
constexpr size_t most_of_line = 64 * 1024;      // of text
constexpr size_t most_of_answer = 1024 * 1024;  // that hiredis reads
constexpr int64_t most_elements = 64 * 1024;    // of an array
constexpr int64_t most_of_value = int64_t{512} << 20;  // as servers have it
constexpr size_t prefetched_extents = 4;               // ahead: each lies in a layer of its own
constexpr int64_t most_prefetched = 512;               // bytes of one
constexpr std::string_view line_end = "\r\n";

Status no_answer(const char* what) {
  return fail(Errc::io, "the server sends what is no answer: {}", what);
}

bool is_load(const Command& command) {
  return command.kind == Command::Kind::get || command.kind == Command::Kind::part;
}

void prefetch_to_write(const Extent& extent) {
  for (int64_t at = 0; at < std::min(extent.bytes, most_prefetched); at += 64)
    __builtin_prefetch(extent.data + at, 1);
}

bool read_integer(std::string_view text, int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

Receiver::Receiver(Stream& stream)
    : stream_(stream), reader_(redisReaderCreate()), aside_(most_aside) {
  if (reader_ == nullptr) throw std::bad_alloc();
  buffer_.resize(room_for_lines);
}

void Receiver::list_targets() {
  targets_.clear();
  if (state_ == State::skip || (state_ == State::body && has_short_extents(command()))) {
    targets_.push_back({aside_.data(), static_cast<size_t>(std::min<int64_t>(left_, most_aside))});
  } else if (state_ == State::body) {
    const auto& extents = command().extents;
    int64_t from = in_extent_;
    for (size_t i = extent_; i < extents.size() && targets_.size() < most_extents; ++i, from = 0)
      targets_.push_back({extents[i].data + from, static_cast<size_t>(extents[i].bytes - from)});
  }
  if (begin_ != 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (buffer_.size() - end_ < room_for_lines) buffer_.resize(end_ + room_for_lines);
  // What stands behind the buffer's bytes must be what comes behind a page's last ones.
  int64_t listed = 0;
  for (const iovec& target : targets_) listed += static_cast<int64_t>(target.iov_len);
  if (targets_.empty() || listed == left_)
    targets_.push_back({buffer_.data() + end_, room_for_lines});
}

void Receiver::note_body(size_t bytes) noexcept {
  const auto& extents = command().extents;
  auto count = static_cast<int64_t>(bytes);
  left_ -= count;
  while (count != 0) {
    const Extent& e = extents[extent_];
    const int64_t part = std::min(count, e.bytes - in_extent_);
    crc_ = extend_crc(crc_, e.data + in_extent_, part);
    count -= part;
    advance(part);
  }
}

void Receiver::advance(int64_t bytes) noexcept {
  in_extent_ += bytes;
  if (in_extent_ < command().extents[extent_].bytes) return;
  ++extent_;
  in_extent_ = 0;
}

Result<size_t> Receiver::pull() {
  list_targets();
  size_t room = 0;
  for (const iovec& target : targets_) room += target.iov_len;
  Result<size_t> got = stream_.read(targets_);
  may_have_more_ = got && *got == room;
  if (!got || *got == 0) return got;
  size_t of_value = 0;
  if (state_ == State::body || state_ == State::skip)
    of_value = static_cast<size_t>(std::min<int64_t>(left_, static_cast<int64_t>(*got)));
  end_ += *got - of_value;
  if (state_ == State::body) {
    if (targets_.front().iov_base == aside_.data())
      take_body(aside_.data(), of_value);
    else
      note_body(of_value);
    if (left_ == 0) state_ = State::body_end;
  } else if (state_ == State::skip) {
    left_ -= static_cast<int64_t>(of_value);
  }
  while (!is_done()) {
    const Result<bool> went = take();
    if (!went) return went.error();
    if (!*went) break;
  }
  return got;
}

Result<bool> Receiver::take() {
  switch (state_) {
    case State::line: return take_line();
    case State::header:
      if (end_ - begin_ < sizeof(PayloadHeader)) return false;
      take_header();
      return true;
    case State::body: {
      const auto part = std::min(left_, static_cast<int64_t>(end_ - begin_));
      if (part == 0) return false;
      take_body(buffer_.data() + begin_, static_cast<size_t>(part));
      begin_ += static_cast<size_t>(part);
      if (left_ == 0) state_ = State::body_end;
      return true;
    }
    case State::body_end: {
      if (end_ - begin_ < line_end.size()) return false;
      if (Status s = end_value(); !s.is_ok()) return s;
      return true;
    }
    case State::skip: {
      const auto part = std::min(left_, static_cast<int64_t>(end_ - begin_));
      begin_ += static_cast<size_t>(part);
      left_ -= part;
      if (left_ != 0) return false;
      state_ = State::body_end;
      return true;
    }
  }
  return false;
}

// ---- Lines

Result<bool> Receiver::take_line() {
  const std::string_view text = rest();
  const size_t at = text.find('\n');
  if (at == std::string_view::npos) {
    if (text.size() > most_of_line) return no_answer("a line without an end");
    return false;
  }
  const std::string_view line = text.substr(0, at + 1);
  begin_ += line.size();
  const bool begins_value = is_load(command()) && !reader_has_part_ && line.starts_with('$');
  Status s = begins_value ? begin_value(line.substr(1)) : read_by_hiredis(line);
  if (!s.is_ok()) return s;
  return true;
}

/// The library allocates what a length says: so what may follow is bounded before it sees it.
Status Receiver::read_by_hiredis(std::string_view line) {
  reader_bytes_ += line.size();
  if (reader_bytes_ > most_of_answer) return no_answer("one of more than 1 MiB");
  if (line.starts_with('*')) {
    int64_t elements = 0;
    if (!line.ends_with(line_end) || !read_integer(line.substr(1, line.size() - 3), elements) ||
        elements > most_elements)
      return no_answer("an array of no size, or of too many elements");
  }
  void* reply = nullptr;
  if (redisReaderFeed(reader_.get(), line.data(), line.size()) != REDIS_OK ||
      redisReaderGetReply(reader_.get(), &reply) != REDIS_OK)
    return no_answer(reader_->errstr);
  reader_has_part_ = reply == nullptr;
  if (reply == nullptr) return {};
  reader_bytes_ = 0;
  take_reply(Reply(static_cast<redisReply*>(reply)));
  return {};
}

void Receiver::take_reply(Reply reply) {
  Command& c = command();
  switch (reply->type) {
    case REDIS_REPLY_STATUS:
      c.text.assign(reply->str, static_cast<size_t>(reply->len));
      return end_answer(Answer::status);
    case REDIS_REPLY_ERROR:
      c.text.assign(reply->str, static_cast<size_t>(reply->len));
      return end_answer(Answer::error);
    case REDIS_REPLY_INTEGER: c.integer = reply->integer; return end_answer(Answer::integer);
    case REDIS_REPLY_NIL: return end_answer(Answer::nil);
    case REDIS_REPLY_ARRAY: c.reply = std::move(reply); return end_answer(Answer::array);
    default: c.text = "a text that nobody asked for"; return end_answer(Answer::error);
  }
}

void Receiver::end_answer(Answer answer) noexcept {
  command().answer = answer;
  ++answered_;
}

// ---- Values

Status Receiver::begin_value(std::string_view length) {
  int64_t bytes = 0;
  if (!length.ends_with(line_end) ||
      !read_integer(length.substr(0, length.size() - line_end.size()), bytes) || bytes < -1 ||
      bytes > most_of_value)
    return no_answer("a value of no size, or of more than 512 MiB");
  is_empty_ = bytes == 0;
  if (bytes == -1) {
    end_answer(Answer::nil);
  } else if (bytes != value_bytes(command())) {
    skip_value("another size", bytes);
  } else if (command().has_header) {
    state_ = State::header;
  } else {
    begin_body();
  }
  return {};
}

void Receiver::skip_value(const char* why, int64_t bytes) noexcept {
  command().text = why;
  left_ = bytes;
  state_ = State::skip;
}

/// Nothing of a value that is another's reaches the page.
void Receiver::take_header() noexcept {
  Command& c = command();
  std::memcpy(&c.header, rest().data(), sizeof(c.header));
  begin_ += sizeof(c.header);
  if (const char* const why = fault_of(c.header, c.name, c.fingerprint, c.page_bytes);
      why != nullptr)
    return skip_value(why, c.bytes);
  begin_body();
}

void Receiver::begin_body() noexcept {
  extent_ = 0;
  in_extent_ = 0;
  left_ = command().bytes;
  crc_ = command().crc;
  state_ = State::body;
}

void Receiver::take_body(const char* from, size_t bytes) noexcept {
  auto count = static_cast<int64_t>(bytes);
  crc_ = extend_crc(crc_, reinterpret_cast<const std::byte*>(from), count);
  left_ -= count;
  while (count != 0) {
    const auto& extents = command().extents;
    const Extent& e = extents[extent_];
    if (extent_ + prefetched_extents < extents.size())
      prefetch_to_write(extents[extent_ + prefetched_extents]);
    const int64_t part = std::min(count, e.bytes - in_extent_);
    std::memcpy(e.data + in_extent_, from, static_cast<size_t>(part));
    from += part;
    count -= part;
    advance(part);
  }
}

Status Receiver::end_value() {
  if (!rest().starts_with(line_end)) return no_answer("a value that does not end where it should");
  begin_ += line_end.size();
  state_ = State::line;
  Command& c = command();
  const bool is_part = c.kind == Command::Kind::part;
  if (is_part && is_empty_) {  // as of a key that is not there
    c.text.clear();
    end_answer(Answer::nil);
    return {};
  }
  if (!is_part && c.text.empty() && crc_ != c.header.crc) c.text = "damaged bytes";
  if (is_part && c.text.empty()) {
    c.crc = crc_;
    if (c.landed != nullptr) c.landed->store(c.landed_then, std::memory_order_release);
  }
  end_answer(c.text.empty() ? Answer::page : Answer::corrupt);
  return {};
}

}  // namespace folio::inline v1::tier::redis
