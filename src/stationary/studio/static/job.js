// A plan that is being made: its progress, its end, and a way to stop it.

import { ask, id } from "./page.js";

const root = document.body.dataset.root;

async function post(path, body) {
  const answer = await fetch(path, { method: "POST", body: JSON.stringify(body) });
  const record = await answer.json();
  if (record.error) throw new Error(record.error);
  return record;
}

export async function follow(path, body) {
  // Start a plan and open it once it is there.
  const buttons = [id("start"), id("cancel")];
  const busy = (on) => {
    buttons[0].disabled = on;
    buttons[1].hidden = !on;
    id("bar").hidden = !on;
  };
  id("error").textContent = "";
  busy(true);
  try {
    const { job } = await post(path, body);
    buttons[1].onclick = () => post(`${root}/api/jobs/${job}/cancel`, {});
    for (;;) {
      const state = await ask(job, undefined, { root: `${root}/api/jobs` });
      const text = `${state.text[0].toUpperCase()}${state.text.slice(1)} …`;
      if (id("progress").textContent !== text) id("progress").textContent = text;
      if (state.plan) {
        location.href = `${root}/plans/${encodeURIComponent(state.plan)}/answer`;
        return;
      }
      await new Promise((done) => setTimeout(done, 400));
    }
  } catch (error) {
    id("error").textContent = error.message;
    id("progress").textContent = "";
    busy(false);
  }
}
