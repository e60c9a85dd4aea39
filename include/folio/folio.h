// SPDX-License-Identifier: Apache-2.0
/// folio/folio.h: what an inference engine needs, in one include.
///
///   load    make_planes, PagePool::create, Attention::create
///   step    PagePool::reserve, Batch, plan; MaskReader where the mask comes as a matrix
///   layer   rotate, append, attend; merge where keys come in parts, select_keys where an indexer
///           chooses them
///
/// Those who write kernels of their own include folio/kernels.h, those who write in C
/// folio/c/folio.h.
#pragma once

#include "folio/attention/append.h"
#include "folio/attention/attend.h"
#include "folio/attention/mask.h"
#include "folio/attention/mask_matrix.h"
#include "folio/attention/merge.h"
#include "folio/attention/plan.h"
#include "folio/attention/plan_fingerprint.h"
#include "folio/attention/problem.h"
#include "folio/attention/rotate.h"
#include "folio/cache/batch.h"
#include "folio/cache/copy.h"
#include "folio/cache/page_table.h"
#include "folio/cache/page_table_builder.h"
#include "folio/cache/paged_kv_view.h"
#include "folio/cache/planes.h"
#include "folio/core/any_tensor.h"
#include "folio/core/buffer.h"
#include "folio/core/dtype.h"
#include "folio/core/execution.h"
#include "folio/core/status.h"
#include "folio/pool/page_pool.h"
#include "folio/sparse/attend_selected.h"
#include "folio/sparse/index.h"
#include "folio/sparse/select.h"
