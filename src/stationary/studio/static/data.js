// The windows: what does not fit, and a plan without some of them.

import { Chart } from "./chart.js";
import { id, make } from "./elements.js";
import { start } from "./job.js";
import { askPlan, data, state } from "./page.js";
import { number } from "./words.js";

const MOST = 12; // rows that are shown at first
const out = new Set(); // windows to leave out
let windows = [];
let every = false;

const chart = (place, label, axis, unit) =>
  new Chart(id(place), { id: place, label, axis, unit, format: (value) => number(value, 3) });
const loads = chart("loads", "Load, by window", "window");
const charts = [
  chart("over-time", "Distance from the model, by window", "window"),
  chart("over-load", "Distance from the model, over load", "load", data.unit),
];

const odd = () => windows.filter((each) => each.reasons.length).length;

const about = (each, k) =>
  [`Window ${k + 1}, load ${number(each.load)}.`, ...each.reasons].join(" ");

function points(along, up) {
  return windows.map((each, k) => {
    const kind = `${each.reasons.length ? "odd" : ""} ${out.has(k) ? "out" : ""}`;
    return [along[k], up(each), kind, about(each, k)];
  });
}

function draw() {
  const far = Math.max(4, ...windows.map((each) => Math.abs(each.off ?? 0))) * 1.1;
  const places = [windows.map((_, k) => k + 1), windows.map((each) => each.load)];
  const ends = (along) => {
    const pad = 0.03 * (Math.max(...along) - Math.min(...along) || 1);
    return [Math.min(...along) - pad, Math.max(...along) + pad];
  };
  charts.forEach((made, which) => {
    const along = places[which];
    const shown = points(along, (each) => each.off ?? 0);
    made.show({ x: ends(along), y: [-far, far], points: shown, lines: [0] });
  });
  loads.show({ x: ends(places[0]), points: points(places[0], (each) => each.load) });
}

const cell = (text, className = "") => make("td", { textContent: text, className });

function row(k) {
  const each = windows[k];
  const box = make("input", { type: "checkbox", checked: out.has(k) });
  box.setAttribute("aria-label", `Leave out window ${k + 1}`);
  box.addEventListener("change", () => {
    if (box.checked) out.add(k);
    else out.delete(k);
    ready();
    draw();
  });
  const numbers = [k + 1, number(each.load), number(each.count, 6), number(each.off ?? NaN, 2)];
  return make(
    "tr",
    {},
    make("td", { className: "text" }, box),
    ...numbers.map((text) => cell(text)),
    cell(each.reasons.join(" "), "text wide"),
  );
}

function ready() {
  const count = out.size === 1 ? "1 window" : `${out.size} windows`;
  id("start").disabled = out.size === 0 || out.size === windows.length;
  id("start").textContent = out.size ? `Plan again without ${count}` : "Plan again";
}

function list() {
  // Windows with a reason come first; the farthest from the model before the others.
  const size = (value) => Math.abs(value ?? 0);
  const compare = (a, b) =>
    b.reasons.length - a.reasons.length ||
    size(b.off) - size(a.off) ||
    size(b.change) - size(a.change);
  const order = windows.map((_, k) => k).sort((a, b) => compare(windows[a], windows[b]));
  const few = Math.max(MOST, odd());
  id("windows").replaceChildren(...(every ? order : order.slice(0, few)).map(row));
  id("more").hidden = every || order.length <= few;
  id("more").textContent = `Show all ${windows.length} windows`;
}

id("more").addEventListener("click", () => {
  every = true;
  list();
});
id("again").addEventListener("submit", (event) => {
  event.preventDefault();
  start(`${document.body.dataset.plan}/api/again`, { without: [...out] });
});

try {
  const found = await askPlan("windows", state());
  windows = found.windows;
  const said = `${odd() || "No"} of ${windows.length} windows ${odd() === 1 ? "stands" : "stand"} out.`;
  id("summary").textContent = found.note || said;
  draw();
  list();
  ready();
} catch (error) {
  id("summary").textContent = "";
  id("error").textContent = error.message;
}
