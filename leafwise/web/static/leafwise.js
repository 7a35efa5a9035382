// What all pages share. Each part looks for the elements it is for, and does nothing without them.
"use strict";

const $ = (selector, from = document) => from.querySelector(selector);

async function ask(address, options = {}) {
  const headers = { Accept: "application/json", ...options.headers };
  const response = await fetch(address, { ...options, headers });
  if (!response.ok) {
    const body = await response.json().catch(() => ({}));
    const error = new Error(body.error?.message || `The server answered ${response.status}.`);
    error.status = response.status;
    error.body = body;
    throw error;
  }
  return response;
}

// ---- the refit, in the header ----

const status = $("#status");
let wait = 2000;

async function look() {
  try {
    const now = await (await ask("/status.json")).json();
    const text = $("#status-text");
    if (text.textContent !== now.text) text.textContent = now.text;
    const share = $("#status-share");
    share.hidden = now.state !== "running";
    share.value = now.share;
    status.dataset.state = now.state;
    document.dispatchEvent(new CustomEvent("looked", { detail: now }));
    wait = now.state === "running" ? 1000 : 4000;
  } catch {
    wait = 8000;
  }
  setTimeout(look, wait);
}
if (status) setTimeout(look, 500);

// A page that waits for work in the background is read anew until that is done.
const reload = $("[data-reload]");
if (reload) setTimeout(() => location.reload(), 1000 * reload.dataset.reload);

// ---- a box that takes a node ----

function nodeBox(box) {
  const input = $("input", box);
  if (input.hasAttribute("role")) return;
  const list = document.createElement("ul");
  list.id = `${input.id}-list`;
  list.hidden = true;
  for (const [name, value] of Object.entries({ role: "listbox", "aria-label": "Nodes" })) {
    list.setAttribute(name, value);
  }
  box.append(list);
  const told = document.createElement("span");
  told.className = "unseen";
  told.setAttribute("aria-live", "polite");
  box.append(told);
  for (const [name, value] of Object.entries({
    role: "combobox",
    "aria-autocomplete": "list",
    "aria-expanded": "false",
    "aria-controls": list.id,
  })) {
    input.setAttribute(name, value);
  }
  let at = -1;
  let asked = 0;

  // What was found is heard; that nothing was is seen, too.
  function tell(text, seen = false) {
    told.className = seen ? "none" : "unseen";
    told.textContent = text;
  }

  function show(open) {
    list.hidden = !open || !list.children.length;
    input.setAttribute("aria-expanded", String(!list.hidden));
    if (list.hidden) point(-1);
  }

  function point(to) {
    at = to;
    [...list.children].forEach((item, i) => item.setAttribute("aria-selected", String(i === at)));
    if (at < 0) input.removeAttribute("aria-activedescendant");
    else {
      input.setAttribute("aria-activedescendant", list.children[at].id);
      list.children[at].scrollIntoView({ block: "nearest" });
    }
  }

  function take(item) {
    input.value = item.dataset.path;
    asked += 1; // an answer on its way is for what was typed before
    show(false);
    input.dispatchEvent(
      new CustomEvent("node", { bubbles: true, detail: { path: item.dataset.path } }),
    );
  }

  function option(node, i) {
    const item = document.createElement("li");
    item.id = `${list.id}-${i}`;
    item.dataset.path = node.path;
    item.setAttribute("role", "option");
    item.textContent = node.name;
    if (node.above) {
      const small = document.createElement("small");
      small.textContent = node.above;
      item.append(small);
    }
    item.addEventListener("mousedown", (event) => event.preventDefault());
    item.addEventListener("click", () => take(item));
    return item;
  }

  // Says whether the list is that of what is typed now.
  async function find() {
    const mine = ++asked;
    try {
      const found = await (await ask(`/nodes.json?q=${encodeURIComponent(input.value)}`)).json();
      if (mine !== asked) return false;
      list.replaceChildren(...found.nodes.map(option));
      show(document.activeElement === input);
      point(input.value && found.nodes.length ? 0 : -1);
      const n = found.nodes.length;
      if (n) tell(n === 1 ? "1 node" : `${n} nodes`);
      else tell(`No node is called "${input.value.trim()}".`, true);
      return true;
    } catch {
      show(false);
      return false;
    }
  }

  input.addEventListener("input", find);
  input.addEventListener("focus", find);
  input.addEventListener("blur", () => {
    asked += 1;
    tell("");
    show(false);
  });
  input.addEventListener("keydown", async (event) => {
    const n = list.children.length;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) show(true);
      if (n) point((at + (event.key === "ArrowDown" ? 1 : at < 0 ? 0 : -1) + n) % n);
    } else if (event.key === "Enter" && !list.hidden && at >= 0) {
      event.preventDefault();
      take(list.children[at]);
    } else if (event.key === "Enter" && input.hasAttribute("data-strict")) {
      // Typed faster than the list came: wait for it, rather than send half a name.
      event.preventDefault();
      if (!(await find())) return;
      if (!list.hidden && at >= 0) take(list.children[at]);
      else if (!input.value.trim()) tell("Type a name, or choose a node by the arrows.", true);
    } else if (event.key === "Escape" && !list.hidden) {
      event.preventDefault(); // a dialog around it stays open
      event.stopPropagation();
      show(false);
    }
  });
}

function boxes(from = document) {
  from.querySelectorAll("[data-nodes]").forEach(nodeBox);
}
boxes();

// ---- the tree ----

const tree = $("#tree");
const OPEN = "leafwise-open";

function opened() {
  return [...tree.querySelectorAll("details[open]")].map((one) => one.dataset.path);
}

async function unfold(details) {
  if (details.dataset.read || $("details, div.row", details.lastElementChild)) return;
  details.dataset.read = "1";
  const address = `/tree/rows?under=${encodeURIComponent(details.dataset.path)}`;
  try {
    details.lastElementChild.innerHTML = await (await ask(address)).text();
  } catch {
    delete details.dataset.read; // the link that is there instead still leads on
  }
}

if (tree) {
  tree.addEventListener(
    "toggle",
    async (event) => {
      if (event.target.open) await unfold(event.target);
      sessionStorage.setItem(OPEN, JSON.stringify(opened()));
    },
    true,
  );
  tree.addEventListener("click", async (event) => {
    const more = event.target.closest("[data-more]");
    if (!more) return;
    event.preventDefault();
    const place = more.closest("li");
    const address = more.getAttribute("href").replace("/tree?", "/tree/rows?");
    place.insertAdjacentHTML("afterend", await (await ask(address)).text());
    place.nextElementSibling?.querySelector("a")?.focus();
    place.remove();
  });
  const search = $("#q");
  if (!search.value) {
    const remembered = JSON.parse(sessionStorage.getItem(OPEN) || "[]");
    (async () => {
      for (const path of remembered) {
        const details = $(`details[data-path="${CSS.escape(path)}"]`, tree);
        if (details) {
          await unfold(details);
          details.open = true;
        }
      }
    })();
  }
  let typed = 0;
  search.addEventListener("input", () => {
    const mine = ++typed;
    setTimeout(async () => {
      if (mine !== typed) return;
      const address = `/tree/rows?q=${encodeURIComponent(search.value)}`;
      try {
        const rows = await (await ask(address)).text();
        if (mine !== typed) return;
        tree.innerHTML = rows;
        const n = tree.querySelectorAll(".name").length;
        $("#tree-found").textContent = search.value ? `${n} found` : "";
      } catch {
        // The form still works.
      }
    }, 120);
  });
}

const dialog = $("#dialog");
document.addEventListener("click", async (event) => {
  const link = event.target.closest("[data-edit]");
  if (!link || !dialog?.showModal || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  const then = encodeURIComponent(location.pathname + location.search);
  try {
    const address = `/tree/edit?path=${encodeURIComponent(link.dataset.edit)}&then=${then}`;
    dialog.innerHTML = await (await ask(address)).text();
  } catch {
    location = link.href;
    return;
  }
  boxes(dialog);
  dialog.showModal();
  ($("details[open] input:not([type=hidden])", dialog) || $("h2", dialog)).focus();
});
dialog?.addEventListener("click", (event) => {
  if (event.target === dialog) dialog.close();
});

// ---- files ----

const drop = $("[data-upload]");
if (drop) {
  const file = $("#file", drop);
  const said = $(".said", drop);
  const bar = $("progress", drop);

  const upload = async (chosen) => {
    if (!chosen) {
      said.textContent = "Choose a file first.";
      file.focus();
      return;
    }
    said.textContent = `Reading ${chosen.name}…`;
    bar.hidden = false;
    bar.removeAttribute("value");
    try {
      const then = encodeURIComponent(drop.dataset.then);
      const address = `${drop.dataset.upload}?name=${encodeURIComponent(chosen.name)}&then=${then}`;
      const headers = { "Content-Type": "application/octet-stream" };
      const answer = await ask(address, { method: "POST", body: chosen, headers });
      location = (await answer.json()).to;
    } catch (error) {
      said.textContent = error.message;
      said.setAttribute("role", "alert");
      bar.hidden = true;
    }
  };

  $("#upload", drop).addEventListener("click", () => upload(file.files[0]));
  for (const kind of ["dragover", "dragleave", "drop"]) {
    drop.addEventListener(kind, (event) => {
      event.preventDefault();
      drop.classList.toggle("over", kind === "dragover");
      if (kind === "drop") upload(event.dataTransfer.files[0]);
    });
  }
}

const treeFile = $("[data-tree-file]");
if (treeFile) {
  treeFile.addEventListener("change", async () => {
    const [chosen] = treeFile.files;
    if (!chosen) return;
    $("#tree-said").textContent =
      `${chosen.name}: look it over, then take it.`;
    $("#tree-format").value = chosen.name.split(".").pop().toLowerCase();
    $("textarea", treeFile.form).value = await chosen.text();
    $("textarea", treeFile.form).focus();
  });
}
