// A chart over load: bands, curves and points; what a person moves in it is in handles.js.
// It draws what it is given, and keeps no state of the page.

import { node } from "./elements.js";
import { Handles } from "./handles.js";
import { scale } from "./scale.js";
import { number } from "./words.js";

const MARGIN = { top: 14, right: 16, bottom: 40, left: 58 };
const DECADES = 3; // how far below its bound a share is drawn on a logarithmic axis
const [WIDE, APART] = [70, 15]; // pixels of the name of a curve, and to the next one

export class Chart {
  // place: an element to fill; options: id, label, format(value), unit of loads, share,
  // onBound(measure, value, done), onLoad(load, done).
  constructor(place, options) {
    this.options = options;
    this.place = place;
    this.svg = node("svg", { role: "group", "aria-label": options.label });
    this.back = node("g", { "aria-hidden": "true" });
    this.handles = new Handles(this);
    this.svg.append(this.back, this.handles.layer);
    place.replaceChildren(this.svg);
    new ResizeObserver(() => this.draw()).observe(place);
  }

  // view: x [low, high], curves [{ name, tone, load, value, low, high }], bounds [{ measure, value,
  // name }], points [[load, value, class, title]], seen [low, high], tested, limit { load, low,
  // high }, present, load; also lines, values with a dashed line across, and y, the ends of the
  // value axis.
  show(view) {
    this.view = { curves: [], bounds: [], points: [], lines: [], ...view };
    this.draw();
  }

  draw() {
    if (!this.view) return;
    const width = Math.max(this.place.clientWidth, 240);
    const height = Math.round(Math.min(340, Math.max(230, 0.52 * width)));
    const size = { width, height, viewBox: `0 0 ${width} ${height}` };
    for (const [key, value] of Object.entries(size)) this.svg.setAttribute(key, value);
    this.left = MARGIN.left;
    this.right = width - MARGIN.right;
    this.top = MARGIN.top;
    this.bottom = height - MARGIN.bottom;
    this.axes();
    this.back.replaceChildren(...this.ground(), ...this.curves(), ...this.marks());
    this.handles.draw();
  }

  offset(event) {
    const box = this.svg.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  axes() {
    const { curves, bounds, points, lines } = this.view;
    const { share } = this.options;
    const bound = Math.max(0, ...bounds.map((each) => each.value), ...lines);
    const log = share && bound < 0.1;
    const tops = curves.flatMap((each) => each.value.filter(Number.isFinite));
    const most = 1.08 * Math.max(...tops, ...points.map((each) => each[1]), 1.25 * bound, 1e-12);
    const rare = Math.min(bound || 1e-3, 1e-3) * 10 ** -DECADES;
    // While a handle is dragged the axis stays, or the handle would run away from the pointer.
    const held = this.handles.held && this.y?.ends;
    const ends = this.view.y ?? (held || (log ? [rare, 1] : [0, share ? Math.min(most, 1) : most]));
    this.x = scale(this.view.x, [this.left, this.right]);
    this.y = scale(ends, [this.bottom, this.top], log);
  }

  upright(load, kind) {
    const [low, high] = this.x.ends;
    const x = this.x.place(load);
    const ends = { class: kind, x1: x, x2: x, y1: this.top, y2: this.bottom };
    return load > low && load < high ? [node("line", ends)] : [];
  }

  box(from, to, kind) {
    const [low, high] = this.x.ends;
    const [a, b] = [Math.max(from, low), Math.min(to, high)].map(this.x.place);
    const size = { class: kind, x: a, y: this.top, width: b - a, height: this.bottom - this.top };
    return b > a ? [node("rect", size)] : [];
  }

  ground() {
    const { left, right, bottom, view, options } = this;
    const across = (value) => {
      const y = this.y.place(value);
      const text = { class: "tick", x: left - 8, y: y + 4, "text-anchor": "end" };
      return [
        node("line", { class: "grid", x1: left, x2: right, y1: y, y2: y }),
        node("text", text, options.format(value)),
      ];
    };
    const along = (load) => {
      const x = this.x.place(load);
      const text = { class: "tick", x, y: bottom + 19, "text-anchor": "middle" };
      return [
        node("line", { class: "axis", x1: x, x2: x, y1: bottom, y2: bottom + 5 }),
        node("text", text, number(load)),
      ];
    };
    const label = { class: "tick", x: right, y: bottom + 35, "text-anchor": "end" };
    const name = options.axis ?? "load";
    return [
      ...this.box(...(view.seen ?? [0, 0]), "seen"),
      ...this.box(view.tested ?? Infinity, Infinity, "far"),
      ...this.y.ticks(5).flatMap(across),
      ...this.x.ticks(Math.max(4, Math.round((right - left) / 90))).flatMap(along),
      node("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }),
      node("text", label, options.unit ? `${name} (${options.unit})` : name),
    ];
  }

  curves() {
    const { left, right, top, bottom, view } = this;
    const clip = node("clipPath", { id: `${this.options.id}-clip` });
    clip.append(node("rect", { x: left, y: top, width: right - left, height: bottom - top }));
    const inside = node("g", { "clip-path": `url(#${this.options.id}-clip)` });
    for (const curve of view.curves) {
      if (curve.low) {
        const ends = [...this.along(curve, "high"), ...this.along(curve, "low").reverse()];
        inside.append(node("path", { class: `band ${curve.tone}`, d: `M${ends.join("L")}Z` }));
      }
      const line = this.along(curve, "value").join("L");
      inside.append(node("path", { class: `line ${curve.tone}`, d: `M${line}` }));
    }
    for (const value of view.lines) {
      const y = this.y.place(value);
      inside.append(node("line", { class: "dash", x1: left, x2: right, y1: y, y2: y }));
    }
    for (const [load, value, kind = "", title = ""] of view.points) {
      // None of many was lost: such a point lies on the edge of a logarithmic axis.
      const cy = this.y.place(Math.max(value, this.y.ends[0]));
      const place = { class: `point ${kind}`, cx: this.x.place(load), cy, r: 2.8 };
      inside.append(node("circle", place, ...(title ? [node("title", {}, title)] : [])));
    }
    return [clip, inside, ...this.names()];
  }

  along(curve, end) {
    return curve[end]
      .map((value, k) => [this.x.place(curve.load[k]), this.y.place(value ?? NaN)])
      .filter((pair) => pair.every(Number.isFinite))
      .map((pair) => pair.map((each) => each.toFixed(1)).join(" "));
  }

  names() {
    // A name stands at the end of its line, inside the chart and below that of the next.
    const ends = this.view.curves
      .map(({ name, tone, load, value }) => {
        const last = value.findLastIndex((each) => each !== null && each < this.y.ends[1]);
        const [x, y] = [this.x.place(load[last]) - 4, this.y.place(value[last]) - 6];
        return { name, tone, x, y };
      })
      .filter((each) => each.name && Number.isFinite(each.y))
      .sort((one, other) => one.y - other.y);
    return ends.map(({ name, tone, x, y }, k) => {
      const above = ends[k - 1];
      if (above && Math.abs(x - above.x) < WIDE) ends[k].y = Math.max(y, above.y + APART);
      const place = { x, y: ends[k].y, "text-anchor": "end" };
      return node("text", { class: `name ${tone}`, ...place }, name);
    });
  }

  marks() {
    const { limit, present } = this.view;
    const range = limit && limit.low < limit.high ? this.box(limit.low, limit.high, "range") : [];
    return [...this.upright(present, "present"), ...range, ...this.upright(limit?.load, "limit")];
  }
}
