# SPDX-License-Identifier: Apache-2.0
"""What is raised before anything runs."""


class BadCache(ValueError):
    """What is wrong with a prompt cache's place or size, or with a cache's dtype; one line."""
