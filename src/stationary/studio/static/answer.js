// The answer: curves over load, bounds that can be dragged, and every measure at one load.

import { between, Chart, crossing } from "./chart.js";
import {
  ask,
  data,
  figure,
  fill,
  id,
  later,
  remember,
  showCautions,
  showFacts,
  state,
  title,
} from "./page.js";
import { formatOf, number, span } from "./words.js";

const TONES = { loss: "accent", p99: "accent", p95: "second", p50: "third" };
const PERCENTILE = /^p[\d.]+$/;

const bounds = new Map(data.slos.map((slo) => [slo.measure, slo.bound]));
const written = new Map(data.slos.map((slo) => [slo.measure, slo.text.split("<")[1].trim()]));
let curves = Object.fromEntries(Object.entries(data.now).map(([name, value]) => [name, { value }]));
let loads = data.load;
let load = data.present;
let exact = null; // the limit as the server computed it, with its interval

const formats = Object.fromEntries(
  Object.entries(data.measures).map(([name, each]) => [name, formatOf(each)]),
);
const charted = Object.keys(data.measures).filter((name) => id(`slo-${name}`));
const groups = [
  charted.filter((name) => !PERCENTILE.test(name)).map((name) => [name]),
  [charted.filter((name) => PERCENTILE.test(name))],
]
  .flat()
  .filter((names) => names.length);

const charts = groups.map((names, k) => {
  const what = names.length > 1 ? "response time" : data.measures[names[0]].name;
  const place = figure(what);
  const made = new Chart(place, {
    id: `chart-${k}`,
    label: `${what} over load`,
    unit: data.unit,
    share: data.measures[names[0]].share,
    format: formats[names[0]],
    onBound: (measure, value, done) => setBound(measure, value, done),
    onLoad: (value, done) => setLoad(value, done),
  });
  return { names, made };
});

function limitOf(measure, end) {
  const curve = curves[measure];
  const bound = bounds.get(measure);
  return crossing(loads, curve[end] ?? curve.value, bound);
}

function sketched() {
  // The limit as the curves show it: of one bound, its interval is where the band crosses it.
  const names = [...bounds.keys()].filter((name) => curves[name]);
  if (!names.length) return null;
  const least = (end) => Math.min(...names.map((name) => limitOf(name, end)));
  return { load: least("value"), low: least("high"), high: least("low") };
}

function draw() {
  const limit = exact ?? sketched();
  for (const { names, made } of charts) {
    made.show({
      x: [loads[0], loads.at(-1)],
      curves: names.map((name) => ({
        ...curves[name],
        load: loads,
        name: names.length > 1 ? data.measures[name].name : "",
        tone: names.length > 1 ? (TONES[name] ?? "accent") : "accent",
        low: names.length > 1 && !bounds.has(name) ? undefined : curves[name].low,
      })),
      points: names.flatMap((name) => data.points[name] ?? []),
      seen: data.seen,
      tested: data.tested ?? Infinity,
      bounds: names
        .filter((name) => bounds.has(name))
        .map((name) => ({
          measure: name,
          value: bounds.get(name),
          name: data.measures[name].name,
        })),
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
    return [data.measures[name].name, value, curve.low ? span(low, high) : "…"];
  });
  id("reading").replaceChildren(
    ...rows.map((row) => {
      const line = document.createElement("tr");
      fill(line, "td", row);
      line.cells[0].className = "text";
      return line;
    }),
  );
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
  for (const [name, text] of written) params.append("slo", `${name}<${text}`);
  if (load !== data.present) params.set("load", load);
  remember(params);
  for (const link of document.querySelectorAll("[data-file]")) {
    link.href = `${document.body.dataset.plan}/files/${link.dataset.file}${location.search}`;
  }
  return params;
}

function setLoad(value, done) {
  load = value;
  draw();
  read();
  if (done) write();
}

function setBound(measure, value, done) {
  bounds.set(measure, value);
  written.set(measure, formats[measure](value).replaceAll(" ", ""));
  id(`slo-${measure}`).value = written.get(measure);
  exact = null;
  tell(sketched());
  draw();
  if (done) asked();
}

function tell(limit) {
  // While a bound moves, the headline follows the curves; the server's sentence comes after it.
  if (!limit) return;
  const what = [...written].map(([name, text]) => `${data.measures[name].name} < ${text}`);
  const interval =
    limit.low < limit.high ? ` (${number(limit.low, 3)} to ${number(limit.high, 3)})` : "";
  const end = Number.isFinite(limit.load)
    ? `up to ${number(limit.load, 3)} ${data.unit}`.trim()
    : "at every load shown";
  const holds = what.length > 1 ? "hold" : "holds";
  const text = `${what.join(" and ")} ${holds} ${end}${interval}.`;
  // What is below the headline must not move while a handle is dragged.
  id("answer").style.minHeight = `${id("answer").offsetHeight}px`;
  id("answer").textContent = title(text);
  for (const name of charted) id(`alone-${name}`).textContent = "";
}

async function askSaid(params) {
  const said = await ask("said", params);
  if (!said) return;
  id("answer").textContent = said.answer;
  id("headroom").textContent = said.headroom;
  showFacts(id("facts"), said.facts ?? []);
  showCautions(id("cautions"), said.cautions ?? []);
  if (!said.limit) return;
  const ends = ["load", "low", "high"].map((end) => [end, said.limit[end] ?? Infinity]);
  exact = Object.fromEntries(ends);
  for (const name of charted) {
    const alone = said.alone[name];
    id(`alone-${name}`).textContent = alone
      ? `up to ${number(alone.load ?? Infinity, 3)} ${data.unit}`.trim()
      : "";
  }
  draw();
}

const asked = later(200, async () => {
  id("slo-error").textContent = "";
  try {
    await askSaid(write());
  } catch (error) {
    id("slo-error").textContent = error.message;
  }
});

function boundOf(text) {
  const [, size, unit] = text.match(/^([\d.]+(?:e[+-]?\d+)?)\s*(%|us|ms|s|min)?$/i) ?? [];
  return Number(size) * ({ "%": 0.01, us: 1e-6, ms: 1e-3, min: 60 }[unit] ?? 1);
}

const asks = state()
  .getAll("slo")
  .map((slo) => slo.split(/<=?/).map((part) => part.trim()));
if (asks.length) {
  bounds.clear();
  written.clear();
}
for (const [measure, text] of asks) {
  // A wrong one is left to the server, which says what is wrong with it.
  written.set(measure, text ?? "");
  if (boundOf(text ?? "") > 0) bounds.set(measure, boundOf(text));
}

for (const name of charted) {
  const box = id(`slo-${name}`);
  box.value = written.get(name) ?? "";
  box.addEventListener("change", () => {
    const text = box.value.trim();
    const bound = boundOf(text);
    bounds.delete(name);
    written.delete(name);
    if (text) written.set(name, text);
    if (bound > 0) bounds.set(name, bound);
    exact = null;
    tell(sketched());
    draw();
    asked();
  });
}
id("slos").addEventListener("submit", (event) => event.preventDefault());
id("load").addEventListener("change", () => {
  const value = parseFloat(id("load").value);
  if (value > 0) setLoad(value, true);
});

if (state().has("load")) load = parseFloat(state().get("load")) || load;
draw();
performance.mark("first curve");
read();
const params = write();
askSaid(params).catch((error) => {
  id("slo-error").textContent = error.message;
});
ask("bands", params)
  .then((found) => {
    if (!found) return;
    loads = found.load;
    curves = found.curves;
    draw();
    read();
  })
  .catch((error) => {
    id("slo-error").textContent = error.message;
  });
