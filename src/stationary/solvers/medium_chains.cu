// As `small_chains.cu`, for chains too large for registers: a block a chain, in shared memory.
//
// Compiled for every N with -DN, -DBLOCK (threads a block) and -DE (edges). Edges come as two
// index vectors.

constexpr unsigned ALL = 0xffffffffu;
constexpr int WARPS = BLOCK / 32;
constexpr double LOST = 0x1p-500, HUGE_ = 0x1p500;  // beyond them, leave the chain to others
constexpr double RARE_GROUND = 1e-3, CANCELLATION = 1e4;  // as in `_kernels`

__device__ __forceinline__ double sum(double x) {
  for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(ALL, x, d);
  return x;
}

__device__ __forceinline__ double largest(double x) {
  for (int d = 16; d > 0; d /= 2) x = fmax(x, __shfl_xor_sync(ALL, x, d));
  return x;
}

__device__ __forceinline__ int swapped(int s, int ground) {
  return s == 0 ? ground : s == ground ? 0 : s;
}

__device__ void load(double (&a)[N][N], const double* rates, const int* src, const int* dst,
                     int ground) {
  for (int e = threadIdx.x; e < N * N; e += BLOCK) a[e / N][e % N] = 0.0;
  __syncthreads();
  for (int e = threadIdx.x; e < E; e += BLOCK)
    a[swapped(src[e], ground)][swapped(dst[e], ground)] = rates[e];
  __syncthreads();
}

// Factor -Q = (I - U) L in place, inverses of the pivots on the diagonal; h becomes (I - U)^-1 h.
__device__ void eliminate(double (&a)[N][N], double* h) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int k = N - 1; k > 0; --k) {
    const double near = lane < k ? a[k][lane] : 0.0, far = lane + 32 < k ? a[k][lane + 32] : 0.0;
    const double inverse = 1.0 / sum(near + far), hk = h[k];
#pragma unroll 4
    for (int i = warp; i < k; i += WARPS) {
      const double f = a[i][k] * inverse;
      if (lane < k) a[i][lane] += f * near;
      if (lane + 32 < k) a[i][lane + 32] += f * far;
    }
    __syncwarp();
    for (int i = warp + WARPS * lane; i < k; i += BLOCK) {
      const double f = a[i][k] * inverse;
      a[i][k] = f, h[i] += f * hk;
    }
    if (threadIdx.x == 0) a[k][k] = inverse;
    __syncthreads();
  }
}

extern "C" __global__ void __launch_bounds__(BLOCK)
steady(const double* __restrict__ rates, const int* __restrict__ src, const int* __restrict__ dst,
       double* __restrict__ pi, int* __restrict__ failed, long long) {
  __shared__ double a[N][N], h[N];
  rates += (long long)blockIdx.x * E, pi += (long long)blockIdx.x * N;
  for (int s = threadIdx.x; s < N; s += BLOCK) h[s] = 0.0;
  load(a, rates, src, dst, 0);
  eliminate(a, h);
  if (threadIdx.x >= 32) return;
  double p[2] = {threadIdx.x == 0 ? 1.0 : 0.0, 0.0}, total = 0.0;
  bool good = true;
  for (int i = 0; i < N; ++i) {
    const double pi_i = __shfl_sync(ALL, i < 32 ? p[0] : p[1], i % 32);
    good = good && pi_i > LOST && pi_i < HUGE_;  // also where a pivot was zero: then it is NaN
    total += pi_i;
    for (int s = 0; s < 2; ++s) {
      const int j = threadIdx.x + 32 * s;
      if (j > i && j < N) p[s] += pi_i * a[i][j];
    }
  }
  if (!good) *failed = 1;
  for (int s = 0; s < 2; ++s)
    if (threadIdx.x + 32 * s < N) pi[threadIdx.x + 32 * s] = p[s] / total;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
adjoint(const double* __restrict__ rates, const int* __restrict__ src,
        const int* __restrict__ dst, const double* __restrict__ pi, const double* __restrict__ g,
        double* __restrict__ out, int*, long long) {
  __shared__ double a[N][N], h[N], v[N], p[N];
  __shared__ bool fine;
  const int lane = threadIdx.x % 32;
  rates += (long long)blockIdx.x * E, out += (long long)blockIdx.x * E;
  pi += (long long)blockIdx.x * N, g += (long long)blockIdx.x * N;

  int ground = 0;
  for (int t = 1; t < N; ++t)
    if (pi[t] > pi[ground]) ground = t;
  if (pi[0] >= RARE_GROUND * pi[ground]) ground = 0;
  for (int s = threadIdx.x; s < N; s += BLOCK) {
    double total = 0.0;
    for (int t = 0; t < N; ++t) total += pi[t] * (g[s] - g[t]);  // uncancelled
    h[swapped(s, ground)] = total, p[swapped(s, ground)] = pi[s], v[s] = 0.0;
  }
  load(a, rates, src, dst, ground);
  double residual = 0.0, flow = 0.0, size = 0.0;
  if (threadIdx.x < 32)
    for (int i = 0; i < N; ++i) {
      residual = fmax(residual, p[i] * fabs(h[i]));
      for (int j = lane; j < N; j += 32) flow = fmax(flow, p[i] * a[i][j]);
    }
  __syncthreads();
  eliminate(a, h);

  if (threadIdx.x < 32) {
    for (int k = 1; k < N; ++k) {
      double w = 0.0;
      for (int j = lane; j < k; j += 32) w += a[k][j] * v[j];
      w = (h[k] + sum(w)) * a[k][k];
      size = fmax(size, fabs(w));
      if (lane == 0) v[k] = w;
      __syncwarp();
    }
    // See `small_chains.cu`.
    const bool enough = largest(flow) * size * (N - 1) <= CANCELLATION * residual;
    if (lane == 0) fine = enough;
  }
  __syncthreads();
  if (fine) {
    for (int e = threadIdx.x; e < E; e += BLOCK) {
      const int i = swapped(src[e], ground), j = swapped(dst[e], ground);
      out[e] = p[i] * (v[j] - v[i]);
    }
    return;
  }
  if (threadIdx.x == 0) a[0][0] = 0.0;  // v_i - v_j of all pairs, each built up from smaller ones
  __syncthreads();
  for (int k = 1; k < N; ++k) {
    double difference = h[k];
    if (threadIdx.x < k)
      for (int m = 0; m < k; ++m) difference += a[k][m] * a[m][threadIdx.x];
    difference *= a[k][k];
    __syncthreads();
    if (threadIdx.x < k) a[k][threadIdx.x] = difference, a[threadIdx.x][k] = -difference;
    if (threadIdx.x == k) a[k][k] = 0.0;
    __syncthreads();
  }
  for (int e = threadIdx.x; e < E; e += BLOCK) {
    const int i = swapped(src[e], ground), j = swapped(dst[e], ground);
    out[e] = p[i] * a[j][i];
  }
}
