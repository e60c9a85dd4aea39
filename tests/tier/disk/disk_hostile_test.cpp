// SPDX-License-Identifier: Apache-2.0
/// tests/tier/disk/disk_hostile_test.cpp: directories that no tier has written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

#include <cstring>
#include <limits>
#include <set>

#include "folio/tier/disk_directory.h"
#include "tier/disk/disk_fixture.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;
using tier::File;

/// A socket of that name.
File bound_socket(const std::string& path) {
  File socket(::socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  path.copy(at.sun_path, sizeof(at.sun_path) - 1);
  EXPECT_EQ(bind(socket.get(), reinterpret_cast<sockaddr*>(&at), sizeof(at)), 0) << path;
  return socket;
}

class DiskHostile : public DiskFixture {
 protected:
  /// A directory with one good page, name 1.
  DiskHostile() {
    page_.fill(1);
    EXPECT_EQ(store(*open().value(), name_of(1), page_), TierOutcome::done);
    const std::string format = content_of(path_ + "/format");
    std::memcpy(number_.bytes.data(), format.data() + format.size() - 32, 32);
  }

  /// A record as a tier would have written it there, but for what `change` does to its headers.
  template <class Change>
  std::string record(uint64_t segment, int64_t offset, uint32_t name, const std::string& bytes,
                     const Change& change) {
    const auto* const payload = reinterpret_cast<const std::byte*>(bytes.data());
    const tier::RecordPlace place{number_, segment, offset};
    tier::PayloadHeader page = tier::payload_header(
        name_of(name), {}, std::ssize(bytes), tier::extend_crc(0, payload, std::ssize(bytes)));
    change(page);
    page = with_crc(page);
    const tier::DiskHeader header = tier::record_header(page, place, 0);
    std::string text(static_cast<size_t>(tier::record_bytes(std::ssize(bytes))), '\0');
    std::memcpy(text.data(), &header, sizeof(header));
    std::memcpy(text.data() + sizeof(header), bytes.data(), bytes.size());
    tier::put_end_mark(reinterpret_cast<std::byte*>(text.data()), std::ssize(text), place);
    return text;
  }

  void expect_the_good_page_alone() {
    const auto tier = open().value();
    PageMemory back({5000});
    EXPECT_EQ(load(*tier, name_of(1), back), TierOutcome::done);
    EXPECT_EQ(back.memory(), page_.memory());
    for (uint32_t name = 2; name < 20; ++name)
      EXPECT_NE(load(*tier, name_of(name), back), TierOutcome::done);
    EXPECT_EQ(store(*tier, name_of(100), page_), TierOutcome::done);
    EXPECT_EQ(load(*tier, name_of(100), back), TierOutcome::done);
  }

  static tier::PayloadHeader with_crc(tier::PayloadHeader page) {
    page.header_crc = 0;
    page.header_crc = tier::extend_crc(0, reinterpret_cast<const std::byte*>(&page), sizeof(page));
    return page;
  }

  PageMemory page_{{5000}};
  Digest256 number_;
};

TEST_F(DiskHostile, sizes_that_overflow_are_no_records) {
  constexpr int64_t largest = std::numeric_limits<int64_t>::max();
  std::string content;
  for (const int64_t size :
       {largest, largest - 191, largest - 4096, std::numeric_limits<int64_t>::min(), int64_t{-1},
        (int64_t{1} << 40) + 1, int64_t{1} << 40, int64_t{100'000}})
    content += record(9, std::ssize(content), 2, std::string(5000, 'x'),
                      [&](tier::PayloadHeader& page) { page.bytes = size; });
  write_content(path_ + "/9.pages", content);
  expect_the_good_page_alone();
}

TEST_F(DiskHostile, records_of_other_places_and_versions_are_none) {
  const auto nothing = [](tier::PayloadHeader&) {};
  const std::string bytes(5000, 'x');
  std::string content = record(8, 0, 2, bytes, nothing);  // another segment's
  content += record(9, 0, 3, bytes, nothing);             // another offset's
  content += record(9, std::numeric_limits<int64_t>::min(), 4, bytes, nothing);  // 2^63
  number_.bytes[7] ^= 1;
  content += record(9, std::ssize(content), 5, bytes, nothing);  // another directory's
  number_.bytes[7] ^= 1;
  content +=
      record(9, std::ssize(content), 6, bytes, [](tier::PayloadHeader& page) { page.version = 2; });
  content +=
      record(9, std::ssize(content), 7, bytes, [](tier::PayloadHeader& page) { page.magic ^= 1; });
  write_content(path_ + "/9.pages", content);
  expect_the_good_page_alone();
}

TEST_F(DiskHostile, of_two_records_of_a_name_one_that_is_whole_counts) {
  const auto nothing = [](tier::PayloadHeader&) {};
  std::string content;
  for (int i = 0; i < 5; ++i) content += record(9, std::ssize(content), 1, "short", nothing);
  for (int i = 0; i < 5; ++i)
    content += record(9, std::ssize(content), 1, std::string(5000, 'x'),
                      [](tier::PayloadHeader& page) { page.crc ^= 1; });
  write_content(path_ + "/9.pages", content);
  const auto tier = open().value();
  PageMemory back({5000});
  const TierOutcome outcome = load(*tier, name_of(1), back);
  EXPECT_TRUE(outcome == TierOutcome::corrupt || outcome == TierOutcome::done);
  if (outcome == TierOutcome::done) {
    EXPECT_EQ(back.memory(), page_.memory());
  }
  EXPECT_EQ(tier->figures().pages, outcome == TierOutcome::done ? 1 : 0);
}

/// As when a process dies between a copy and the end of what was copied.
TEST_F(DiskHostile, a_copy_that_is_not_whole_does_not_hide_the_page) {
  std::string torn =
      record(9, 0, 1, std::string(5000, 'x'), [](tier::PayloadHeader& page) { page.crc ^= 1; });
  write_content(path_ + "/9.pages", torn);
  for (int turn = 0; turn < 2; ++turn) {
    const auto tier = open().value();
    PageMemory back({5000});
    EXPECT_EQ(load(*tier, name_of(1), back), TierOutcome::done);
    EXPECT_EQ(back.memory(), page_.memory());
  }
}

TEST_F(DiskHostile, foreign_files_are_left_alone) {
  for (const char* const name : {"0.pages", "007.pages", "-1.pages", "18446744073709551615.pages",
                                 "9223372036854775808.pages", "x.pages", ".pages", "1.pages.bak",
                                 "notes", "99999999999999999999999999.pages"})
    write_content(path_ + "/" + name, std::string(10'000, 'f'));
  fs::create_directory(path_ + "/2.pages");
  fs::create_symlink("/etc/passwd", path_ + "/3.pages");
  ASSERT_EQ(mkfifo((path_ + "/4.pages").c_str(), 0644), 0);
  expect_the_good_page_alone();
  EXPECT_TRUE(fs::is_directory(path_ + "/2.pages"));
  EXPECT_TRUE(fs::is_symlink(path_ + "/3.pages"));
  EXPECT_EQ(content_of(path_ + "/notes"), std::string(10'000, 'f'));
  EXPECT_EQ(content_of(path_ + "/007.pages"), std::string(10'000, 'f'));
}

/// The last number that a segment may have: those behind it would not be found again.
TEST_F(DiskHostile, a_file_with_the_last_number_leaves_the_others) {
  const std::string last = path_ + "/" + std::to_string(tier::most_segments) + ".pages";
  write_content(last, "x");
  PageMemory large({900'000});
  {
    const auto tier = open().value();
    for (uint32_t i = 10; i < 15; ++i)
      EXPECT_EQ(store(*tier, name_of(i), large), TierOutcome::done);
  }
  {
    const auto tier = open().value();
    for (uint32_t i = 10; i < 15; ++i) EXPECT_EQ(load(*tier, name_of(i), large), TierOutcome::done);
  }
  ASSERT_TRUE(compact_disk_directory(path_));
  expect_the_good_page_alone();
}

/// What stands there under the name of a segment, whatever it is, is not waited for, changed or
/// taken away, by tier or tool.
TEST_F(DiskHostile, what_is_no_file_is_left_alone_by_all) {
  const auto at = [&](uint64_t number) { return path_ + "/" + std::to_string(number) + ".pages"; };
  const std::string outside = folder_.path() + ".outside";
  write_content(outside, std::string(10'000, 'o'));
  fs::create_directory(at(2));
  write_content(at(2) + "/1.pages", "x");
  ASSERT_EQ(mkfifo(at(3).c_str(), 0644), 0);
  fs::create_symlink(outside, at(4));
  fs::create_symlink("nowhere", at(5));
  fs::create_symlink(at(6), at(6));
  const File socket = bound_socket(at(7));
  const bool has_device = mknod(at(8).c_str(), S_IFCHR | 0666, makedev(1, 5)) == 0;  // zeros
  for (const char* const name : {"9.pages.part", "format.new", "07.pages", "+7.pages", " 7.pages"})
    write_content(path_ + "/" + name, std::string(10'000, 'f'));
  const auto names = [&] {
    std::set<std::string> all;
    for (const auto& entry : fs::directory_iterator(path_)) all.insert(entry.path().filename());
    return all;
  };
  const std::set<std::string> before = names();
  const DiskCheck check = check_disk_directory(path_).value();
  EXPECT_TRUE(check.is_sound());
  EXPECT_EQ(check.pages, 1);
  EXPECT_EQ(list_disk_directory(path_).value().segments.size(), 1U);
  {
    PageMemory large({900'000});
    const auto tier = open(4 * mib).value();
    for (uint32_t i = 10; i < 30; ++i)  // more than the bound: files go, and come
      ASSERT_EQ(store(*tier, name_of(i), large), TierOutcome::done);
    EXPECT_TRUE(tier->last_fault().is_ok());
  }
  ASSERT_TRUE(compact_disk_directory(path_));
  for (const std::string& name : before)
    EXPECT_TRUE(name == "1.pages" || names().contains(name)) << name;
  EXPECT_EQ(content_of(outside), std::string(10'000, 'o'));
  EXPECT_EQ(content_of(path_ + "/format.new"), std::string(10'000, 'f'));
  EXPECT_TRUE(has_device || geteuid() != 0);
  fs::remove(outside);
}

/// A new directory's format is not written over, or through, what stands there.
TEST_F(DiskHostile, a_link_is_not_followed_to_write) {
  const std::string outside = folder_.path() + ".outside";
  write_content(outside, "mine");
  for (const char* const name : {"format.new", "format", "lock"}) {
    fs::remove_all(path_);
    fs::create_directory(path_);
    fs::create_symlink(outside, path_ + "/" + name);
    EXPECT_EQ(open().has_value(), std::string(name) == "format.new") << name;
    EXPECT_EQ(content_of(outside), "mine") << name;
    EXPECT_TRUE(fs::is_symlink(path_ + "/" + name)) << name;
  }
  fs::remove(outside);
  fs::remove_all(path_);
  fs::create_directory(path_);
  fs::create_symlink(outside, path_ + "/format");
  EXPECT_FALSE(open().has_value()) << "nor where it goes nowhere";
  EXPECT_FALSE(fs::exists(outside));
}

/// As a pipe that nobody writes into: it would be waited for.
TEST_F(DiskHostile, a_format_or_lock_that_is_no_file_is_refused_at_once) {
  const auto refused = [&](const char* name) {
    for (const Status& s : {open().error(), list_disk_directory(path_).error()}) {
      EXPECT_THAT(s.message(), HasSubstr(path_ + "/" + name));
      EXPECT_EQ(s.code(), Errc::io);
    }
  };
  for (const char* const name : {"lock", "format"}) {
    const std::string path = path_ + "/" + name, kept = content_of(path);
    fs::remove(path);
    ASSERT_EQ(mkfifo(path.c_str(), 0644), 0);
    refused(name);
    fs::remove(path);
    fs::create_directory(path);
    refused(name);
    fs::remove(path);
    {
      const File socket = bound_socket(path);
      refused(name);
    }
    fs::remove(path);
    write_content(path, kept);
  }
  expect_the_good_page_alone();
}

/// When the directory was listed it was a file.
TEST_F(DiskHostile, what_has_become_another_thing_is_not_opened) {
  const auto io = tier::make_file_io(1, 0);
  const auto files = tier::Files::open(path_, tier::Files::If::there);
  fs::remove(path_ + "/1.pages");
  ASSERT_EQ(mkfifo((path_ + "/1.pages").c_str(), 0644), 0);
  const auto opened = files->open_segment(1, tier::Files::Open::existing, *io);
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message(), HasSubstr("1.pages is no regular file"));
}

TEST_F(DiskHostile, files_larger_than_the_bound_go_unread) {
  for (const int n : {50, 51}) {
    const std::string path = path_ + "/" + std::to_string(n) + ".pages";
    write_content(path, "x");
    ASSERT_EQ(truncate(path.c_str(), int64_t{1} << 43), 0) << "sparse";
  }
  const auto tier = open().value();
  EXPECT_LE(bytes_of_segments(), 64 * mib);
  PageMemory back({5000});
  EXPECT_EQ(load(*tier, name_of(1), back), TierOutcome::done);
}

TEST_F(DiskHostile, random_bytes_in_place_of_segments_are_no_pages) {
  Rng rng(test_seed());
  const std::string whole = content_of(segments().at(0));
  for (int round = 0; round < 30; ++round) {
    std::string content = whole;
    content.append(static_cast<size_t>(rng.between(0, 50'000)), '\0');
    for (int64_t i = rng.between(0, 20); i > 0; --i) {
      const size_t at = static_cast<size_t>(rng.between(0, std::ssize(content) - 300));
      for (int64_t b = rng.between(1, 300); b > 0; --b)
        content[at + static_cast<size_t>(b) - 1] = static_cast<char>(rng.between(0, 255));
    }
    write_content(path_ + "/1.pages", content);
    const auto tier = open().value();
    PageMemory back({5000});
    if (load(*tier, name_of(1), back) == TierOutcome::done) {
      EXPECT_EQ(back.memory(), page_.memory());
    }
  }
}

// ---- Formats

TEST_F(DiskHostile, formats_are_refused_by_what_they_are) {
  const std::string number(32, 'x');
  const auto refused = [&](const std::string& content, Errc code, const char* words) {
    write_content(path_ + "/format", content);
    const auto tier = open();
    ASSERT_FALSE(tier) << content;
    EXPECT_EQ(tier.error().code(), code) << content;
    EXPECT_THAT(tier.error().message(), HasSubstr(words));
    EXPECT_THAT(tier.error().message(), HasSubstr(path_ + "/format"));
  };
  refused("folio disk tier 2\n" + number, Errc::unsupported, "is of version 2, expected 1");
  refused("folio disk tier 0\n" + number, Errc::unsupported, "remove the directory");
  refused("folio disk tier 1\n" + number + "x", Errc::invalid_argument, "is not what a disk tier");
  for (const std::string& text :
       {std::string(), std::string("folio disk tier"), std::string("folio disk tier "),
        "folio disk tier 1" + number, "folio disk tier x\n" + number,
        "folio disk tier 99999999999999999999\n" + number, std::string(10'000, 'x')})
    refused(text, Errc::invalid_argument, "is not what a disk tier writes");
}

TEST_F(DiskHostile, a_directory_that_looks_like_a_tiers_but_is_not_is_refused) {
  fs::remove(path_ + "/format");
  const auto tier = open();
  ASSERT_FALSE(tier);
  EXPECT_EQ(tier.error().code(), Errc::invalid_argument);
  EXPECT_THAT(tier.error().message(), HasSubstr("files with the names of its own"));
  EXPECT_EQ(segments().size(), 1U);
}

}  // namespace
}  // namespace folio::test
