// Keeps the page up to date: each callback is announced by the server, the page is fetched
// again and its content put in place of the old. Without this script the page is the same,
// and a reload brings what is new.

const state = document.getElementById("state");
const pause = document.getElementById("pause");
let paused = false;
let waiting = false;

const search = document.querySelector(".search");

// swap puts the live parts of another copy of the page in place of this one's. The form
// stays: somebody may be typing.
function swap(html) {
  const page = new DOMParser().parseFromString(html, "text/html");
  const open = {};
  document.querySelectorAll("details[data-keep]").forEach((d) => { open[d.dataset.keep] = d.open; });
  page.querySelectorAll("details[data-keep]").forEach((d) => {
    if (d.dataset.keep in open) d.open = open[d.dataset.keep];
  });
  const list = document.querySelector(".rows");
  const top = list ? list.scrollTop : 0;
  document.querySelectorAll("[data-live]").forEach((old) => old.replaceWith(page.getElementById(old.id)));
  const fresh = document.querySelector(".rows");
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
  state.querySelector(".dot").classList.toggle("good", on && !paused);
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

// What is searched for is shown while it is typed.
let typed;
function find() {
  clearTimeout(typed);
  typed = setTimeout(async () => {
    const words = new URLSearchParams(new FormData(search));
    history.replaceState(null, "", words.get("q") ? "/?" + words : "/");
    try {
      swap(await (await fetch(location.href)).text());
    } catch {
      // The stream above says that the connection is gone.
    }
  }, 200);
}
search.addEventListener("input", find);
search.addEventListener("submit", (event) => {
  event.preventDefault();
  find();
});
addEventListener("popstate", () => { search.elements.q.value = new URLSearchParams(location.search).get("q") ?? ""; });

search.querySelector("button").hidden = true;
state.hidden = false;
pause.hidden = false;
