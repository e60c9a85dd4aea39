// SPDX-License-Identifier: Apache-2.0
/// cli/parts/output_place.cpp: paths compared.
#include "parts/output_place.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <vector>

namespace folio::cli {
namespace {

namespace fs = std::filesystem;

bool is_same_file(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) return false;
  struct stat of_a = {}, of_b = {};
  const bool has_a = ::stat(a.c_str(), &of_a) == 0, has_b = ::stat(b.c_str(), &of_b) == 0;
  if (has_a != has_b) return false;
  if (!has_a) return place_of(a).path == place_of(b).path;
  return S_ISREG(of_a.st_mode) && of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

bool is_within(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first ==
         folder.end();
}

/// A directory that need not be there.
fs::path resolved(const std::string& directory) {
  std::error_code unknown;
  const fs::path path = fs::weakly_canonical(fs::absolute(directory, unknown), unknown);
  return path.has_filename() ? path : path.parent_path();
}

Status clash(const NamedPath& output, const std::string& what) {
  return {Errc::invalid_argument,
          fmt::format("{}: {} is {}, expected another file", output.name, output.path, what)};
}

Status check_directory(const NamedPath& output, const NamedPath& directory) {
  const Place place = place_of(output.path);
  if (directory.path.empty() || place.descriptor >= 0) return {};
  const fs::path folder = resolved(directory.path), path = place.path;
  if (!is_within(path, folder) && !is_within(folder, path)) return {};
  return {Errc::invalid_argument,
          fmt::format("{}: got '{}', where {} has its directory '{}', expected another place",
                      output.name, output.path, directory.name, directory.path)};
}

}  // namespace

Place place_of(const std::string& path) {
  constexpr int most_links = 40;  // as the system follows
  std::error_code unknown;        // what cannot be looked at cannot be opened either
  const fs::path descriptors = fs::canonical("/proc/self/fd", unknown);
  fs::path place = path;
  for (int links = 0; links < most_links; ++links) {
    const fs::path folder = resolved(place.has_parent_path() ? place.parent_path() : ".");
    const std::string name = place.filename();
    place = folder / name;
    if (!fs::is_symlink(place, unknown)) break;
    int descriptor = -1;
    if (folder == descriptors) {
      std::from_chars(name.data(), name.data() + name.size(), descriptor);
      return {place, descriptor};
    }
    place = folder / fs::read_symlink(place, unknown);
  }
  return {place, -1};
}

Status check_outputs(std::span<const NamedPath> outputs, std::span<const NamedPath> inputs,
                     std::span<const NamedPath> directories) {
  static const std::string out_path = "/dev/fd/1", error_path = "/dev/fd/2";
  std::vector<NamedPath> all = {{"standard output", out_path}, {"standard error", error_path}};
  const size_t num_streams = all.size();
  std::copy_if(outputs.begin(), outputs.end(), std::back_inserter(all),
               [](const NamedPath& output) { return !output.path.empty(); });
  for (size_t i = 0; i < all.size(); ++i) {
    const NamedPath& output = all[i];
    for (const NamedPath& input : inputs)
      if (is_same_file(output.path, input.path)) return clash(output, input.name);
    const bool is_stream = place_of(output.path).descriptor >= 0;
    for (size_t other = is_stream ? num_streams : 0; other < i; ++other)
      if (is_same_file(output.path, all[other].path))
        return clash(output, fmt::format("the file of {}", all[other].name));
    for (const NamedPath& directory : directories)
      if (Status s = check_directory(output, directory); !s.is_ok()) return s;
  }
  return {};
}

}  // namespace folio::cli
