# SPDX-License-Identifier: Apache-2.0
"""folio_kv: a paged KV cache and attention over it, for arrays of any library that speaks DLPack.

Load: ``KVCache`` or ``Pages`` (``Format``), ``Kind``, ``PagePool``. Step: ``Step``. Layer:
``step(kind, pages, q, k, v)``. Below it stands the thin face, the C++ calls one by one:
``Attention``, ``plan``, ``attend``, ``append``, ``rotate``, ``merge``, ``copy_pages``,
``copy_slots``, ``summarise``.
"""

from folio_kv._core import (
    Admission,
    Attention,
    Batch,
    CompanionContent,
    Format,
    Kind,
    KVCache,
    PageContent,
    PagePool,
    Pages,
    Plan,
    PoolEvent,
    PoolReader,
    Rope,
    SequenceId,
    Step,
    StepTicket,
    append,
    attend,
    copy_pages,
    copy_slots,
    get_executor,
    get_num_threads,
    kernels,
    merge,
    plan,
    rotate,
    set_executor,
    set_num_threads,
    summarise,
    why_not,
)
from folio_kv._core import version as __version__
from folio_kv.errors import Error, OutOfPages, Unsupported
from folio_kv.names import Sha256Names

__all__ = [
    "Admission",
    "Attention",
    "Batch",
    "CompanionContent",
    "Error",
    "Format",
    "KVCache",
    "Kind",
    "OutOfPages",
    "PageContent",
    "PagePool",
    "PoolEvent",
    "PoolReader",
    "Pages",
    "Plan",
    "Rope",
    "SequenceId",
    "Sha256Names",
    "Step",
    "StepTicket",
    "Unsupported",
    "__version__",
    "append",
    "attend",
    "copy_pages",
    "copy_slots",
    "get_executor",
    "get_num_threads",
    "kernels",
    "merge",
    "plan",
    "rotate",
    "set_executor",
    "set_num_threads",
    "summarise",
    "why_not",
]
