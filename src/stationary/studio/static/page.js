// What the pages of a plan share: their data, the state in the address, questions to the server.

import { fill, id, make } from "./elements.js";
import { title } from "./words.js";

export const data = JSON.parse(id("data")?.textContent ?? "{}");
const tab = Math.random().toString(36).slice(2);

export const state = () => new URLSearchParams(location.search);

export function remember(params) {
  // The address is the state, so that a view can be kept and shared.
  history.replaceState(null, "", `${params}` ? `?${params}` : location.pathname);
  // What must hold is the same on every page of the plan.
  const slos = new URLSearchParams(params.getAll("slo").map((slo) => ["slo", slo]));
  for (const link of document.querySelectorAll("nav a[data-page]")) link.search = slos;
}

export async function ask(path, options = {}) {
  // The answer of the server, or an Error with its sentence; null where a newer question came.
  const answer = await fetch(path, options).catch(() => null);
  if (answer?.status === 409) return null;
  const record = await answer?.json().catch(() => null);
  if (!record) throw new Error("The studio does not answer; is it still running?");
  if (record.error) throw new Error(record.error);
  return record;
}

export const post = (path, body) => ask(path, { method: "POST", body: JSON.stringify(body) });

export const askPlan = (name, params) =>
  ask(
    `${document.body.dataset.plan}/api/${name}?${new URLSearchParams([...params, ["tab", tab]])}`,
  );

export function later(milliseconds, work) {
  // Work that waits until nothing was asked for a while.
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...given), milliseconds);
  };
}

export function figure(name) {
  // A chart's place on the page, below its title.
  const place = make("div");
  id("charts").append(make("figure", {}, make("h3", {}, title(name)), place));
  return place;
}

export function showHeadline(text) {
  // A bound stays on one line.
  const whole = (bound) => bound.replaceAll(" ", "\u00a0");
  id("answer").textContent = text.replace(/ < \S+( (us|ms|s|min)\b)?/g, whole);
}

export function showAnswer({ answer, headroom, facts = [], cautions = [] }) {
  showHeadline(answer);
  id("headroom").textContent = headroom;
  const parts = facts.map(([name, value]) =>
    make("div", {}, make("dt", {}, name), make("dd", {}, value)),
  );
  id("facts").replaceChildren(...parts);
  fill(id("cautions"), "p", cautions);
  id("cautions").hidden = cautions.length === 0;
}
