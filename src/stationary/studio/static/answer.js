// The answer: curves over load, bounds that can be dragged, and every measure at one load.

import { Chart } from "./chart.js";
import { fill, id, make } from "./elements.js";
import { askPlan, data, figure, later, remember, showAnswer, showHeadline, state } from "./page.js";
import { between, crossing } from "./scale.js";
import { formatOf, number, parsed, span, title, written } from "./words.js";

const TONES = { loss: "accent", p99: "accent", p95: "second", p50: "third" };
const PERCENTILE = /^p[\d.]+$/;

const { measures, charted, unit } = data;
const formats = Object.fromEntries(
  Object.entries(measures).map(([name, each]) => [name, formatOf(each)]),
);
const bounds = new Map(data.slos.map((slo) => [slo.measure, slo.bound]));
let curves = Object.fromEntries(Object.entries(data.now).map(([name, value]) => [name, { value }]));
let loads = data.load;
let load = parseFloat(state().get("load")) || data.present;
let exact = null; // the limit as the server computed it, with its interval

// Percentiles share a chart; every other measure has one.
const percentiles = charted.filter((name) => PERCENTILE.test(name));
const others = charted.filter((name) => !PERCENTILE.test(name)).map((name) => [name]);
const groups = [...others, percentiles].filter((names) => names.length);
const charts = groups.map((names, k) => {
  const what = names.length > 1 ? "response time" : measures[names[0]].name;
  const options = {
    id: `chart-${k}`,
    label: `${what} over load`,
    unit,
    share: measures[names[0]].share,
    format: formats[names[0]],
    onBound: setBound,
    onLoad: setLoad,
  };
  return { names, chart: new Chart(figure(what), options) };
});

const upTo = (limit) => `up to ${number(limit ?? Infinity, 3)} ${unit}`.trim();

function sketched() {
  // The limit as the curves show it: its interval is where the bands cross the bounds.
  const names = [...bounds.keys()];
  const least = (end) =>
    Math.min(
      ...names.map((name) =>
        crossing(loads, curves[name][end] ?? curves[name].value, bounds.get(name)),
      ),
    );
  return names.length ? { load: least("value"), low: least("high"), high: least("low") } : null;
}

function draw() {
  const limit = exact ?? sketched();
  for (const { names, chart } of charts) {
    const alone = names.length === 1;
    const tone = (name) => (alone ? "accent" : (TONES[name] ?? "accent"));
    const bounded = names.filter((name) => bounds.has(name));
    chart.show({
      x: [loads[0], loads.at(-1)],
      curves: names.map((name) => ({
        ...curves[name],
        load: loads,
        name: alone ? "" : measures[name].name,
        tone: tone(name),
      })),
      points: names.flatMap((name) => (data.points[name] ?? []).map((at) => [...at, tone(name)])),
      seen: data.seen,
      tested: data.tested ?? Infinity,
      bounds: bounded.map((measure) => {
        return { measure, value: bounds.get(measure), name: measures[measure].name };
      }),
      limit,
      present: data.present,
      load,
    });
  }
}

function read() {
  const rows = Object.entries(curves).map(([name, curve]) => {
    const [value, low, high] = ["value", "low", "high"].map((end) =>
      curve[end] ? formats[name](between(loads, curve[end], load)) : "…",
    );
    const line = make("tr");
    fill(line, "td", [measures[name].name, value, curve.low ? span(low, high) : "…"]);
    line.cells[0].className = "text";
    return line;
  });
  id("reading").replaceChildren(...rows);
  const lies = {
    outside: load < loads[0] || load > loads.at(-1),
    untested: data.tested !== null && load > data.tested,
    beyond: load > data.seen[1],
  };
  const first = Object.keys(lies).find((where) => lies[where]);
  id("beyond").textContent = data.at_load[first] ?? "";
  if (document.activeElement !== id("load")) id("load").value = number(load);
}

function write() {
  const params = state();
  params.delete("slo");
  for (const [name, bound] of bounds)
    params.append("slo", `${name}<${written(measures[name], bound)}`);
  if (load !== data.present) params.set("load", load);
  remember(params);
  for (const link of document.querySelectorAll("[data-file]"))
    link.href = `${document.body.dataset.plan}/files/${link.dataset.file}?${params}`;
  return params;
}

function setLoad(value, done) {
  load = value;
  draw();
  read();
  if (done) write();
}

function setBound(measure, value, done) {
  if (value > 0) bounds.set(measure, value);
  else bounds.delete(measure);
  id(`slo-${measure}`).value = value > 0 ? written(measures[measure], value) : "";
  id("slo-error").textContent = "";
  exact = null;
  tell(sketched());
  draw();
  if (done) asked();
}

function tell(limit) {
  // While a bound moves, the headline follows the curves; the server's sentence comes after it.
  // What is below it must not move while a handle is dragged.
  id("answer").style.minHeight = `${id("answer").offsetHeight}px`;
  for (const name of charted) id(`alone-${name}`).textContent = "";
  if (!limit) {
    const answer = "Set a bound to see up to which load it holds.";
    showAnswer({ answer, headroom: "" });
    return;
  }
  const what = [...bounds].map(
    ([name, bound]) => `${measures[name].name} < ${formats[name](bound)}`,
  );
  const end = Number.isFinite(limit.load) ? upTo(limit.load) : "at every load shown";
  const interval =
    limit.low < limit.high ? ` (${number(limit.low, 3)} to ${number(limit.high, 3)})` : "";
  const holds = what.length > 1 ? "hold" : "holds";
  showHeadline(title(`${what.join(" and ")} ${holds} ${end}${interval}.`));
}

const complain = (error) => {
  id("slo-error").textContent = error.message;
};

async function confirm() {
  const params = write();
  if (!bounds.size) return;
  const said = await askPlan("said", params);
  if (!said) return;
  showAnswer(said);
  if (!said.limit) return;
  const ends = ["load", "low", "high"].map((end) => [end, said.limit[end] ?? Infinity]);
  exact = Object.fromEntries(ends);
  for (const name of charted)
    id(`alone-${name}`).textContent = said.alone[name] ? upTo(said.alone[name].load) : "";
  draw();
}

const asked = later(200, () => confirm().catch(complain));

for (const name of charted) {
  const box = id(`slo-${name}`);
  box.value = bounds.has(name) ? written(measures[name], bounds.get(name)) : "";
  box.addEventListener("change", () => {
    const text = box.value.trim();
    const value = text ? parsed(text) : 0;
    if (value > 0 && measures[name].time && !/[a-z]$/i.test(text))
      complain({ message: `${text} has no unit: write it as in 200 ms or 2 s.` });
    else if (value >= 0) setBound(name, value, true);
    else complain({ message: `${text} is not a bound: write it as in 0.1% or 200 ms.` });
  });
}
id("slos").addEventListener("submit", (event) => event.preventDefault());
id("load").addEventListener("change", () => {
  const value = parseFloat(id("load").value);
  if (value > 0) setLoad(value, true);
});

showHeadline(data.answer);
draw();
performance.mark("first curve");
read();
confirm().catch(complain);
askPlan("bands", write())
  .then((found) => {
    if (!found) return;
    loads = found.load;
    curves = found.curves;
    draw();
    read();
  })
  .catch(complain);
