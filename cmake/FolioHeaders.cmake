# SPDX-License-Identifier: Apache-2.0
# Every public header, by folder. A lint compares this list with include/.
set(FOLIO_PUBLIC_HEADERS
    folio/core/any_tensor.h
    folio/core/dtype.h
    folio/core/execution.h
    folio/core/export.h
    folio/core/host_device.h
    folio/core/status.h
    folio/core/tensor_view.h
    folio/core/vec.h)
