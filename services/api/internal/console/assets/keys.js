// Keys: Ctrl/Cmd-K finds, / search, g and a letter goes there, j k rows, Enter opens, x chooses,
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

const icon = (within) => within?.querySelector("svg")?.cloneNode(true);

// Of what the server finds, and of what the documentation has.
async function ask(path, text, most, read) {
  try {
    const answer = await fetch(path + encodeURIComponent(text), { headers: { Accept: "text/html" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (answer.redirected) return [{ label: page.querySelector("main h1")?.textContent.trim().replace(/\s+/g, " ") || page.title, href: answer.url, sign: icon(document.querySelector("[data-find]")) }];
    return [...page.querySelectorAll(".results a")].slice(0, most).map((link) => ({ label: link.querySelector("b").textContent, href: new URL(link.getAttribute("href"), location.href).href, ...read(link) }));
  } catch {
    return []; // the line that finds is still there
  }
}

const guide = (link) => ({ hint: link.querySelector(".quiet").textContent, sign: icon(document.querySelector('.menu-panel a[href="/docs"]')) });
const hit = (link) => ({ hint: link.querySelector("span")?.textContent, sign: icon(link) });

function palette() {
  const box = dialog("palette", "Find");
  const input = document.createElement("input");
  input.setAttribute("role", "combobox");
  input.setAttribute("aria-controls", "palette-list");
  input.setAttribute("aria-expanded", "true");
  input.setAttribute("aria-label", "Find a page, a thing or an act");
  input.placeholder = "A page, a webhook, an id, or what to do";
  const list = document.createElement("ul");
  list.id = "palette-list";
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "What is found");
  box.append(input, list);
  let at = 0, hits = [], answered = [], moved = false, typing;
  const go = () => { if (hits[at]) { box.close(); dispatchEvent(new CustomEvent("wb:visit", { detail: hits[at].href })); } };
  const draw = () => {
    const text = input.value.trim(), was = moved && hits[at]?.href;
    hits = places().map((link) => ({ label: link.textContent.trim(), href: link.href, hint: link.dataset.key ? `g ${link.dataset.key}` : "", sign: icon(link) }))
      .filter(({ label }) => label.toLowerCase().includes(text.toLowerCase())).concat(answered);
    if (text) hits.push({ label: `Find “${text}”`, href: `/console/find?q=${encodeURIComponent(text)}`, sign: icon(document.querySelector("[data-find]")) });
    at = Math.max(0, hits.findIndex(({ href }) => href === was));
    show();
  };
  const show = () => {
    list.replaceChildren(...hits.map(({ label, hint, sign }, i) => {
      const item = document.createElement("li");
      item.id = `palette-${i}`;
      item.setAttribute("role", "option");
      item.setAttribute("aria-selected", String(i === at));
      const name = document.createElement("span"), more = document.createElement("span");
      name.textContent = label;
      more.textContent = hint || "";
      more.className = "quiet";
      item.append(...(sign ? [sign] : []), name, more);
      item.addEventListener("click", () => { at = i; go(); });
      return item;
    }));
    input.setAttribute("aria-activedescendant", hits.length ? `palette-${at}` : "");
    list.children[at]?.scrollIntoView({ block: "nearest" });
  };
  const find = async () => {
    const text = input.value.trim();
    const found = await Promise.all([ask("/console/find?q=", text, 12, hit), ask("/docs/search?q=", text, 4, guide)]);
    if (text !== input.value.trim()) return;
    answered = found.flat();
    draw();
  };
  input.addEventListener("input", () => {
    moved = false;
    answered = [];
    draw();
    clearTimeout(typing);
    if (input.value.trim().length > 1) typing = setTimeout(find, 150);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      moved = true;
      at = (at + (event.key === "ArrowDown" ? 1 : -1) + hits.length) % Math.max(1, hits.length);
      show();
    } else if (event.key === "Enter") { event.preventDefault(); go(); }
  });
  draw();
  box.showModal();
  input.focus();
}

document.addEventListener("click", (event) => {
  if (event.button || event.metaKey || event.ctrlKey || event.shiftKey || !event.target.closest?.("[data-find]")) return;
  event.preventDefault();
  palette();
}, true);

function help() {
  const box = dialog("help", "Keys");
  const list = document.createElement("dl");
  list.className = "facts";
  const lines = [["Ctrl K", "find"], ["/", "search"], ["g, then a letter", ...places().filter((l) => l.dataset.key).map((l) => [l.dataset.key, l.textContent.trim()])],
    ["j k", "next and previous row"], ["Enter", "open"], ["x", "choose"], ["r", "the row's act"], [".", "the page's acts"], ["l", "live or paused"], ["?", "this help"]];
  const sign = (key) => Object.assign(document.createElement("kbd"), { textContent: key });
  for (const [key, ...of] of lines) {
    const line = document.createElement("div"), name = document.createElement("dt"), value = document.createElement("dd");
    name.append(sign(key));
    value.append(...of.map((place) => {
      if (typeof place === "string") return place;
      const to = document.createElement("span");
      to.append(sign(place[0]), " ", place[1]);
      return to;
    }));
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
