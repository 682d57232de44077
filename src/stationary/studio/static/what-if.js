// What if the system were changed: the curve at once, the interval when it is there.

import { Chart } from "./chart.js";
import { ask, data, figure, id, later, remember, showCautions, showFacts, state } from "./page.js";
import { formatOf, number } from "./words.js";

const fields = Object.keys(data.options)
  .map((name) => id(name))
  .filter(Boolean);
let shown = data; // curves over load, as it is and changed
let banded = {}; // the same with intervals, by the question they answer
let limit = null;
let asked = 0;

const names = Object.keys(data.measures).filter(
  (name) => ["loss", "p99"].includes(name) || data.slos.some((slo) => slo.measure === name),
);
const charts = names.map((name) => {
  const what = data.measures[name].name;
  const place = figure(what);
  const format = formatOf(data.measures[name]);
  const { share } = data.measures[name];
  const made = new Chart(place, {
    id: `chart-${name}`,
    label: `${what} over load, before and after`,
    unit: data.unit,
    share,
    format,
  });
  return { name, made };
});

function draw() {
  const { now, changed, load } = shown;
  for (const { name, made } of charts) {
    const slo = data.slos.find((each) => each.measure === name);
    const after = changed?.[name] && {
      name: "changed",
      tone: "accent",
      load,
      value: changed[name],
    };
    const before = {
      name: "as it is",
      tone: changed ? "before" : "accent",
      load,
      value: now[name],
    };
    made.show({
      x: [load[0], load.at(-1)],
      curves: [
        banded.now?.curves[name]
          ? { ...before, ...banded.now.curves[name], load: banded.now.load }
          : before,
        ...(after
          ? [
              banded.changed?.curves[name]
                ? { ...after, ...banded.changed.curves[name], load: banded.changed.load }
                : after,
            ]
          : []),
      ],
      points: [],
      seen: data.seen,
      tested: Infinity,
      bounds: [],
      lines: slo ? [slo.bound] : [],
      limit: limit ?? (changed ? null : data.limit),
      present: data.present,
    });
  }
}

function changes() {
  const params = state();
  for (const field of fields) {
    const usual = field.defaultValue;
    const value = field.name === "patience" ? spanOf(field.value) : field.value;
    if (value && field.value !== usual) params.set(field.name, value);
    else params.delete(field.name);
  }
  return params;
}

function spanOf(text) {
  const [, size, unit] = text.trim().match(/^([\d.]+)\s*(us|ms|s|m|min)?$/) ?? [];
  return size
    ? String(Number(size) * ({ us: 1e-6, ms: 1e-3, m: 60, min: 60 }[unit] ?? 1))
    : text.trim();
}

const isChange = (params) => fields.some((field) => params.has(field.name));

async function change() {
  asked += 1;
  const turn = asked;
  const params = changes();
  remember(params);
  if (id("faster"))
    id("faster-said").textContent = `${number(Number(id("faster").value), 3)} times`;
  if (id("dies")) id("dies").disabled = Number(id("servers").value) < 2;
  id("error").textContent = "";
  limit = null;
  banded = { now: banded.now };
  try {
    const began = performance.now();
    const found = await ask("curves", params);
    if (turn !== asked) return;
    shown = found;
    draw();
    document.body.dataset.took = performance.now() - began;
    finish(turn, params);
  } catch (error) {
    if (turn === asked) id("error").textContent = error.message;
  }
}

const finish = later(250, async (turn, params) => {
  try {
    const said = await ask("said", params);
    if (turn !== asked || !said) return;
    id("answer").textContent = isChange(params) ? said.answer : "What if the system were changed?";
    id("headroom").textContent = isChange(params) ? said.headroom : said.answer;
    showFacts(id("facts"), said.facts ?? []);
    showCautions(id("cautions"), said.cautions ?? []);
    limit = said.limit && {
      ...said.limit,
      load: said.limit.load ?? Infinity,
      high: said.limit.high ?? Infinity,
    };
    draw();
    const kinds = isChange(params)
      ? { changed: params, now: new URLSearchParams() }
      : { now: params };
    for (const [kind, question] of Object.entries(kinds)) {
      banded[kind] ??= await ask("bands", question);
      if (turn !== asked) return;
      draw();
    }
  } catch (error) {
    if (turn === asked) id("error").textContent = error.message;
  }
});

for (const field of fields) {
  const given = state().get(field.name);
  if (given) field.value = field.name === "patience" ? `${Number(given) * 1000} ms` : given;
  field.addEventListener("input", change);
}
id("changes").addEventListener("submit", (event) => event.preventDefault());
id("changes").addEventListener("reset", () => setTimeout(change));
id("dies")?.addEventListener("click", () => {
  id("servers").value = Math.max(1, Number(id("servers").value) - 1);
  change();
});
draw();
change();
