// What if the system were changed: the curve at once, the interval when it is there.

import { Chart } from "./chart.js";
import { id } from "./elements.js";
import { askPlan, data, figure, later, remember, showAnswer, state } from "./page.js";
import { formatOf, number, parsed, seconds } from "./words.js";

const question = id("answer").textContent;
const fields = Object.keys(data.options).map(id).filter(Boolean);
let shown = data; // curves over load, as it is and changed
let banded = {}; // the same with intervals
let limit = null;
let asked = 0;

const charts = data.charted.map((name) => {
  const { name: what, share } = data.measures[name];
  const options = {
    id: `chart-${name}`,
    label: `${what} over load, before and after`,
    unit: data.unit,
    share,
    format: formatOf(data.measures[name]),
  };
  return { name, chart: new Chart(figure(what), options) };
});

function curve(kind, measure, rest) {
  // With its interval as soon as that is there.
  if (!shown[kind]) return [];
  const { load, curves } = banded[kind] ?? { load: shown.load };
  return [{ ...rest, load, ...(curves?.[measure] ?? { value: shown[kind][measure] }) }];
}

function draw() {
  for (const { name, chart } of charts) {
    const slo = data.slos.find((each) => each.measure === name);
    chart.show({
      x: [shown.load[0], shown.load.at(-1)],
      curves: [
        ...curve("now", name, { name: "as it is", tone: "before" }),
        ...curve("changed", name, { name: "changed", tone: "accent" }),
      ],
      seen: data.seen,
      lines: slo ? [slo.bound] : [],
      limit: limit ?? (shown.changed ? null : data.limit),
      present: data.present,
    });
  }
}

function changes() {
  const params = state();
  for (const { name, value, defaultValue } of fields) {
    if (!value || value === defaultValue) params.delete(name);
    else params.set(name, name === "patience" && parsed(value) > 0 ? parsed(value) : value);
  }
  return params;
}

async function change() {
  asked += 1;
  const [turn, params, began] = [asked, changes(), performance.now()];
  remember(params);
  const speed = Number(id("faster")?.value ?? 1);
  if (id("faster"))
    id("faster-said").textContent = speed === 1 ? "as it is" : `${number(speed, 3)} times as fast`;
  if (id("dies")) id("dies").disabled = Number(id("servers").value) < 2;
  id("error").textContent = "";
  limit = null;
  banded = { now: banded.now };
  try {
    const found = await askPlan("curves", params);
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
    const said = await askPlan("said", params);
    if (turn !== asked || !said) return;
    const same = { answer: question, headroom: said.answer };
    showAnswer({ ...said, ...(shown.changed ? {} : same) });
    const { load, high } = said.limit ?? {};
    limit = said.limit && { ...said.limit, load: load ?? Infinity, high: high ?? Infinity };
    draw();
    if (shown.changed) await band("changed", turn, params);
    const slos = params.getAll("slo").map((slo) => ["slo", slo]);
    await band("now", turn, new URLSearchParams(slos));
  } catch (error) {
    if (turn === asked) id("error").textContent = error.message;
  }
});

async function band(kind, turn, params) {
  banded[kind] ??= await askPlan("bands", params);
  if (turn === asked) draw();
}

for (const field of fields) {
  const given = state().get(field.name);
  if (given) field.value = field.name === "patience" ? seconds(Number(given)) : given;
  field.addEventListener(field.name === "patience" ? "change" : "input", change);
}
id("changes").addEventListener("submit", (event) => event.preventDefault());
id("changes").addEventListener("reset", () => setTimeout(change));
id("dies")?.addEventListener("click", () => {
  id("servers").value = Math.max(1, Number(id("servers").value) - 1);
  change();
});
draw();
change();
