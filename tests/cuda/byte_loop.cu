// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/byte_loop.cu: a kernel that copies bytes one by one, which check_ptx.py is to find.
__global__ void byte_loop(const unsigned char* from, unsigned char* to, int count) {
#pragma unroll 1
  for (int i = 0; i < count; ++i) to[i] = from[i];
}
