// GTH elimination of many small chains, and the adjoint, with the mathematics of `_kernels`.
//
// A chain of N states belongs to G lanes of a warp. Lane l keeps the columns l, l + G, l + 2 G, ...
// of its matrix in registers, S of them, so that memory sees each rate once. Several chains share
// a warp: one shuffle then serves them all, and shuffles are what bounds the speed. Loops are
// unrolled to the end, since an index that is not a constant would send `a` to local memory.
//
// Compiled for every N with -DN, -DG, -DE (edges) and -DDENSE (every pair an edge, row by row).

constexpr unsigned ALL = 0xffffffffu;
constexpr int S = (N + G - 1) / G;
constexpr double LOST = 0x1p-500, HUGE_ = 0x1p500;  // beyond them, leave the chain to others
constexpr double RARE_GROUND = 1e-3, CANCELLATION = 1e4;  // as in `_kernels`

__device__ __forceinline__ double from(double x, int lane) { return __shfl_sync(ALL, x, lane, G); }

__device__ __forceinline__ double sum(double x) {
#pragma unroll
  for (int d = G / 2; d > 0; d /= 2) x += __shfl_xor_sync(ALL, x, d, G);
  return x;
}

__device__ __forceinline__ double largest(double x) {
#pragma unroll
  for (int d = G / 2; d > 0; d /= 2) x = fmax(x, __shfl_xor_sync(ALL, x, d, G));
  return x;
}

// Place of state s in the elimination when `ground` changes places with state 0.
__device__ __forceinline__ int swapped(int s, int ground) {
  return s == 0 ? ground : s == ground ? 0 : s;
}

// Hide from the compiler what it knows, or it would keep indices and probabilities in registers
// from the loads to the stores, and spill the matrix.
__device__ __forceinline__ void forget(int& ground, const double* __restrict__& pi) {
  asm volatile("" : "+r"(ground), "+l"(pi)::"memory");
}

// Number of the edge from i to j, or -1.
__device__ __forceinline__ int edge(const int* place, int i, int j) {
  if (j >= N || i == j) return -1;
#if DENSE
  return i * (N - 1) + j - (j > i);
#else
  return place[i * N + j];
#endif
}

// Factor -Q = (I - U) L in place: U above the diagonal, -L below it, and, with ADJOINT, the
// inverses of the pivots on it and (I - U)^-1 h in h.
template <bool ADJOINT>
__device__ __forceinline__ void eliminate(double (&a)[N][S], double (&h)[S], int l) {
#pragma unroll
  for (int k = N - 1; k > 0; --k) {
    const int sk = k / G, lk = k % G;
    double row[S], pivot = 0.0;
#pragma unroll
    for (int s = 0; s < S; ++s) {
      row[s] = s < sk || (s == sk && l < lk) ? a[k][s] : 0.0;
      if (s <= sk) pivot += row[s];
    }
    const double inverse = 1.0 / sum(pivot);
    const double hk = ADJOINT ? from(h[sk], lk) : 0.0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (i < k) {
        const double f = from(a[i][sk], lk) * inverse;
        if (l == lk) a[i][sk] = f;
#pragma unroll
        for (int s = 0; s < S; ++s)
          if (s <= sk) a[i][s] += f * row[s];
        if (ADJOINT && l == i % G) h[i / G] += f * hk;
      }
    }
    if (ADJOINT && l == lk) a[k][sk] = inverse;
  }
}

extern "C" __global__ void __launch_bounds__(BLOCK)
steady(const double* __restrict__ rates, const int* __restrict__ place, double* __restrict__ pi,
       int* __restrict__ failed, long long count) {
  const int l = threadIdx.x % G;
  const long long chain = ((long long)blockIdx.x * BLOCK + threadIdx.x) / G;
  const long long b = chain < count ? chain : count - 1;  // every lane takes part in the shuffles
  rates += b * E;
  double a[N][S], p[S];
#pragma unroll
  for (int i = 0; i < N; ++i)
#pragma unroll
    for (int s = 0; s < S; ++s) {
      const int e = edge(place, i, l + s * G);
      a[i][s] = e < 0 ? 0.0 : rates[e];
    }
  eliminate<false>(a, p, l);
  bool good = true;
  double total = 0.0;
#pragma unroll
  for (int s = 0; s < S; ++s) p[s] = l + s * G == 0 ? 1.0 : 0.0;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const int si = i / G;
    const double pi_i = from(p[si], i % G);
    good = good && pi_i > LOST && pi_i < HUGE_;  // also where a pivot was zero: then it is NaN
    total += pi_i;
#pragma unroll
    for (int s = 0; s < S; ++s)
      if (s > si || (s == si && l > i % G)) p[s] += pi_i * a[i][s];
  }
  if (chain >= count) return;
  if (!good) *failed = 1;
#pragma unroll
  for (int s = 0; s < S; ++s)
    if (l + s * G < N) pi[b * N + l + s * G] = p[s] / total;
}

// Larger of the high words: enough of a positive number for a bound, in one instruction.
__device__ __forceinline__ void raise_to(int& top, double x) { top = max(top, __double2hiint(x)); }

// What a lane does for its chain. With CAREFUL, differences of v are built up, not taken.
template <bool CAREFUL>
__device__ __forceinline__ bool back(const double* __restrict__ rates,
                                     const int* __restrict__ place,
                                     const double* __restrict__ pi,
                                     const double* __restrict__ g, double* __restrict__ out,
                                     int l, bool write) {
  int ground = 0, j[S], top = __double2hiint(pi[0]);  // j: states of the lane's columns, or N
#pragma unroll
  for (int t = 1; t < N; ++t) {
    const int x = __double2hiint(pi[t]);
    if (x > top) top = x, ground = t;
  }
  if (pi[0] >= RARE_GROUND * __hiloint2double(top, 0)) ground = 0;
  forget(ground, pi);

  double a[N][S], h[S], residual = 0.0;
  int flow = 0;
#pragma unroll
  for (int s = 0; s < S; ++s) {
    j[s] = l + s * G < N ? swapped(l + s * G, ground) : N;
    h[s] = 0.0;
    if (j[s] < N) {
      const double mine = g[j[s]];
#pragma unroll
      for (int t = 0; t < N; ++t) h[s] += pi[t] * (mine - g[t]);  // uncancelled
      residual = fmax(residual, pi[j[s]] * fabs(h[s]));
    }
  }
  forget(ground, pi);
  const bool plain = __all_sync(ALL, ground == 0);  // then places are known when compiling
  if (plain) {
#pragma unroll
    for (int i = 0; i < N; ++i)
#pragma unroll
      for (int s = 0; s < S; ++s) {
        const int e = edge(place, i, l + s * G);
        a[i][s] = e < 0 ? 0.0 : rates[e];
        raise_to(flow, pi[i] * a[i][s]);
      }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const int from_state = swapped(i, ground);
#pragma unroll
      for (int s = 0; s < S; ++s) {
        const int e = edge(place, from_state, j[s]);
        a[i][s] = e < 0 ? 0.0 : rates[e];
        raise_to(flow, pi[from_state] * a[i][s]);
      }
    }
  }
  forget(ground, pi);
  eliminate<true>(a, h, l);

  bool fine = true;
  if (CAREFUL) {
    if (l == 0) a[0][0] = 0.0;
#pragma unroll
    for (int k = 1; k < N; ++k) {
      const int sk = k / G, lk = k % G;
      const double inverse = from(a[k][sk], lk), w = from(h[sk], lk);
      double row[S];
#pragma unroll
      for (int s = 0; s < S; ++s) row[s] = w;
#pragma unroll
      for (int m = 0; m < N; ++m)
        if (m < k) {
          const double share = from(a[k][m / G], m % G);
#pragma unroll
          for (int s = 0; s < S; ++s)
            if (s <= sk) row[s] += share * a[m][s];
        }
#pragma unroll
      for (int s = 0; s < S; ++s) {
        if (s < sk || (s == sk && l < lk)) a[k][s] = row[s] * inverse;
        if (s == sk && l == lk) a[k][s] = 0.0;
      }
#pragma unroll
      for (int m = 0; m < N; ++m)
        if (m < k) {
          const double difference = from(a[k][m / G], m % G);
          if (l == lk) a[m][sk] = -difference;
        }
    }
  } else {
    double v[S], size = 0.0;
#pragma unroll
    for (int s = 0; s < S; ++s) v[s] = 0.0;
#pragma unroll
    for (int k = 1; k < N; ++k) {
      const int sk = k / G;
      double w = 0.0;
#pragma unroll
      for (int s = 0; s < S; ++s)
        if (s <= sk) w += a[k][s] * v[s];  // v is still zero from k on
      w = sum(w);
      if (l == k % G) v[sk] = (h[sk] + w) * a[k][sk];
    }
#pragma unroll
    for (int s = 0; s < S; ++s) size = fmax(size, fabs(v[s]));
    // pi_i h_i = -sum_j flow_ij (v_j - v_i) bounds the largest q_ij dL/dq_ij from below, so that
    // no chain is called fine for which `_kernels` would build up the differences.
    const double most = largest(__hiloint2double(flow + 1, 0));
    fine = most * largest(size) * (N - 1) <= CANCELLATION * largest(residual);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const double vi = from(v[i / G], i % G);
#pragma unroll
      for (int s = 0; s < S; ++s) a[i][s] = vi - v[s];
    }
  }
  if (!write) return fine;
  if (plain) {
#pragma unroll
    for (int i = 0; i < N; ++i)
#pragma unroll
      for (int s = 0; s < S; ++s) {
        const int e = edge(place, i, l + s * G);
        if (e >= 0) out[e] = -pi[i] * a[i][s];
      }
  } else {
#pragma unroll
    for (int s = 0; s < S; ++s) j[s] = l + s * G < N ? swapped(l + s * G, ground) : N;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const int from_state = swapped(i, ground);
#pragma unroll
      for (int s = 0; s < S; ++s) {
        const int e = edge(place, from_state, j[s]);
        if (e >= 0) out[e] = -pi[from_state] * a[i][s];
      }
    }
  }
  return fine;
}

// Every chain; `again` says of each whether `careful` has to follow.
extern "C" __global__ void __launch_bounds__(BLOCK, BLOCKS)
adjoint(const double* __restrict__ rates, const int* __restrict__ place,
        const double* __restrict__ pi, const double* __restrict__ g, double* __restrict__ out,
        int* __restrict__ again, long long count) {
  const int l = threadIdx.x % G;
  const long long chain = ((long long)blockIdx.x * BLOCK + threadIdx.x) / G;
  const long long b = chain < count ? chain : count - 1;
  const bool fine = back<false>(rates + b * E, place, pi + b * N, g + b * N, out + b * E, l,
                                chain < count);
  if (l == 0 && chain < count) again[chain] = !fine;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
careful(const double* __restrict__ rates, const int* __restrict__ place,
        const double* __restrict__ pi, const double* __restrict__ g, double* __restrict__ out,
        const int* __restrict__ again, long long count) {
  const int l = threadIdx.x % G;
  const long long chain = ((long long)blockIdx.x * BLOCK + threadIdx.x) / G;
  const long long b = chain < count ? chain : count - 1;
  const bool wanted = again[b];
  if (!__any_sync(ALL, wanted)) return;
  back<true>(rates + b * E, place, pi + b * N, g + b * N, out + b * E, l,
             wanted && chain < count);
}
