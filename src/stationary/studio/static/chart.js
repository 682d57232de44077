// A chart over load: bands, curves, points, bounds that can be dragged, and a cursor.
// It draws what it is given and reports what a person moves; it keeps no state of the page.

import { number } from "./words.js";

const NS = "http://www.w3.org/2000/svg";
const MARGIN = { top: 14, right: 16, bottom: 40, left: 58 };
const DECADES = 4; // how far below its bound a share is drawn on a logarithmic axis
const STEPS = 160; // keys that take a handle from one end of an axis to the other

export function node(name, attributes = {}, ...children) {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) {
    made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
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

function ticks(low, high, most) {
  const rough = (high - low) / most;
  const ten = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((k) => k * ten).find((k) => k >= rough);
  const found = [];
  for (let k = Math.ceil(low / step); k * step <= high * (1 + 1e-9); k += 1) {
    found.push(k * step);
  }
  return found;
}

function decades(low, high) {
  const found = [];
  for (let k = Math.ceil(Math.log10(low) - 1e-9); 10 ** k <= high * (1 + 1e-9); k += 1) {
    found.push(10 ** k);
  }
  return found;
}

export class Chart {
  // place: an element to fill; options: label, format(value), unit of loads,
  // onBound(measure, value, done), onLoad(load, done).
  constructor(place, options) {
    this.options = options;
    this.svg = node("svg", { role: "group", "aria-label": options.label });
    this.back = node("g", { "aria-hidden": "true" });
    this.front = node("g");
    this.svg.append(this.back, this.front);
    place.replaceChildren(this.svg);
    this.handles = new Map();
    this.cursor = options.onLoad ? this.makeCursor() : null;
    new ResizeObserver(() => this.draw()).observe(place);
    this.place = place;
  }

  // view: x [low, high], curves [{ name, tone, load, value, low, high }], points [[load, value]],
  // seen [low, high], tested, bounds [{ measure, value, name }], limit { load, low, high }, load;
  // also lines, values with a dashed line across, and y, the ends of the value axis.
  show(view) {
    this.view = view;
    this.draw();
  }

  axes() {
    const { curves, bounds, points, x } = this.view;
    const width = Math.max(this.place.clientWidth, 240);
    const height = Math.round(Math.min(340, Math.max(230, 0.52 * width)));
    const bound = Math.max(0, ...bounds.map((each) => each.value), ...(this.view.lines ?? []));
    const share = this.options.share;
    const log = share && (bound === 0 || bound < 0.1);
    const tops = curves.flatMap((each) => each.value.filter(Number.isFinite));
    const most = Math.max(...tops, ...points.map((each) => each[1]), 1.25 * bound, 1e-12);
    const y = log
      ? [Math.min(bound || 1e-3, 1e-3) * 10 ** -DECADES * 10, 1]
      : [0, share ? Math.min(1.08 * most, 1) : 1.08 * most];
    // While a handle is dragged the axis stays, or the handle would run away from the pointer.
    this.y = this.view.y ?? (this.held && this.y ? this.y : y);
    Object.assign(this, { width, height, log, x });
    const inner = height - MARGIN.top - MARGIN.bottom;
    const flat = (value) => (this.log ? Math.log(Math.max(value, 1e-300)) : value);
    const [low, high] = this.y.map(flat);
    this.toX = (load) =>
      MARGIN.left + ((load - x[0]) / (x[1] - x[0])) * (width - MARGIN.left - MARGIN.right);
    this.toY = (value) => {
      const place = (flat(value) - low) / (high - low);
      return MARGIN.top + (1 - Math.min(Math.max(place, -0.05), 1.05)) * inner;
    };
    this.fromX = (place) => {
      const part = (place - MARGIN.left) / (width - MARGIN.left - MARGIN.right);
      return x[0] + Math.min(Math.max(part, 0), 1) * (x[1] - x[0]);
    };
    this.fromShare = (part) => {
      const value = low + Math.min(Math.max(part, 0.002), 0.998) * (high - low);
      return this.log ? Math.exp(value) : value;
    };
    this.fromY = (place) => this.fromShare(1 - (place - MARGIN.top) / inner);
    this.shareOf = (value) => (flat(value) - low) / (high - low);
  }

  draw() {
    if (!this.view) return;
    this.axes();
    const { width, height } = this;
    for (const [key, value] of [
      ["width", width],
      ["height", height],
    ]) {
      this.svg.setAttribute(key, value);
    }
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const drawn = [...this.ground(), ...this.lines(), ...this.marks()];
    this.back.replaceChildren(...drawn);
    this.moveHandles();
    this.moveCursor();
  }

  box(from, to, kind) {
    const [a, b] = [Math.max(from, this.x[0]), Math.min(to, this.x[1])].map(this.toX);
    const height = this.height - MARGIN.top - MARGIN.bottom;
    return b > a ? [node("rect", { class: kind, x: a, y: MARGIN.top, width: b - a, height })] : [];
  }

  ground() {
    const { view, width, height, log } = this;
    const bottom = height - MARGIN.bottom;
    const parts = [
      ...this.box(view.seen[0], view.seen[1], "seen"),
      ...this.box(view.tested, Infinity, "far"),
    ];
    const across = log ? decades(...this.y) : ticks(...this.y, 5);
    for (const value of across) {
      const y = this.toY(value);
      parts.push(
        node("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y, y2: y }),
      );
      const text = { class: "tick", x: MARGIN.left - 8, y: y + 4, "text-anchor": "end" };
      parts.push(node("text", text, this.options.format(value)));
    }
    for (const load of ticks(...this.x, Math.max(4, Math.round(width / 110)))) {
      const x = this.toX(load);
      parts.push(node("line", { class: "axis", x1: x, x2: x, y1: bottom, y2: bottom + 5 }));
      parts.push(
        node("text", { class: "tick", x, y: bottom + 19, "text-anchor": "middle" }, number(load)),
      );
    }
    const axis = {
      class: "axis",
      x1: MARGIN.left,
      x2: width - MARGIN.right,
      y1: bottom,
      y2: bottom,
    };
    const label = { class: "tick", x: width - MARGIN.right, y: bottom + 35, "text-anchor": "end" };
    const name = this.options.axis ?? "load";
    const text = this.options.unit ? `${name} (${this.options.unit})` : name;
    return [...parts, node("line", axis), node("text", label, text)];
  }

  lines() {
    const clip = node("clipPath", { id: `${this.options.id}-clip` });
    const height = this.height - MARGIN.top - MARGIN.bottom;
    const size = { x: MARGIN.left, y: MARGIN.top, height };
    clip.append(node("rect", { ...size, width: this.width - MARGIN.left - MARGIN.right }));
    const inside = node("g", { "clip-path": `url(#${this.options.id}-clip)` });
    const names = [];
    for (const curve of this.view.curves) {
      const along = (values) =>
        values
          .map(
            (value, k) =>
              `${this.toX(curve.load[k]).toFixed(1)} ${this.toY(value ?? NaN).toFixed(1)}`,
          )
          .filter((pair) => !pair.includes("NaN"));
      if (curve.low) {
        const ends = [...along(curve.high), ...along(curve.low).reverse()];
        inside.append(node("path", { class: `band ${curve.tone}`, d: `M${ends.join("L")}Z` }));
      }
      inside.append(
        node("path", { class: `line ${curve.tone}`, d: `M${along(curve.value).join("L")}` }),
      );
      names.push(...this.nameOf(curve));
    }
    for (const value of this.view.lines ?? []) {
      const y = this.toY(value);
      inside.append(node("line", { class: "dash", x1: MARGIN.left, x2: this.width, y1: y, y2: y }));
    }
    for (const [load, value, kind = ""] of this.view.points) {
      inside.append(
        node("circle", { class: `point ${kind}`, cx: this.toX(load), cy: this.toY(value), r: 2.6 }),
      );
    }
    return [clip, inside, ...names];
  }

  nameOf(curve) {
    // The name stands at the end of its line, inside the chart.
    if (!curve.name) return [];
    const last = curve.value.findLastIndex(
      (value, k) => value < this.y[1] && curve.load[k] <= this.x[1],
    );
    if (last < 1) return [];
    const [x, y] = [this.toX(curve.load[last]), this.toY(curve.value[last])];
    return [
      node(
        "text",
        { class: `name ${curve.tone}`, x: x - 4, y: y - 6, "text-anchor": "end" },
        curve.name,
      ),
    ];
  }

  marks() {
    const { limit, present } = this.view;
    const bottom = this.height - MARGIN.bottom;
    const upright = (load, kind) =>
      load > this.x[0] && load < this.x[1]
        ? [
            node("line", {
              class: kind,
              x1: this.toX(load),
              x2: this.toX(load),
              y1: MARGIN.top,
              y2: bottom,
            }),
          ]
        : [];
    const parts = upright(present, "present");
    if (limit) {
      const range = limit.low < limit.high ? this.box(limit.low, limit.high, "range") : [];
      parts.push(...range, ...upright(limit.load, "limit"));
    }
    return parts;
  }

  slider(kind, label, move) {
    const made = node("g", { class: kind, role: "slider", tabindex: "0", "aria-label": label });
    const pointer = (event, done) => {
      const box = this.svg.getBoundingClientRect();
      move(event.clientX - box.left, event.clientY - box.top, done);
    };
    made.addEventListener("pointerdown", (event) => {
      made.setPointerCapture(event.pointerId);
      made.focus();
      this.held = true;
      event.preventDefault();
      event.stopPropagation();
    });
    made.addEventListener("pointermove", (event) => {
      if (this.held && made.hasPointerCapture(event.pointerId)) pointer(event, false);
    });
    made.addEventListener("pointerup", (event) => {
      if (!this.held) return;
      this.held = false;
      pointer(event, true);
    });
    made.addEventListener("pointercancel", () => {
      this.held = false;
    });
    return made;
  }

  keys(made, step) {
    const sizes = {
      ArrowUp: 1,
      ArrowRight: 1,
      ArrowDown: -1,
      ArrowLeft: -1,
      PageUp: 10,
      PageDown: -10,
    };
    made.addEventListener("keydown", (event) => {
      const size = { Home: -Infinity, End: Infinity, ...sizes }[event.key];
      if (size === undefined) return;
      event.preventDefault();
      step(size);
    });
  }

  moveHandles() {
    const wanted = new Set(this.view.bounds.map((each) => each.measure));
    for (const [measure, made] of this.handles) {
      if (!wanted.has(measure)) {
        made.remove();
        this.handles.delete(measure);
      }
    }
    for (const bound of this.view.bounds) {
      if (!this.handles.has(bound.measure)) this.makeHandle(bound.measure, bound.name);
      const made = this.handles.get(bound.measure);
      const [y, right] = [this.toY(bound.value), this.width - MARGIN.right];
      const text = `${bound.name} < ${this.options.format(bound.value)}`;
      made.replaceChildren(
        node("line", { class: "dash", x1: MARGIN.left, x2: right, y1: y, y2: y }),
        node("rect", {
          class: "hit",
          x: MARGIN.left,
          y: y - 12,
          width: right - MARGIN.left,
          height: 24,
        }),
        node("rect", { class: "grip", x: MARGIN.left + 6, y: y - 9, width: 26, height: 18, rx: 9 }),
        node("path", {
          class: "arrows",
          d: `M${MARGIN.left + 15} ${y - 2}l4 -4l4 4m0 4l-4 4l-4 -4`,
        }),
        node("text", { class: "said", x: MARGIN.left + 38, y: y - 6 }, text),
      );
      this.say(made, this.y, bound.value, text);
    }
  }

  say(made, [low, high], value, text) {
    const said = {
      "aria-valuemin": low,
      "aria-valuemax": high,
      "aria-valuenow": value,
      "aria-valuetext": text,
    };
    for (const [key, each] of Object.entries(said)) made.setAttribute(key, each);
  }

  makeHandle(measure, name) {
    const set = (value, done) => this.options.onBound(measure, Number(value.toPrecision(3)), done);
    const made = this.slider("handle", `Bound on ${name}`, (_, y, done) =>
      set(this.fromY(y), done),
    );
    made.setAttribute("aria-orientation", "vertical");
    this.keys(made, (size) => {
      const now = this.view.bounds.find((each) => each.measure === measure).value;
      const next = this.fromShare(this.shareOf(now) + size / STEPS);
      // A step never rounds back to where it began.
      set(Number(next.toPrecision(3)) === now ? now * (1 + Math.sign(size) / 100) : next, true);
    });
    this.handles.set(measure, made);
    this.front.append(made);
  }

  makeCursor() {
    const set = (load, done) => this.options.onLoad(Number(load.toPrecision(4)), done);
    const made = this.slider("cursor", "Load", (x, _, done) => set(this.fromX(x), done));
    this.keys(made, (size) => {
      const [low, high] = this.x;
      const next = this.view.load + (size * (high - low)) / STEPS;
      set(Math.min(Math.max(next, low), high), true);
    });
    this.svg.addEventListener("click", (event) => {
      if (event.target.closest("[role=slider]")) return;
      set(this.fromX(event.clientX - this.svg.getBoundingClientRect().left), true);
    });
    this.front.append(made);
    return made;
  }

  moveCursor() {
    if (!this.cursor) return;
    const [x, bottom] = [this.toX(this.view.load), this.height - MARGIN.bottom];
    this.cursor.replaceChildren(
      node("rect", {
        class: "hit",
        x: x - 12,
        y: MARGIN.top,
        width: 24,
        height: bottom - MARGIN.top,
      }),
      node("line", { x1: x, x2: x, y1: MARGIN.top, y2: bottom }),
      node("path", { class: "grip", d: `M${x} ${bottom - 16}l8 9v7h-16v-7z` }),
    );
    this.say(
      this.cursor,
      this.x,
      this.view.load,
      `${number(this.view.load)} ${this.options.unit ?? ""}`.trim(),
    );
  }
}
