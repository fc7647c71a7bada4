// Keeps the page up to date: each callback is announced by the server, the page is fetched
// again and its content put in place of the old. Without this script the page is the same,
// and a reload brings what is new.
"use strict";

const state = document.getElementById("state");
const pause = document.getElementById("pause");
let paused = false;
let waiting = false;

// swap puts the live parts of another copy of the page in place of this one's. The form
// stays: somebody may be typing.
function swap(html) {
  const page = new DOMParser().parseFromString(html, "text/html");
  const open = {};
  document.querySelectorAll("details[data-keep]").forEach((d) => { open[d.dataset.keep] = d.open; });
  page.querySelectorAll("details[data-keep]").forEach((d) => {
    if (d.dataset.keep in open) d.open = open[d.dataset.keep];
  });
  const list = document.querySelector(".list");
  const top = list ? list.scrollTop : 0;
  document.querySelectorAll("[data-live]").forEach((old) => old.replaceWith(page.getElementById(old.id)));
  const fresh = document.querySelector(".list");
  if (fresh) fresh.scrollTop = top;
}

// refresh fetches the page, at most once in 150 ms however many callbacks come.
function refresh() {
  if (waiting || paused) return;
  waiting = true;
  setTimeout(async () => {
    waiting = false;
    try {
      const answer = await fetch(location.href);
      if (answer.ok && !paused) swap(await answer.text());
    } catch {
      // The stream below says that the connection is gone, and comes back by itself.
    }
  }, 150);
}

function show(on) {
  state.classList.toggle("on", on && !paused);
  state.querySelector("span").textContent = paused ? "paused" : on ? "live" : "not connected";
}

const stream = new EventSource("/-/live");
stream.onopen = () => { show(true); refresh(); };
stream.onerror = () => show(false);
stream.onmessage = refresh;

pause.addEventListener("click", () => {
  paused = !paused;
  pause.textContent = paused ? "Go on" : "Pause";
  show(stream.readyState === EventSource.OPEN);
  refresh();
});

// A callback is shown without loading the page whole; back and forward work.
document.addEventListener("click", async (event) => {
  const link = event.target.closest("a[href^='/?n=']");
  if (!link || event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
  event.preventDefault();
  history.pushState(null, "", link.href);
  try {
    swap(await (await fetch(link.href)).text());
  } catch {
    location.href = link.href;
  }
});
addEventListener("popstate", refresh);

state.hidden = false;
pause.hidden = false;
