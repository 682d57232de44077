// Elements of a page and of a chart. Texts of files and people go in as texts, never as HTML.

const NS = "http://www.w3.org/2000/svg";

export const id = (name) => document.getElementById(name);

export function make(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

export function node(name, attributes = {}, ...children) {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export function fill(place, tag, texts) {
  place.replaceChildren(...texts.map((text) => make(tag, {}, text)));
}
