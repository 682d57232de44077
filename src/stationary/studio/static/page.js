// What the pages share: their data, the state in the address, and questions to the server.

export const data = JSON.parse(document.getElementById("data")?.textContent ?? "{}");
const plan = document.body.dataset.plan;
const tab = Math.random().toString(36).slice(2);

export const id = (name) => document.getElementById(name);

export const title = (name) => (/^p\d/.test(name) ? name : name[0].toUpperCase() + name.slice(1));

export function figure(name) {
  // A chart's place on the page, below its title.
  const made = document.createElement("figure");
  const [head, place] = ["h3", "div"].map((tag) => document.createElement(tag));
  head.textContent = title(name);
  made.append(head, place);
  id("charts").append(made);
  return place;
}

export function state() {
  return new URLSearchParams(location.search);
}

export function remember(params) {
  // The address is the state, so that a view can be kept and shared.
  const text = params.toString();
  history.replaceState(null, "", text ? `?${text}` : location.pathname);
}

export async function ask(name, params = new URLSearchParams(), options = {}) {
  // The answer of the server, or an Error with its sentence; null where a newer question came.
  const query = new URLSearchParams(params);
  query.set("tab", tab);
  const root = options.root ?? `${plan}/api`;
  const answer = await fetch(`${root}/${name}?${query}`, options);
  if (answer.status === 409) return null;
  const record = await answer
    .json()
    .catch(() => ({ error: "The studio did not answer; is it still running?" }));
  if (record.error) throw new Error(record.error);
  return record;
}

export function later(milliseconds, work) {
  // Work that waits until nothing was asked for a while.
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...given), milliseconds);
  };
}

export function fill(place, tag, texts) {
  place.replaceChildren(
    ...texts.map((text) => {
      const made = document.createElement(tag);
      made.textContent = text;
      return made;
    }),
  );
}

export function showFacts(place, facts) {
  place.replaceChildren(
    ...facts.map(([name, value]) => {
      const box = document.createElement("div");
      const [term, said] = ["dt", "dd"].map((tag) => document.createElement(tag));
      term.textContent = name;
      said.textContent = value;
      box.append(term, said);
      return box;
    }),
  );
}

export function showCautions(place, cautions) {
  fill(place, "p", cautions);
  place.hidden = cautions.length === 0;
}
