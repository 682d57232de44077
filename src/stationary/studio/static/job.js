// A plan that is being made: its progress, its end, and a way to stop it.

import { fill, id } from "./elements.js";
import { ask, post } from "./page.js";
import { title } from "./words.js";

const root = document.body.dataset.root;

export const start = (path, body) => follow(post(path, body).then(({ job }) => job));

export async function follow(job) {
  // Show how far a plan is, and open it once it is there.
  const busy = (on) => {
    id("start").disabled = on;
    id("job").hidden = !on;
  };
  id("error").textContent = "";
  id("progress").textContent = "Starting …";
  fill(id("notes"), "li", []);
  busy(true);
  try {
    const path = `${root}/api/jobs/${await job}`;
    id("cancel").onclick = () => post(`${path}/cancel`, {}).catch(() => {});
    for (;;) {
      const { text, notes = [], plan } = await ask(path);
      const said = `${title(text)} …`;
      if (id("progress").textContent !== said) id("progress").textContent = said;
      if (id("notes").children.length !== notes.length) fill(id("notes"), "li", notes);
      if (plan) {
        location.href = `${root}/plans/${encodeURIComponent(plan)}/answer`;
        return;
      }
      await new Promise((done) => setTimeout(done, 400));
    }
  } catch (error) {
    id("error").textContent = error.message;
    busy(false);
  }
}
