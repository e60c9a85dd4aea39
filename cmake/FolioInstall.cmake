# SPDX-License-Identifier: Apache-2.0
# The installed package: find_package(folio) gives folio::folio.
