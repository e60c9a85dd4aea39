// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/spilling.cu: a kernel with more values than registers and no tensor map;
/// check_kernels.py is tested on it.
__global__ void __launch_bounds__(1024, 2) spilling(int* p, int n) {
  int values[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) values[i] = p[i * n];
  int sum = 0;
#pragma unroll
  for (int i = 0; i < 64; ++i) sum += values[i] * p[i + n * 7];
  __syncthreads();
  p[0] = sum;
#pragma unroll
  for (int i = 0; i < 64; ++i) p[i * 3 + n] = values[i] ^ sum;
}
