// What a person moves in a chart, by pointer or keys: bounds up and down, and the load.

import { node } from "./elements.js";
import { number } from "./words.js";

const STEPS = 160; // keys that take a handle from one end of an axis to the other
const KEYS = {
  ArrowUp: 1,
  ArrowRight: 1,
  ArrowDown: -1,
  ArrowLeft: -1,
  PageUp: 10,
  PageDown: -10,
  Home: -Infinity,
  End: Infinity,
};

export class Handles {
  constructor(chart) {
    this.chart = chart;
    this.layer = node("g");
    this.bounds = new Map();
    if (chart.options.onLoad) this.makeCursor();
  }

  draw() {
    const { bounds } = this.chart.view;
    for (const [measure, made] of this.bounds) {
      if (bounds.some((each) => each.measure === measure)) continue;
      made.remove();
      this.bounds.delete(measure);
    }
    bounds.forEach((bound) => {
      this.drawBound(bound);
    });
    if (this.cursor) this.drawCursor();
  }

  // A handle on an axis: axis() is its scale, get() its value, set(value, done) tells of a new one.
  slider(kind, label, { axis, get, set, digits, upright }) {
    const made = node("g", { class: kind, role: "slider", tabindex: "0", "aria-label": label });
    if (upright) made.setAttribute("aria-orientation", "vertical");
    const round = (value) => Number(value.toPrecision(digits));
    let moved = false;
    const point = (event, done) => {
      const [x, y] = this.chart.offset(event);
      set(round(axis().at(upright ? y : x)), done);
    };
    made.addEventListener("pointerdown", (event) => {
      made.setPointerCapture(event.pointerId);
      made.focus();
      this.held = true;
      moved = false;
      event.preventDefault();
    });
    made.addEventListener("pointermove", (event) => {
      moved = this.held && made.hasPointerCapture(event.pointerId);
      if (moved) point(event, false);
    });
    const release = (event) => {
      this.held = false;
      if (moved && event.type === "pointerup") point(event, true);
    };
    made.addEventListener("pointerup", release);
    made.addEventListener("pointercancel", release);
    made.addEventListener("keydown", (event) => {
      if (!(event.key in KEYS)) return;
      event.preventDefault();
      const [now, size] = [get(), KEYS[event.key]];
      const next = round(axis().value(axis().share(now) + size / STEPS));
      // A step of a bound never rounds back to where it began.
      set(upright && next === now ? round(now * (1 + Math.sign(size) / 100)) : next, true);
    });
    this.layer.append(made);
    return made;
  }

  say(made, [low, high], value, text) {
    for (const [key, each] of Object.entries({ min: low, max: high, now: value, text }))
      made.setAttribute(`aria-value${key}`, each);
  }

  drawBound({ measure, name, value }) {
    const { options, y, left, right } = this.chart;
    if (!this.bounds.has(measure)) this.bounds.set(measure, this.makeBound(measure, name));
    const made = this.bounds.get(measure);
    const at = y.place(value);
    const text = `${name} < ${options.format(value)}`;
    made.replaceChildren(
      node("line", { class: "dash", x1: left, x2: right, y1: at, y2: at }),
      node("rect", { class: "hit", x: left, y: at - 12, width: right - left, height: 24 }),
      node("rect", { class: "grip", x: left + 6, y: at - 9, width: 26, height: 18, rx: 9 }),
      node("path", { class: "arrows", d: `M${left + 15} ${at - 2}l4 -4l4 4m0 4l-4 4l-4 -4` }),
      node("text", { class: "said", x: left + 38, y: at - 6 }, text),
    );
    this.say(made, y.ends, value, text);
  }

  makeBound(measure, name) {
    const { chart } = this;
    return this.slider("handle", `Bound on ${name}`, {
      axis: () => chart.y,
      get: () => chart.view.bounds.find((each) => each.measure === measure).value,
      set: (value, done) => chart.options.onBound(measure, value, done),
      digits: 3,
      upright: true,
    });
  }

  makeCursor() {
    const { chart } = this;
    const set = chart.options.onLoad;
    this.cursor = this.slider("cursor", "Load", {
      axis: () => chart.x,
      get: () => chart.view.load,
      set,
      digits: 4,
    });
    chart.svg.addEventListener("click", (event) => {
      if (event.target.closest("[role=slider]")) return;
      set(Number(chart.x.at(chart.offset(event)[0]).toPrecision(4)), true);
    });
  }

  drawCursor() {
    const { options, view, x, top, bottom } = this.chart;
    const at = x.place(view.load);
    this.cursor.replaceChildren(
      node("rect", { class: "hit", x: at - 12, y: top, width: 24, height: bottom - top }),
      node("line", { x1: at, x2: at, y1: top, y2: bottom }),
      node("path", { class: "grip", d: `M${at} ${bottom - 16}l8 9v7h-16v-7z` }),
    );
    this.say(this.cursor, x.ends, view.load, `${number(view.load)} ${options.unit ?? ""}`.trim());
  }
}
