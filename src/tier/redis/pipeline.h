// SPDX-License-Identifier: Apache-2.0
/// tier/redis/pipeline.h: the two directions of a connection: commands that go out, answers that
/// come in.
///
/// Bytes of pages are not copied, unless their extents are short: they go from extents to the
/// socket, and from the socket to extents. All other answers are read by hiredis.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "tier/redis/command.h"
#include "tier/redis/stream.h"

namespace folio::inline v1::tier::redis {

class Sender {
 public:
  Sender(Stream& stream, std::span<Command* const> commands) noexcept
      : stream_(stream), commands_(commands) {}
  /// Sends what goes now of the first `last` commands; bytes. Errors: io
  [[nodiscard]] Result<size_t> push(size_t last);
  /// Whether nothing of these is left to send.
  [[nodiscard]] bool is_done(size_t last) const noexcept {
    return runs_.empty() && next_ >= std::min(last, commands_.size());
  }

 private:
  /// Runs of the next commands; checksums are computed here, while others travel.
  void prepare(size_t last);
  void add(const void* data, size_t bytes);
  void add_page(Command& command);

  Stream& stream_;
  std::span<Command* const> commands_;
  size_t next_ = 0;          ///< command
  std::vector<iovec> runs_;  ///< that have not been sent, from `first_` on
  size_t first_ = 0;
  std::vector<std::vector<std::byte>> copies_;  ///< of pages with short extents, in `runs_`
};

struct ReaderFreer {
  void operator()(redisReader* reader) const noexcept { redisReaderFree(reader); }
};

class Receiver {
 public:
  explicit Receiver(Stream& stream);

  /// Answers to these come from now on.
  void begin(std::span<Command* const> commands) noexcept {
    commands_ = commands;
    answered_ = 0;
  }
  [[nodiscard]] bool is_done() const noexcept { return answered_ == commands_.size(); }
  [[nodiscard]] size_t answered() const noexcept { return answered_; }
  /// Whether bytes have come of which nobody knows what they answer.
  [[nodiscard]] bool has_rest() const noexcept {
    return state_ != State::line || end_ != begin_ || reader_has_part_;
  }
  /// Whether the last `pull` got all that it had room for.
  [[nodiscard]] bool may_have_more() const noexcept { return may_have_more_; }
  /// Receives what is there; bytes. Errors: io, also for bytes that are no answer
  [[nodiscard]] Result<size_t> pull();

 private:
  enum class State : uint8_t { line, header, body, body_end, skip };

  [[nodiscard]] Command& command() const noexcept { return *commands_[answered_]; }
  [[nodiscard]] std::string_view rest() const noexcept {
    return {buffer_.data() + begin_, end_ - begin_};
  }
  /// Where the next bytes go: a page's or those that are skipped, then the buffer.
  void list_targets();
  /// Of the body, in the extents already.
  void note_body(size_t bytes) noexcept;
  /// Of the body, somewhere else.
  void take_body(const char* from, size_t bytes) noexcept;
  /// Goes on with what is in the buffer; whether there was enough of it to do so.
  [[nodiscard]] Result<bool> take();
  [[nodiscard]] Result<bool> take_line();
  [[nodiscard]] Status begin_value(std::string_view length);
  [[nodiscard]] Status read_by_hiredis(std::string_view line);
  void advance(int64_t bytes) noexcept;  ///< within an extent
  void take_header() noexcept;
  void begin_body() noexcept;
  void skip_value(const char* why, int64_t bytes) noexcept;
  [[nodiscard]] Status end_value();
  void end_answer(Answer answer) noexcept;
  void take_reply(Reply reply);

  Stream& stream_;
  std::span<Command* const> commands_;
  size_t answered_ = 0;
  State state_ = State::line;
  std::vector<char> buffer_;  ///< bytes that have come and are not taken: begin_ .. end_
  size_t begin_ = 0, end_ = 0;
  std::unique_ptr<redisReader, ReaderFreer> reader_;
  size_t reader_bytes_ = 0;  ///< of the answer that it reads
  bool reader_has_part_ = false;
  // Of a value.
  size_t extent_ = 0;
  int64_t in_extent_ = 0;  ///< bytes of it that have come
  int64_t left_ = 0;       ///< bytes that have not, in all
  uint32_t crc_ = 0;
  bool is_empty_ = false;
  std::vector<char> aside_;  ///< what is skipped, or goes to short extents
  std::vector<iovec> targets_;
  bool may_have_more_ = false;
};

}  // namespace folio::inline v1::tier::redis
