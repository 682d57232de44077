// The windows: what does not fit, and a plan without some of them.

import { Chart } from "./chart.js";
import { follow } from "./job.js";
import { ask, id, state } from "./page.js";
import { number, percent } from "./words.js";

const MOST = 12; // rows that are shown at first
const out = new Set(); // windows to leave out
let windows = [];
let every = false;

const chart = (place, label, unit) =>
  new Chart(id(place), { id: place, label, axis: unit, format: (value) => number(value, 2) });
const charts = [
  chart("over-time", "Distance from the model, by window", "window"),
  chart("over-load", "Distance from the model, over load", "load"),
];

function draw() {
  const kinds = windows.map(
    (each, k) => `${each.reasons.length ? "odd" : ""} ${out.has(k) ? "out" : ""}`,
  );
  const far = Math.max(4, ...windows.map((each) => Math.abs(each.off ?? 0))) * 1.1;
  const places = [windows.map((_, k) => k + 1), windows.map((each) => each.load)];
  charts.forEach((made, which) => {
    const along = places[which];
    const pad = 0.03 * (Math.max(...along) - Math.min(...along) || 1);
    made.show({
      x: [Math.min(...along) - pad, Math.max(...along) + pad],
      y: [-far, far],
      curves: [],
      points: windows.map((each, k) => [along[k], each.off ?? 0, kinds[k]]),
      seen: [0, 0],
      tested: Infinity,
      bounds: [],
      lines: [0],
      limit: null,
    });
  });
}

function cell(text, kind = "") {
  const made = document.createElement("td");
  made.textContent = text;
  made.className = kind;
  return made;
}

function row(k) {
  const each = windows[k];
  const line = document.createElement("tr");
  const box = document.createElement("input");
  Object.assign(box, { type: "checkbox", checked: out.has(k) });
  box.setAttribute("aria-label", `Leave out window ${k + 1}`);
  box.addEventListener("change", () => {
    if (box.checked) out.add(k);
    else out.delete(k);
    ready();
    draw();
  });
  const first = cell("", "text");
  first.append(box);
  const off = each.off === null ? "" : number(each.off, 2);
  line.append(
    first,
    cell(k + 1),
    cell(number(each.load)),
    cell(number(each.count, 6)),
    cell(off),
    cell(each.reasons.join(" "), "text"),
  );
  return line;
}

function ready() {
  id("start").disabled = out.size === 0 || out.size === windows.length;
  id("start").textContent = out.size
    ? `Plan again without ${out.size} ${out.size === 1 ? "window" : "windows"}`
    : "Plan again";
}

function list() {
  const weight = (k) =>
    Math.max(Math.abs(windows[k].off ?? 0) / 3, Math.abs(windows[k].change ?? 0) / 0.02);
  const order = windows.map((_, k) => k).sort((a, b) => weight(b) - weight(a));
  const odd = Math.max(MOST, windows.filter((each) => each.reasons.length).length);
  id("windows").replaceChildren(...(every ? order : order.slice(0, odd)).map(row));
  id("more").hidden = every || order.length <= odd;
  id("more").textContent = `Show all ${windows.length} windows`;
}

id("more").addEventListener("click", () => {
  every = true;
  list();
});
id("again").addEventListener("submit", (event) => {
  event.preventDefault();
  follow(`${document.body.dataset.plan}/api/again`, { without: [...out] });
});

try {
  const found = await ask("windows", state());
  windows = found.windows;
  const odd = windows.filter((each) => each.reasons.length).length;
  id("summary").textContent =
    found.note ||
    `${odd || "No"} of ${windows.length} windows ${odd === 1 ? "stands" : "stand"} out (${percent(odd / windows.length)}).`;
  draw();
  list();
  ready();
} catch (error) {
  id("error").textContent = error.message;
}
