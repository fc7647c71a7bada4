// Keys: Ctrl/Cmd-K palette, / search, g and a letter goes there, j k rows, Enter opens, x chooses,
// r does the row's act, . the page's, l live or paused, ? help. Off in fields, and switched off by
// the setting (WCAG 2.1.4).
const off = () => localStorage.getItem("waybill-keys") === "0";
const places = () => [...document.querySelectorAll(".nav a")];
const rows = () => [...document.querySelectorAll("main table.list tbody tr")].filter((row) => row.querySelector("a[href]"));
let going = 0;

function step(by) {
  const all = rows();
  if (!all.length) return;
  const at = all.findIndex((row) => row.classList.contains("at"));
  all[at]?.classList.remove("at");
  const row = all[Math.min(all.length - 1, Math.max(0, at + by))] || all[0];
  row.classList.add("at");
  row.querySelector("a[href]").focus();
  row.scrollIntoView({ block: "nearest" });
}

const current = () => document.activeElement?.closest("table.list tbody tr") || document.querySelector("tr.at");

const acts = {
  "/": () => document.querySelector("main input[type=search], .filters input")?.focus(),
  j: () => step(1),
  k: () => step(-1),
  x: () => current()?.querySelector("input[type=checkbox]")?.click(),
  r: () => current()?.querySelector("[data-act]")?.click(),
  ".": () => document.querySelector("main .head .actions .button")?.focus(),
  l: () => dispatchEvent(new Event("wb:live")),
  "?": help,
};

document.addEventListener("keydown", (event) => {
  if ((event.metaKey || event.ctrlKey) && !event.altKey && event.key.toLowerCase() === "k") {
    event.preventDefault();
    palette();
    return;
  }
  if (off() || event.metaKey || event.ctrlKey || event.altKey || event.defaultPrevented) return;
  if (event.target.closest("input, textarea, select, [contenteditable], dialog")) return;
  if (Date.now() < going) {
    going = 0;
    const place = places().find((link) => link.dataset.key === event.key);
    if (place) { event.preventDefault(); place.click(); }
    return;
  }
  if (event.key === "g") { going = Date.now() + 1500; return; }
  const act = acts[event.key];
  if (act) { event.preventDefault(); act(); }
});

function dialog(name, label) {
  document.querySelector(`dialog.${name}`)?.remove();
  const box = document.createElement("dialog");
  box.className = name;
  box.setAttribute("aria-label", label);
  box.addEventListener("close", () => box.remove());
  box.addEventListener("click", (event) => { if (event.target === box) box.close(); });
  document.body.append(box);
  return box;
}

// What is typed is looked for among the places; an id or a shipment goes to where it is looked up.
function found(text) {
  const list = places().map((link) => [link.textContent.trim(), link.href, link.dataset.key ? `g ${link.dataset.key}` : ""])
    .filter(([label]) => label.toLowerCase().includes(text.toLowerCase()));
  if (text.length > 5) list.unshift([`Find ${text}`, `/console/find?q=${encodeURIComponent(text)}`, "Enter"]);
  return list;
}

function palette() {
  const box = dialog("palette", "Go to");
  const input = document.createElement("input");
  input.setAttribute("role", "combobox");
  input.setAttribute("aria-controls", "palette-list");
  input.setAttribute("aria-expanded", "true");
  input.setAttribute("aria-label", "Go to a page, or paste an id");
  input.placeholder = "Go to a page, or paste an id";
  const list = document.createElement("ul");
  list.id = "palette-list";
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Pages");
  box.append(input, list);
  let at = 0, hits = [];
  const go = () => { if (hits[at]) { box.close(); dispatchEvent(new CustomEvent("wb:visit", { detail: hits[at][1] })); } };
  const draw = () => {
    hits = found(input.value.trim());
    at = Math.min(at, Math.max(0, hits.length - 1));
    list.replaceChildren(...hits.map(([label, , key], i) => {
      const item = document.createElement("li");
      item.id = `palette-${i}`;
      item.setAttribute("role", "option");
      item.setAttribute("aria-selected", String(i === at));
      const name = document.createElement("span"), hint = document.createElement("span");
      name.textContent = label;
      hint.textContent = key;
      hint.className = "quiet";
      item.append(name, hint);
      item.addEventListener("click", () => { at = i; go(); });
      return item;
    }));
    input.setAttribute("aria-activedescendant", hits.length ? `palette-${at}` : "");
  };
  input.addEventListener("input", () => { at = 0; draw(); });
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      at = (at + (event.key === "ArrowDown" ? 1 : -1) + hits.length) % Math.max(1, hits.length);
      draw();
    } else if (event.key === "Enter") { event.preventDefault(); go(); }
  });
  draw();
  box.showModal();
  input.focus();
}

function help() {
  const box = dialog("help", "Keys");
  const list = document.createElement("dl");
  list.className = "facts";
  const lines = [["Ctrl K", "palette"], ["/", "search"], ["g, then a letter", places().filter((l) => l.dataset.key).map((l) => `${l.dataset.key} ${l.textContent.trim()}`).join(", ")],
    ["j k", "next and previous row"], ["Enter", "open"], ["x", "choose"], ["r", "the row's act"], [".", "the page's acts"], ["l", "live or paused"], ["?", "this help"]];
  for (const [key, text] of lines) {
    const line = document.createElement("div"), name = document.createElement("dt"), value = document.createElement("dd");
    name.append(Object.assign(document.createElement("kbd"), { textContent: key }));
    value.textContent = text;
    line.append(name, value);
    list.append(line);
  }
  const close = Object.assign(document.createElement("button"), { className: "button", textContent: "Close", type: "button" });
  close.addEventListener("click", () => box.close());
  box.append(list, close);
  box.showModal();
}

function setting() {
  for (const place of document.querySelectorAll("wb-keys")) {
    place.hidden = false;
    const button = Object.assign(document.createElement("button"), { className: "button small", type: "button" });
    const show = () => { button.textContent = off() ? "Switch single keys on" : "Switch single keys off"; };
    button.addEventListener("click", () => { localStorage.setItem("waybill-keys", off() ? "1" : "0"); show(); });
    show();
    place.replaceChildren(button);
  }
}
addEventListener("wb:shown", setting);
setting();
