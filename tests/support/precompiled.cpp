// SPDX-License-Identifier: Apache-2.0
/// tests/support/precompiled.cpp: the source that precompiled.h is compiled with.
