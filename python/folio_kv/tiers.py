# SPDX-License-Identifier: Apache-2.0
"""folio_kv.tiers: places for pages beyond a pool's memory, by name: the host's memory, a directory,
a Redis or Valkey server, another process. An engine with blocks of its own uses a ``Tier`` as it is
(``PageArrays`` says where its pages are); a ``CacheManager`` puts tiers below a ``PagePool``.
``PageServer`` and ``PoolPageServer`` lend pages to other processes, ``HandoverSender`` and
``HandoverReceiver`` hand whole sequences over, and ``EventPublisher`` tells routers what is where.
"""

try:
    from folio_kv._core import (
        ArrivingSequence,
        CacheManager,
        DiskTier,
        EventIndex,
        EventPublisher,
        EventSubscriber,
        HandoverEnd,
        HandoverReceiver,
        HandoverSender,
        HostTier,
        NixlTransport,
        PageArrays,
        PageServer,
        PeerTier,
        PoolObserver,
        PoolPageServer,
        ReceivedSequence,
        RedisTier,
        SharedMemoryTransport,
        Tier,
        TierBelow,
        TieredAdmission,
        TierObserver,
        Transfer,
        Transport,
        UcxTransport,
        below,
        record_bytes,
    )
except ImportError as error:
    raise ImportError(
        "folio_kv.tiers: this folio_kv is built without tiers, for want of ISA-L (Debian: libisal-dev)"
    ) from error

__all__ = [
    "ArrivingSequence",
    "CacheManager",
    "DiskTier",
    "EventIndex",
    "EventPublisher",
    "EventSubscriber",
    "HandoverEnd",
    "HandoverReceiver",
    "HandoverSender",
    "HostTier",
    "NixlTransport",
    "PageArrays",
    "PageServer",
    "PeerTier",
    "PoolObserver",
    "PoolPageServer",
    "ReceivedSequence",
    "RedisTier",
    "SharedMemoryTransport",
    "Tier",
    "TierBelow",
    "TierObserver",
    "TieredAdmission",
    "Transfer",
    "Transport",
    "UcxTransport",
    "below",
    "record_bytes",
]
