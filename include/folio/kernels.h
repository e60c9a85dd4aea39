// SPDX-License-Identifier: Apache-2.0
/// folio/kernels.h: what the author of a kernel needs, in one include: caches as types with their
/// sizes, operands, `KVBuffer`, tiles as tensor maps. For the host and for devices.
///
/// The engine's side is folio/folio.h; emulators for tests of loaders stand in folio/testing/, each
/// by itself; folio/tma/encode.h hands a tensor map to the driver.
#pragma once

#include "folio/attention/kv_buffer.h"
#include "folio/attention/operand.h"
#include "folio/attention/visible_keys.h"
#include "folio/cache/cache_tables.h"
#include "folio/cache/continuous_kv_cache.h"
#include "folio/cache/kv_cache.h"
#include "folio/cache/paged_kv_cache.h"
#include "folio/cache/paged_kv_cache_collection.h"
#include "folio/cache/row_indices.h"
#include "folio/cache/static_params.h"
#include "folio/cache/static_view.h"
#include "folio/cache/tma_plane.h"
#include "folio/core/dtype.h"
#include "folio/core/element.h"
#include "folio/core/host_device.h"
#include "folio/core/tensor_view.h"
#include "folio/core/vec.h"
#include "folio/core/visit_dtype.h"
#include "folio/tma/gather4.h"
#include "folio/tma/page_tile.h"
#include "folio/tma/ragged_tile.h"
#include "folio/tma/row_tiles.h"
#include "folio/tma/swizzle.h"
#include "folio/tma/tensor_map.h"
#include "folio/tma/tile.h"
