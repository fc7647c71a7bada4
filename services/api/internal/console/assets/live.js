// What has changed, as the API tells it: a kind and an id, never data. One stream a browser: the
// tab that holds the lock has it and tells the others. It is closed while the tab is hidden.
const channel = new BroadcastChannel("waybill-live");
const paused = () => localStorage.getItem("waybill-paused") === "1";
let stream, release, waiting = 0;

// Nobody was told what happened while no stream was open. So every page that is live looks once
// more after a stream has opened, a second later: by then those who tell know that somebody listens.
const opened = "opened";

// A page says what it is made of: <div data-live="delivery webhook">. Nothing: it stays.
function concerned(kind) {
  return [...document.querySelectorAll("[data-live]")].some((e) => kind === opened || e.dataset.live.split(" ").includes(kind));
}

// At most one reading a second, however much happens.
const every = 1000;
let timer, last = 0;
function nudge(kind) {
  if (!concerned(kind)) return;
  if (paused()) { waiting++; show(); return; }
  if (document.hidden || timer) return;
  timer = setTimeout(look, kind === opened ? every : Math.max(0, every - (Date.now() - last)));
}

function look() {
  timer = undefined;
  if (paused()) return;
  last = Date.now();
  dispatchEvent(new Event("wb:again"));
}

channel.onmessage = (event) => nudge(event.data);

function open() {
  if (stream || document.hidden || paused()) return;
  navigator.locks.request("waybill-live", { ifAvailable: true }, (lock) => {
    if (!lock || stream) return;
    stream = new EventSource("/console/live");
    const heard = (event) => {
      let kind;
      try { kind = JSON.parse(event.data).kind; } catch { return; }
      channel.postMessage(kind);
      nudge(kind);
    };
    for (const name of ["message", "event", "delivery", "webhook", "job"]) stream.addEventListener(name, heard);
    stream.onopen = () => { show(); channel.postMessage(opened); nudge(opened); };
    stream.onerror = () => { if (stream?.readyState === EventSource.CLOSED) close(true); show(); };
    return new Promise((done) => { release = done; });
  });
}

let ended = false; // the API has no stream, or the session is over
function close(forGood) {
  ended ||= forGood === true;
  stream?.close();
  stream = undefined;
  release?.();
}

// Whoever gets the lock when its holder goes takes over.
setInterval(() => { if (!ended) open(); }, 5000);
document.addEventListener("visibilitychange", () => {
  if (document.hidden) return close();
  open();
  if (!paused() && document.querySelector("[data-live]")) dispatchEvent(new Event("wb:again"));
});
addEventListener("pagehide", close);

function show() {
  const place = document.querySelector("wb-live");
  if (!place) return;
  place.hidden = false;
  let button = place.querySelector("button");
  if (!button) {
    button = document.createElement("button");
    button.type = "button";
    button.append(document.createElement("i"), document.createElement("span"));
    button.addEventListener("click", toggle);
    place.append(button);
  }
  const state = paused() ? "paused" : "live";
  place.setAttribute("state", state);
  button.querySelector("span").textContent = paused() ? (waiting ? `Paused · ${waiting} new` : "Paused") : "Live";
  button.title = paused() ? "Follow what happens (l)" : "Pause (l)";
  button.setAttribute("aria-pressed", String(paused()));
}

export function toggle() {
  localStorage.setItem("waybill-paused", paused() ? "0" : "1");
  if (paused()) close();
  else { waiting = 0; ended = false; open(); dispatchEvent(new Event("wb:again")); }
  show();
}
addEventListener("wb:live", toggle);
addEventListener("storage", show);
addEventListener("wb:shown", () => { waiting = 0; show(); });
open();
show();
