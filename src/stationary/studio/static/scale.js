// Places on the axes of a chart, and curves between their points.

const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

export function scale([low, high], [from, to], log = false) {
  // Between the values of an axis, shares of its length, and places on the page.
  const flat = (value) => (log ? Math.log(Math.max(value, 1e-300)) : value);
  const [a, b] = [flat(low), flat(high)];
  const share = (value) => (flat(value) - a) / (b - a);
  const value = (part) => {
    const at = a + clamp(part, 0.002, 0.998) * (b - a);
    return log ? Math.exp(at) : at;
  };
  return {
    ends: [low, high],
    share,
    value,
    // What lies far outside is drawn just outside, where it is cut off.
    place: (each) => from + clamp(share(each), -0.05, 1.05) * (to - from),
    at: (place) => value((place - from) / (to - from)),
    ticks: (most) => (log ? decades(low, high) : ticks(low, high, most)),
  };
}

function ticks(low, high, most) {
  const rough = (high - low) / most;
  const ten = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((k) => k * ten).find((k) => k >= rough);
  const first = Math.ceil(low / step);
  const count = Math.floor((high * (1 + 1e-9)) / step) - first + 1;
  return Array.from({ length: count }, (_, k) => (first + k) * step);
}

function decades(low, high) {
  const first = Math.ceil(Math.log10(low) - 1e-9);
  const count = Math.floor(Math.log10(high) + 1e-9) - first + 1;
  return Array.from({ length: count }, (_, k) => 10 ** (first + k));
}

export function between(xs, ys, x) {
  // The value of a curve at a load; NaN outside of it. Positive values go by their logarithms.
  const k = xs.findIndex((each) => each >= x);
  if (k < 0 || xs[0] > x) return NaN;
  if (k === 0) return ys[0];
  const share = (x - xs[k - 1]) / (xs[k] - xs[k - 1]);
  const [a, b] = [ys[k - 1], ys[k]];
  if (a > 0 && b > 0) return a * (b / a) ** share;
  return a + share * (b - a);
}

export function crossing(xs, ys, bound) {
  // The load at which a curve first exceeds a bound: 0 before its begin, Infinity if nowhere.
  const k = ys.findIndex((y) => y > bound);
  if (k < 0) return Infinity;
  if (k === 0) return 0;
  const [a, b] = [ys[k - 1], ys[k]];
  const share = a > 0 ? Math.log(bound / a) / Math.log(b / a) : (bound - a) / (b - a);
  return xs[k - 1] + share * (xs[k] - xs[k - 1]);
}
