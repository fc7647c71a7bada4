// What elements do beyond what the page says without a script.
const use = (name) => `<svg class="icon" aria-hidden="true"><use href="#i-${name}"/></svg>`;
const fine = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const units = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
const relative = new Intl.RelativeTimeFormat(document.documentElement.lang, { style: "narrow", numeric: "always" });

function away(at) {
  const seconds = Math.round((at - Date.now()) / 1000);
  const [unit, size] = units.find(([, size]) => Math.abs(seconds) >= size) || units[3];
  return relative.format(Math.trunc(seconds / size), unit);
}

function pad(n) { return String(n).padStart(2, "0"); }

// Date and time as in the page, in the reader's zone.
function local(at) {
  return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
}

// A time of the day to the millisecond.
function exact(at) { return `${local(at).slice(11)}.${String(at.getMilliseconds()).padStart(3, "0")}`; }

function left(at) {
  let seconds = Math.max(0, Math.round((at - Date.now()) / 1000));
  if (!seconds) return "now";
  const h = Math.floor(seconds / 3600), m = Math.floor(seconds / 60) % 60;
  return h ? `in ${h}:${pad(m)}:${pad(seconds % 60)}` : `in ${m}:${pad(seconds % 60)}`;
}

class Time extends HTMLElement {
  static observedAttributes = ["ago"];
  connectedCallback() { this.show(); }
  show() {
    const time = this.querySelector("time");
    const at = new Date(time?.dateTime || NaN);
    if (isNaN(at)) return;
    const text = this.localName === "wb-countdown" ? left(at) : this.hasAttribute("ago") ? away(at) : this.hasAttribute("exact") ? exact(at) : local(at);
    if (time.textContent !== text) time.textContent = text;
    const title = `${fine.format(at)} · ${time.dateTime}`;
    if (time.title !== title) time.title = title;
  }
}
customElements.define("wb-time", Time);
customElements.define("wb-countdown", class extends Time {});
const tick = () => { if (!document.hidden) for (const e of document.querySelectorAll("wb-countdown, wb-time[ago]")) e.show(); };
setInterval(tick, 1000);
addEventListener("wb:shown", () => { for (const e of document.querySelectorAll("wb-time, wb-countdown, wb-copy, wb-json")) e.show(); });

// What stands in UTC elsewhere is in the reader's zone, too: in the titles of charts, which have both, in sentences, and in
// fields of forms, which are sent in UTC.
function zone() {
  for (const place of document.querySelectorAll("svg title, .why .verdict, .why .advice li, .timeline p")) {
    if (place.firstElementChild) continue;
    const said = place.textContent, both = place.localName === "title";
    const text = said.replace(/(?<!· )(\d{4}-\d\d-\d\d)[T ]([\d:]{8})[\d.]*(Z| UTC)/g, (utc, day, time) => local(new Date(`${day}T${time}Z`)) + (both ? ` · ${utc}` : ""));
    if (said === text) continue;
    place.textContent = text;
    if (!both) place.title = said;
  }
  for (const field of document.querySelectorAll("input[type=datetime-local]")) {
    const at = Date.parse(`${field.defaultValue}Z`);
    if (field.valueAsNumber === at) field.valueAsNumber = at - new Date(at).getTimezoneOffset() * 60000;
  }
  for (const name of document.querySelectorAll(".zone")) name.textContent = new Intl.DateTimeFormat("en", { timeZoneName: "short" }).formatToParts().find((part) => part.type === "timeZoneName").value;
}
zone();
addEventListener("wb:shown", zone);
document.addEventListener("formdata", (event) => {
  for (const field of event.target.querySelectorAll("input[type=datetime-local]")) {
    if (field.value) event.formData.set(field.name, new Date(field.value).toISOString().slice(0, 19));
  }
});

// Only a page of this machine, or one by HTTPS, may use the clipboard as such; elsewhere a selection
// is copied.
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

customElements.define("wb-copy", class extends HTMLElement {
  connectedCallback() { this.show(); }
  show() {
    if (this.firstChild) return;
    const button = document.createElement("button");
    button.type = "button";
    button.title = "Copy";
    button.setAttribute("aria-label", "Copy");
    button.innerHTML = use("copy");
    button.addEventListener("click", async () => {
      if (!await copied(this.dataset.text)) return;
      button.innerHTML = use("check");
      dispatchEvent(new CustomEvent("wb:say", { detail: "Copied." }));
      setTimeout(() => { button.innerHTML = use("copy"); }, 1500);
    });
    this.append(button);
  }
});

// Colours the tokens of JSON. The text stays what it is: nodes are made of it, never HTML.
const token = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|\b(true|false|null)\b/g;
customElements.define("wb-json", class extends HTMLElement {
  connectedCallback() { this.show(); }
  show() {
    const code = this.querySelector("code");
    const text = code?.textContent || "";
    if (!code || code.firstElementChild || text.length > 200_000) return;
    const parts = document.createDocumentFragment();
    let from = 0;
    for (const match of text.matchAll(token)) {
      parts.append(text.slice(from, match.index));
      const span = document.createElement("span");
      span.className = match[1] ? (match[2] ? "j-key" : "j-string") : match[3] ? "j-number" : "j-word";
      span.textContent = match[1] ?? match[0];
      parts.append(span, match[2] ?? "");
      from = match.index + match[0].length;
    }
    parts.append(text.slice(from));
    code.replaceChildren(parts);
  }
});

// A box in the head of a table chooses all rows.
document.addEventListener("change", (event) => {
  if (!event.target.matches("input[data-all]")) return;
  for (const box of event.target.closest("table").querySelectorAll("tbody input[type=checkbox]")) box.checked = event.target.checked;
});

// What a row of a list cuts is shown whole under the pointer.
document.addEventListener("mouseover", (event) => {
  const cell = event.target.closest?.(".list td");
  if (cell && cell.scrollWidth > cell.clientWidth) cell.title = cell.innerText;
});
