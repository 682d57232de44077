// A new plan: a file, what its columns are, what is known of the system, and the start.

import { fill, id, make } from "./elements.js";
import { follow, start } from "./job.js";
import { ask, data } from "./page.js";

const COLUMNS = {
  requests: {
    arrival: ["Arrival", "choose"],
    response: ["Response time", "none"],
    completion: ["or completion", "none"],
    status: ["Status", "none"],
  },
  windows: { load: ["Load", "choose"] },
  log: {},
};
const UNITS = { "": "found by their size", s: "s", ms: "ms", us: "us", ns: "ns" };
const SAID = ["servers", "capacity", "patience", "lost_status", "window", "title", "load_unit"];
const SIZES = ["loss", "p50", "p95", "p99"];
const root = document.body.dataset.root;
let file = null; // what the server knows of the upload

function select(name, text, choices, chosen) {
  const options = Object.entries(choices).map(
    ([value, shown]) => new Option(shown, value, false, value === chosen),
  );
  const box = make("select", { id: `column-${name}` }, ...options);
  box.required = choices[""] === "choose";
  return make("div", { className: "field" }, make("label", { htmlFor: box.id }, text), box);
}

function table(columns, rows) {
  const head = make("tr");
  fill(head, "th", columns.length ? columns : ["line"]);
  for (const each of head.cells) each.scope = "col";
  const lines = rows.map((row) => {
    const made = make("tr");
    fill(made, "td", row);
    return made;
  });
  id("rows").replaceChildren(make("thead", {}, head), make("tbody", {}, ...lines));
}

function show(preview) {
  file = preview;
  const { columns, likely, holds } = preview;
  id("about").textContent = `${preview.name}, read as ${preview.format}.`;
  table(columns, preview.rows);
  id("mapping").hidden = columns.length === 0;
  const kinds = { requests: "a request", windows: "a window" };
  const kind = select("holds", "One row is", kinds, holds);
  kind.addEventListener("change", (event) => show({ ...file, holds: event.target.value }));
  const named = Object.fromEntries(columns.map((each) => [each, each]));
  const wanted = Object.entries(COLUMNS[holds]).map(([name, [text, none]]) => {
    const likelier = name === "completion" && likely.response ? "" : likely[name];
    return select(name, text, { "": none, ...named }, likelier);
  });
  const unit = holds === "requests" ? [select("unit", "Unit of times", UNITS, "")] : [];
  id("selects").replaceChildren(id("selects").firstElementChild, kind, ...wanted, ...unit);
  for (const part of document.querySelectorAll("[data-of]"))
    part.hidden = !part.dataset.of.includes(holds);
  id("form").hidden = false;
}

async function send(chosen) {
  id("error").textContent = "";
  id("form").hidden = true;
  if (!chosen) return;
  if (chosen.size > data.most) {
    id("error").textContent = data.too_large;
    return;
  }
  try {
    id("looking").hidden = false;
    const name = encodeURIComponent(chosen.name);
    show(await ask(`${root}/api/uploads?name=${name}`, { method: "POST", body: chosen }));
    id("first").scrollIntoView();
  } catch (error) {
    id("error").textContent = error.message;
  } finally {
    id("looking").hidden = true;
  }
}

id("file").addEventListener("change", () => send(id("file").files[0]));
for (const kind of ["dragover", "dragleave", "drop"]) {
  id("drop").addEventListener(kind, (event) => {
    event.preventDefault();
    id("drop").classList.toggle("over", kind === "dragover");
    if (kind === "drop") send(event.dataTransfer.files[0]);
  });
}
id("form").addEventListener("submit", (event) => {
  event.preventDefault();
  const value = (name) => id(name).value.trim();
  const columns = Object.keys(COLUMNS[file.holds]).map((name) => [name, value(`column-${name}`)]);
  start(`${root}/api/plans`, {
    upload: file.upload,
    holds: file.holds,
    columns: Object.fromEntries(columns.filter(([, chosen]) => chosen)),
    time_unit: id("column-unit")?.value ?? "",
    slo: SIZES.filter((name) => value(`slo-${name}`)).map(
      (name) => `${name}<${value(`slo-${name}`)}`,
    ),
    ...Object.fromEntries(SAID.map((name) => [name, value(name)])),
  });
});
if (data.known.upload) show(data.known);
id("error").textContent = data.error;
if (data.job) follow(data.job);
