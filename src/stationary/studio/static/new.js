// A new plan: a file, what its columns are, what is known of the system, and the start.

import { follow } from "./job.js";
import { ask, data, fill, id } from "./page.js";

const COLUMNS = {
  requests: {
    arrival: "Arrival",
    response: "Response time",
    completion: "or completion",
    status: "Status",
  },
  windows: { load: "Load" },
  log: {},
};
const UNITS = ["s", "ms", "us", "ns"];
let file = null; // what the server knows of the upload

function select(name, text, choices, chosen) {
  const box = document.createElement("div");
  box.className = "field";
  const label = document.createElement("label");
  const made = document.createElement("select");
  label.htmlFor = made.id = `column-${name}`;
  label.textContent = text;
  made.replaceChildren(
    ...choices.map((each) => new Option(each || "none", each, false, each === chosen)),
  );
  box.append(label, made);
  return box;
}

function show(preview) {
  file = preview;
  const { columns, rows, likely, holds } = preview;
  id("about").textContent = `${preview.name}, read as ${preview.format}.`;
  const head = document.createElement("thead");
  const line = document.createElement("tr");
  fill(line, "th", columns.length ? columns : ["line"]);
  for (const each of line.cells) each.scope = "col";
  head.append(line);
  const body = document.createElement("tbody");
  body.replaceChildren(
    ...rows.map((row) => {
      const made = document.createElement("tr");
      fill(made, "td", row);
      return made;
    }),
  );
  id("rows").replaceChildren(head, body);
  id("mapping").hidden = columns.length === 0;
  const legend = id("selects").firstElementChild;
  const kind = select("holds", "One row is", ["requests", "windows"], holds);
  kind
    .querySelector("select")
    .addEventListener("change", (event) => show({ ...file, holds: event.target.value }));
  const wanted = Object.entries(COLUMNS[holds]).map(([name, text]) => {
    const likelier = name === "completion" && likely.response ? "" : likely[name];
    return select(name, text, ["", ...columns], likelier);
  });
  const unit = holds === "requests" ? [select("unit", "Unit of times", ["", ...UNITS], "")] : [];
  id("selects").replaceChildren(legend, kind, ...wanted, ...unit);
  for (const part of document.querySelectorAll("[data-of]"))
    part.hidden = !part.dataset.of.includes(holds);
  id("form").hidden = false;
}

async function send(chosen) {
  id("error").textContent = "";
  id("form").hidden = true;
  if (!chosen) return;
  if (chosen.size > data.most) {
    id("error").textContent =
      `The file is larger than ${data.most / 2 ** 30} GiB: run 'stationary plan' on it, which reads it in place.`;
    return;
  }
  try {
    const params = new URLSearchParams({ name: chosen.name });
    const root = `${document.body.dataset.root}/api`;
    show(await ask("uploads", params, { root, method: "POST", body: chosen }));
    id("first").scrollIntoView();
  } catch (error) {
    id("error").textContent = error.message;
  }
}

id("file").addEventListener("change", () => send(id("file").files[0]));
for (const [kind, over] of [
  ["dragover", true],
  ["dragleave", false],
  ["drop", false],
]) {
  id("drop").addEventListener(kind, (event) => {
    event.preventDefault();
    id("drop").classList.toggle("over", over);
    if (kind === "drop") send(event.dataTransfer.files[0]);
  });
}
id("form").addEventListener("submit", (event) => {
  event.preventDefault();
  const said = ["servers", "capacity", "patience", "lost_status", "window", "title", "load_unit"];
  const columns = Object.keys(COLUMNS[file.holds]).map((name) => [
    name,
    id(`column-${name}`).value,
  ]);
  const slo = ["loss", "p99"].map((name) => [name, id(`slo-${name}`).value.trim()]);
  follow(`${document.body.dataset.root}/api/plans`, {
    upload: file.upload,
    holds: file.holds,
    columns: Object.fromEntries(columns.filter(([, value]) => value)),
    time_unit: id("column-unit")?.value ?? "",
    slo: slo.filter(([, text]) => text).map(([name, text]) => `${name}<${text}`),
    ...Object.fromEntries(said.map((name) => [name, id(name).value.trim()])),
  });
});
if (data.known.upload) show(data.known);
