// Numbers as the sentences of the server write them, and as people do.

const RAISED = {
  "-": "⁻",
  ...Object.fromEntries([..."0123456789"].map((d, k) => [d, "⁰¹²³⁴⁵⁶⁷⁸⁹"[k]])),
};
const SIZES = { "%": 0.01, us: 1e-6, ms: 1e-3, s: 1, m: 60, min: 60 };

export function number(value, digits = 4) {
  if (value === null || Number.isNaN(value)) return "unknown";
  if (!Number.isFinite(value)) return value > 0 ? "any" : "none";
  if (value === 0) return "0";
  if (value < 0) return `−${number(-value, digits)}`;
  const power = Math.floor(Math.log10(value));
  if (power > -5 && power < digits) return String(Number(value.toPrecision(digits)));
  if (power >= digits && power < 6) return value.toFixed(0);
  const mantissa = Number((value / 10 ** power).toPrecision(digits));
  const ten = `10${[...String(power)].map((each) => RAISED[each]).join("")}`;
  return mantissa === 1 ? ten : `${mantissa} × ${ten}`;
}

export const percent = (share) => `${number(100 * share, 3)}%`;

export function seconds(value) {
  if (value < 1) return `${number(1000 * value, 3)} ms`;
  return value < 120 ? `${number(value, 3)} s` : `${number(value / 60, 3)} min`;
}

export function parsed(text) {
  // A share or a time that a person wrote; NaN where it is none.
  const [, size, unit] = text.trim().match(/^([\d.]+(?:e[+-]?\d+)?)\s*(%|us|ms|s|m|min)?$/i) ?? [];
  return Number(size) * (SIZES[unit?.toLowerCase()] ?? 1);
}

export function written(measure, value) {
  // A bound as a person would write it, and as the server reads it.
  const short = (each) => Number(each.toPrecision(6));
  if (measure.share) return `${short(100 * value)}%`;
  if (!measure.time) return String(short(value));
  return value < 1 ? `${short(1000 * value)}ms` : `${short(value)}s`;
}

export function span(low, high) {
  // Two values with one unit, where they share it.
  const [a, b] = [low.split(" "), high.split(" ")];
  const shared = a.length === 2 && b.length === 2 && a[1] === b[1];
  return `${shared ? a[0] : low} to ${high}`.replaceAll(" ", "\u00a0");
}

export function formatOf(measure) {
  if (measure.share) return percent;
  return measure.time ? seconds : (value) => number(value, 3);
}

export const title = (text) => (/^p\d/.test(text) ? text : text[0].toUpperCase() + text.slice(1));
