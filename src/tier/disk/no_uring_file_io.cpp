// SPDX-License-Identifier: Apache-2.0
/// tier/disk/no_uring_file_io.cpp: where there is no liburing.
#include "tier/disk/file_io.h"

namespace folio::inline v1::tier {

std::unique_ptr<FileIo> make_uring_file_io(uint32_t, int64_t) { return nullptr; }

}  // namespace folio::inline v1::tier
