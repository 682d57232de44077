// Products with the generator of a large sparse chain: a thread a state, no atomics.
//
// `start`, `other` and `rates` are the edges by the state they leave (times) or enter (inflow),
// one set of indices for the whole batch, blockIdx.y the chain.

extern "C" __global__ void __launch_bounds__(256)
times(const int* __restrict__ start, const int* __restrict__ other,
      const double* __restrict__ rates, const double* __restrict__ v, double* __restrict__ out,
      long long n, long long edges) {
  const long long i = (long long)blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  rates += blockIdx.y * edges, v += blockIdx.y * n, out += blockIdx.y * n;
  const double vi = v[i];
  double total = 0.0;
  for (int e = start[i]; e < start[i + 1]; ++e) total += rates[e] * (v[other[e]] - vi);
  out[i] = total;
}

extern "C" __global__ void __launch_bounds__(256)
inflow(const int* __restrict__ start, const int* __restrict__ other,
       const double* __restrict__ rates, const double* __restrict__ p, double* __restrict__ out,
       long long n, long long edges) {
  const long long i = (long long)blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  rates += blockIdx.y * edges, p += blockIdx.y * n, out += blockIdx.y * n;
  double total = 0.0;
  for (int e = start[i]; e < start[i + 1]; ++e) total += rates[e] * p[other[e]];
  out[i] = total;
}
