// SPDX-License-Identifier: Apache-2.0
/// cli/parts/output_place.h: where outputs go, and what must not be there.
#pragma once

#include <span>
#include <string>

#include "folio/core/status.h"

namespace folio::cli {

/// What a path names when its last links are followed, whether that is there or not.
struct Place {
  std::string path;
  int descriptor = -1;  ///< that the path names, as /dev/stdout and /dev/fd/3 do; -1: none
};
Place place_of(const std::string& path);

/// A path, and whose it is: "--json", "the trace". Empty path: none.
struct NamedPath {
  const char* name;
  const std::string& path;
};

/// Whether outputs, standard output and standard error are files of their own, by whatever names
/// and links: none of them read, none in or above a directory that is somebody's. Terminals, pipes
/// and devices may be all of them. Errors: invalid_argument with both names
Status check_outputs(std::span<const NamedPath> outputs, std::span<const NamedPath> inputs,
                     std::span<const NamedPath> directories);

}  // namespace folio::cli
