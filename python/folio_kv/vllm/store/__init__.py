# SPDX-License-Identifier: Apache-2.0
"""What is behind FolioConnector: vLLM's blocks in folio's tiers, by vLLM's own block hashes."""
