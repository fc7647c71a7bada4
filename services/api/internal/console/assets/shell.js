// Links and forms within the console, without loading the page anew: the answer's <main> is
// morphed into the one that is there, so that focus, scroll, open details and what was typed stay.
// Without this script every link and form works as it is.
const main = () => document.getElementById("main");
const said = () => document.getElementById("said");
let running; // the AbortController of the page that is on its way

export function say(text) {
  const region = said();
  if (!region) return;
  region.textContent = "";
  setTimeout(() => { region.textContent = text; }, 60);
}

function ours(url) {
  return url.origin === location.origin && (url.pathname === "/console" || url.pathname.startsWith("/console/"))
    && !/^\/console\/(assets|live|oidc|enter|sign-)/.test(url.pathname);
}

// keep tells idiomorph what it must leave as it is: open details, and fields with the focus or
// with something typed.
const keep = {
  beforeAttributeUpdated(name, node, kind) {
    if (name === "open" && node.matches("details, dialog")) return false;
    if (name === "value" && kind === "update" && node.matches("input") && node === document.activeElement) return false;
    return true;
  },
  beforeNodeMorphed(old) {
    if (old.nodeType !== 1) return true;
    if (old === document.activeElement && old.matches("textarea, select")) return false;
    return !(old.matches("input, textarea, select") && old.dataset.typed);
  },
};

// put shows a page that was fetched. With fresh it is another page than before.
function put(text, fresh) {
  const page = new DOMParser().parseFromString(text, "text/html");
  const next = page.getElementById("main");
  if (!next || !page.documentElement.hasAttribute("data-signed")) return false;
  document.title = page.title;
  if (fresh) {
    for (const field of main().querySelectorAll("[data-typed]")) delete field.dataset.typed;
    for (const open of main().querySelectorAll("details[open]")) open.open = false;
  }
  window.Idiomorph.morph(main(), [...next.childNodes], { morphStyle: "innerHTML", ignoreActiveValue: !fresh, callbacks: keep });
  const nav = page.querySelector(".nav-fold");
  if (nav) {
    window.Idiomorph.morph(document.querySelector(".nav-fold"), [...nav.childNodes], { morphStyle: "innerHTML" });
    if (fresh) document.querySelector(".nav-fold").open = false;
  }
  const theme = page.querySelector(".theme [name=next]");
  if (theme) document.querySelector(".theme [name=next]").value = theme.value;
  window.dispatchEvent(new CustomEvent("wb:shown", { detail: { fresh } }));
  return true;
}

async function load(request, { push = true, fresh = true, quiet = false } = {}) {
  running?.abort();
  const control = running = new AbortController();
  const bar = document.createElement("div");
  bar.className = "progress";
  let arrived = false;
  const slow = quiet ? 0 : setTimeout(() => document.body.append(bar), 300);
  try {
    request.headers.set("Accept", "text/html"); // beside the Content-Type of a form, which headers given to fetch would replace
    const answer = await fetch(request, { signal: control.signal });
    const text = await answer.text();
    if (control.signal.aborted) return;
    arrived = true;
    const url = new URL(answer.url);
    url.hash = new URL(request.url).hash;
    if (!(answer.headers.get("Content-Type") || "").startsWith("text/html") || !ours(url) || !put(text, fresh)) {
      location.assign(request.method === "GET" ? request.url : answer.url);
      return;
    }
    if (push && url.href !== location.href) history.pushState({}, "", url);
    if (fresh) {
      const target = url.hash && document.getElementById(decodeURIComponent(url.hash.slice(1)));
      if (target) target.scrollIntoView();
      else if (push) scrollTo(0, 0);
      const wrong = main().querySelector("[aria-invalid]");
      (wrong || main()).focus({ preventScroll: !wrong });
      say(main().querySelector(".flash")?.textContent.trim() || document.title);
    }
  } catch (error) {
    if (error.name === "AbortError") return;
    if (arrived && request.method === "GET") { location.assign(request.url); return; } // the page can't be morphed
    if (!quiet) say("The server can't be reached. Try again.");
    window.dispatchEvent(new CustomEvent("wb:lost"));
  } finally {
    clearTimeout(slow);
    bar.remove();
    if (running === control) running = undefined;
    if (owed && !running) again();
  }
}

export const visit = (url) => load(new Request(new URL(url, location.href)), {});

// again reads the page anew where it stands; new rows come in, nothing that the reader does is lost.
// What is asked for while a page is on its way is done after it: that page may be older.
let owed = false;
export function again() {
  owed = Boolean(running);
  if (!owed) load(new Request(location.href), { push: false, fresh: false, quiet: true });
}

// What the live stream does not tell of is followed by <div data-refresh="2">: its page is read anew
// every two seconds, for as long as that is there.
let due;
function follow() {
  clearTimeout(due);
  const seconds = Number(main()?.querySelector("[data-refresh]")?.dataset.refresh);
  if (seconds) due = setTimeout(() => { if (document.hidden || running || localStorage.getItem("waybill-paused") === "1") follow(); else again(); }, seconds * 1000);
}
addEventListener("wb:shown", follow);
addEventListener("wb:lost", follow);
follow();

addEventListener("wb:again", again);
addEventListener("wb:visit", (event) => visit(event.detail));
addEventListener("wb:say", (event) => say(event.detail));

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  if (link.target || link.hasAttribute("download") || link.closest("[data-plain]") || !document.documentElement.hasAttribute("data-signed")) return;
  const url = new URL(link.href);
  if (!ours(url)) return;
  if (url.hash && url.pathname === location.pathname && url.search === location.search) return;
  event.preventDefault();
  load(new Request(url));
});

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (event.defaultPrevented || form.closest("[data-plain]") || !document.documentElement.hasAttribute("data-signed")) return;
  const button = event.submitter;
  const url = new URL(button?.hasAttribute("formaction") ? button.formAction : form.getAttribute("action") || location.href, location.href);
  if (!ours(url) || form.enctype === "multipart/form-data") return;
  event.preventDefault();
  const data = new URLSearchParams(new FormData(form, button));
  if ((button?.getAttribute("formmethod") || form.method).toLowerCase() === "get") {
    for (const [name, value] of [...data]) if (!value) data.delete(name, value);
    url.search = data;
    load(new Request(url));
    return;
  }
  if (button) { button.disabled = true; addEventListener("wb:shown", () => { button.disabled = false; }, { once: true }); addEventListener("wb:lost", () => { button.disabled = false; }, { once: true }); }
  load(new Request(url, { method: "POST", body: data }));
});

document.addEventListener("input", (event) => { if (event.target.form?.method === "post") event.target.dataset.typed = "1"; });

addEventListener("popstate", () => {
  if (document.documentElement.hasAttribute("data-signed")) load(new Request(location.href), { push: false });
});

// A menu closes when the focus or a click goes elsewhere.
document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
});
document.addEventListener("keydown", (event) => {
  const menu = event.key === "Escape" && document.querySelector("details.menu[open]");
  if (menu) { menu.open = false; menu.querySelector("summary").focus(); }
});

// The code of a one-time link is in the fragment, which no server and no scanner sees. It is
// taken out of the address before it is sent.
const enter = document.querySelector("form[data-enter]");
if (enter && location.hash.length > 1) {
  enter.elements.code.value = location.hash.slice(1);
  history.replaceState(null, "", location.pathname);
  enter.submit();
}
