// The search while one types, the place in the page, and the viewer of the HTTP API. Without this
// script the search is a form, and everything can be read.
const field = document.getElementById("q");
const panel = document.getElementById("found");
const say = (text) => { document.getElementById("said").textContent = text; };
let asked = 0;

function hide() { panel.hidden = true; }

async function find() {
  const words = field.value.trim(), mine = ++asked;
  if (!words) { hide(); return; }
  try {
    const answer = await fetch("/docs/search?" + new URLSearchParams({ q: words }));
    const results = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("results");
    if (mine !== asked || !results) return;
    results.removeAttribute("id");
    panel.replaceChildren(results);
    panel.hidden = false;
    const n = panel.querySelectorAll("a").length;
    say(n ? `${n} found` : "Nothing is found");
  } catch {
    hide(); // the form still works once the server is back
  }
}

let typing;
field.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(find, 120); });
field.addEventListener("focus", () => { if (panel.firstChild && field.value.trim()) panel.hidden = false; });
document.addEventListener("click", (event) => { if (!event.target.closest(".find")) hide(); });
panel.addEventListener("click", (event) => { if (event.target.closest("a")) hide(); });

document.addEventListener("keydown", (event) => {
  const typed = event.target.closest("input, textarea, select, [contenteditable]");
  if (event.key === "/" && !typed && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    field.focus();
    field.select();
  }
  if (!event.target.closest(".find")) return;
  const links = [...panel.querySelectorAll("a")], at = links.indexOf(document.activeElement);
  if (event.key === "Escape" && !panel.hidden) { hide(); field.focus(); event.preventDefault(); }
  if (event.key === "ArrowDown" && at + 1 < links.length && !panel.hidden) { links[at + 1].focus(); event.preventDefault(); }
  if (event.key === "ArrowUp" && at >= 0) { (links[at - 1] ?? field).focus(); event.preventDefault(); }
});

// The line of the contents that is being read.
const lines = new Map([...document.querySelectorAll(".toc a")].map((a) => [a.hash.slice(1), a]));
const heads = [...lines.keys()].map((id) => document.getElementById(id)).filter(Boolean);
function mark() {
  const now = heads.findLast((h) => h.getBoundingClientRect().top < 120) ?? heads[0];
  for (const a of lines.values()) a.toggleAttribute("aria-current", a === lines.get(now.id));
}
if (heads.length) {
  let waits = false;
  addEventListener("scroll", () => {
    if (waits) return;
    waits = true;
    requestAnimationFrame(() => { waits = false; mark(); });
  }, { passive: true });
  mark();
}
// In a narrow window the contents would fill the first screen.
const contents = document.querySelector(".toc details");
if (contents && matchMedia("(max-width: 1199px)").matches) contents.open = false;

// Everything comes from this server, and requests that are tried out go to it.
if (window.SwaggerUIBundle) {
  window.SwaggerUIBundle({
    url: "/openapi",
    dom_id: "#swagger-ui",
    deepLinking: true,
    validatorUrl: null,
    presets: [window.SwaggerUIBundle.presets.apis],
    layout: "BaseLayout",
    docExpansion: "list",
    filter: true,
    defaultModelsExpandDepth: 0,
    displayRequestDuration: true,
    persistAuthorization: false,
    showExtensions: true,
    tryItOutEnabled: false,
    syntaxHighlight: { activated: false }, // its colours are its own
  });
}
