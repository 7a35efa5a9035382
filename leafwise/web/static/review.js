// Review at the speed of reading: an answer is sent, and the next document comes back with the
// word that it is saved. An answer that could not be sent is kept, here and across reloads, until
// the server has said that it has it. The token that goes with it makes sending it twice harmless.
"use strict";

const task = document.querySelector("#task");
const said = document.querySelector("#said");
const unsaved = document.querySelector("#unsaved");
const keys = document.querySelector("#keys");
const KEPT = `leafwise-unsaved-${task.dataset.project}-`; // another project may be next here
const FINAL = [400, 404, 409, 413, 415, 422]; // whatever else is wrong may pass
let busy = false;

function show(answer) {
  if (answer.html !== undefined) {
    task.innerHTML = answer.html;
    boxes(task);
    document.querySelector("#task-head")?.focus({ preventScroll: true });
  }
  if (answer.said !== undefined) said.textContent = answer.said;
  if (answer.session !== undefined) {
    document.querySelector("#session").textContent = answer.session;
  }
  // What was saved must be seen, and the document from its beginning.
  said.parentElement.scrollIntoView({ block: "nearest" });
}

function warn(text) {
  unsaved.hidden = !text;
  unsaved.firstElementChild.textContent = text;
}

function settle() {
  busy = false;
  task.removeAttribute("aria-busy");
  task.querySelectorAll("button").forEach((one) => (one.disabled = false));
}

function kept() {
  const found = [];
  for (let i = 0; i < localStorage.length; i++) {
    if (localStorage.key(i).startsWith(KEPT)) found.push(localStorage.key(i));
  }
  return found;
}

// Send an answer until the server has it, or says no.
async function deliver(address, body, more = "") {
  const key = KEPT + new URLSearchParams(body).get("token");
  const headers = { "Content-Type": "application/x-www-form-urlencoded" };
  localStorage.setItem(key, body);
  for (let wait = 1; ; wait = Math.min(2 * wait, 15)) {
    try {
      const options = { method: "POST", body: body + more, headers };
      const answer = await (await ask(address, options)).json();
      localStorage.removeItem(key);
      warn("");
      return answer;
    } catch (error) {
      if (FINAL.includes(error.status)) {
        localStorage.removeItem(key);
        warn(error.body.html ? "" : error.message);
        return error.body;
      }
      const labels = new URLSearchParams(body).getAll("labels");
      const what = labels.length ? `Your answer (${labels.join(", ")})` : "Your answer";
      const why = error.status ? error.message : "The server cannot be reached.";
      warn(`${what} is not saved yet. ${why} It is kept here and sent again.`);
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, 1000 * wait);
        window.addEventListener("online", () => (clearTimeout(timer), resolve()), { once: true });
      });
    }
  }
}

// Unlike an answer, an undo has no token: it is tried once.
async function undo(address) {
  try {
    show(await (await ask(address, { method: "POST" })).json());
    warn("");
  } catch (error) {
    warn(error.status ? error.message : "Nothing was undone: the server cannot be reached.");
  }
}

async function send(address, body) {
  if (address === "/review/undo") await undo(address);
  else show(await deliver(address, body));
  // The document that was asked for is done: a reload must not bring it back.
  if (location.search) history.replaceState(null, "", "/review");
  settle();
}

function begin() {
  busy = true;
  task.setAttribute("aria-busy", "true");
  task.querySelectorAll("button").forEach((one) => (one.disabled = true));
}

// What was kept is sent before anything else is answered: it may be about the document shown.
async function resend(keys) {
  begin();
  let late = false;
  const patience = setTimeout(() => {
    late = true; // a server in trouble is no reason not to go on
    settle();
  }, 5000);
  let last = {};
  for (const key of keys) {
    const body = localStorage.getItem(key);
    if (body === null) continue; // another tab was faster
    last = await deliver("/review/answer", body, "&kept=1");
    if (last.conflict) break;
  }
  clearTimeout(patience);
  if (!last.conflict && last.html) {
    const now = await ask(location.pathname + location.search).catch(() => null);
    if (now) last = { ...(await now.json()), said: last.said };
  }
  if (late && busy) return; // another answer is on its way, and brings the next document
  show(last);
  settle();
}

function submit(form, button) {
  if (busy) return;
  const data = new URLSearchParams(new FormData(form, button));
  if (button?.name !== "typed") data.delete("node");
  if (button?.hasAttribute("data-confirm") && !data.has("labels")) {
    warn("Check a node, or skip (s).");
    return;
  }
  const address = new URL(button?.hasAttribute("formaction") ? button.formAction : form.action);
  begin();
  send(address.pathname, data.toString());
}

task.addEventListener("submit", (event) => {
  if (!event.target.matches("[data-answer]")) return;
  event.preventDefault();
  submit(event.target, event.submitter);
});

// A node from the box: the answer, or where there may be several, one more to choose from.
task.addEventListener("node", (event) => {
  const form = event.target.form;
  const list = document.querySelector("#candidates");
  if (!list) {
    submit(form, form.querySelector("[name=typed]"));
    return;
  }
  const { path } = event.detail;
  event.target.value = "";
  let box = [...list.querySelectorAll("input")].find((one) => one.value === path);
  if (!box) {
    const row = document.querySelector("#another").content.cloneNode(true);
    box = row.querySelector("input");
    box.value = path;
    row.querySelector(".path").textContent = path;
    list.append(row);
  }
  box.checked = true;
  said.textContent = `${path} is checked.`;
  document.querySelector("#task-head").focus();
});

const TYPES = "input:not([type=checkbox]), textarea, select";

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const { target, key } = event;
  if (target.matches(TYPES)) {
    if (key === "Escape") document.querySelector("#task-head")?.focus();
    return;
  }
  if (document.querySelector("dialog[open]")) return;
  if (key === "/") {
    event.preventDefault();
    document.querySelector("#any")?.focus();
  } else if (key === "?") {
    event.preventDefault();
    keys.open = !keys.open;
    if (keys.open) keys.scrollIntoView({ block: "nearest" });
  } else if (key === "Enter" && target.matches("a, button, summary")) {
    // Whatever has the focus is meant.
  } else {
    const button = task.querySelector(`[data-key="${CSS.escape(key)}"]`);
    if (!button || event.repeat) return;
    event.preventDefault();
    if (!busy) button.click();
  }
});

task.addEventListener("click", (event) => {
  if (event.target.closest('[data-key="?"]')) {
    event.preventDefault();
    keys.open = !keys.open;
    keys.scrollIntoView({ block: "nearest" });
  }
});

// Where nothing is suggested yet, the first model brings suggestions. It may have been there since
// just after the page was made, or have come between two looks.
document.addEventListener("looked", ({ detail }) => {
  if (!busy && detail.has_model && task.querySelector("[data-waiting]")) location.reload();
});

window.addEventListener("beforeunload", (event) => {
  if (!unsaved.hidden && busy) event.preventDefault();
});

if (kept().length) resend(kept());
document.querySelector("#task-head")?.focus({ preventScroll: true });
