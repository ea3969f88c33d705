// The labelling page: shows a pair, takes one key or tap, prefetches the next two.
"use strict";

const BASE = location.pathname;
const SAID = { tie: "Equally good.", skip: "Skipped.", "cant-say": "Cannot be said." };
const KEYS = {
  ArrowLeft: "left", 1: "left", ArrowRight: "right", 2: "right", ArrowDown: "tie", 0: "tie",
  " ": "skip", "?": "cant-say", z: "undo", Backspace: "undo", h: "help",
};
const AT_ONCE = 150; // ms: a second press within this time was meant for the previous pair
const OUTBOX = `sortnet outbox ${BASE}`;
const $ = (id) => document.getElementById(id);
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

let queue = []; // the pairs leased to this page; the first is shown
let shown = null; // the pair to answer; null while no answer is accepted
let shownAt = 0;
let drawn = null; // the lease of the pair on the screen
let outbox = JSON.parse(recall("sessionStorage", OUTBOX) || "[]"); // requests that were not acknowledged yet
const answered = new Set(outbox.map((entry) => entry.lease)); // leases that were answered already
let state = { answered: 0, last: null, lease_seconds: 600 };
let sending = false;
let lost = false; // whether the notice is about the connection

// Browsers may block storage: then the page works without it.
function recall(storage, name) {
  try {
    return window[storage].getItem(name);
  } catch {
    return null;
  }
}

function keep(storage, name, value) {
  try {
    window[storage].setItem(name, value);
  } catch { /* lost with the page */ }
}

function notice(text) {
  $("notice").textContent = text;
  $("notice").hidden = !text;
}

function element(side, item) {
  const parts = [];
  const add = (tag, properties) => {
    const made = Object.assign(document.createElement(tag), properties);
    parts.push(made);
    return made;
  };
  if (item.image) {
    const image = add("img", { alt: `Image of the ${side} item`, src: BASE + item.image });
    image.onerror = () => image.replaceWith("This image cannot be shown.");
  }
  if (item.audio) {
    const audio = add("audio", { controls: true, preload: "auto", src: BASE + item.audio });
    audio.setAttribute("aria-label", `Sound of the ${side} item`);
    audio.onerror = () => audio.replaceWith("This sound cannot be played.");
  }
  return [...parts, ...words(item)];
}

// The text of an item or of a context, with a link to the whole of a long one.
function words(item) {
  const parts = [];
  if (item.text !== null) parts.push(Object.assign(document.createElement("p"), { className: "text", textContent: item.text }));
  if (item.more) {
    const link = { textContent: "The whole text (in a new tab)", target: "_blank", rel: "noopener" };
    parts.push(Object.assign(document.createElement("a"), { ...link, href: BASE + item.more }));
  }
  return parts;
}

// Drawn only where it is another: screen readers read what changes.
function drawContext(context) {
  const box = $("context");
  const text = context ? context.text : "";
  box.hidden = !context;
  if (box.dataset.text === text) return;
  box.dataset.text = text;
  box.replaceChildren(...(context ? words(context) : []));
  box.scrollTop = 0;
}

function draw() {
  const pair = queue[0];
  $("pair").hidden = $("others").hidden = !pair;
  $("undo").disabled = state.last === null && outbox.length === 0;
  const left = state.left === null || state.left === undefined ? "" : ` · about ${state.left} left`;
  const waiting = outbox.length > 1 ? ` · ${outbox.length} to be sent` : "";
  $("progress").textContent = `${state.answered + pending()} answered${left}${waiting}`;
  if (!pair) drawContext(null);
  if (!pair || pair.lease === drawn) return;
  drawContext(pair.context);
  for (const side of ["left", "right"]) {
    const box = $(side).querySelector(".item");
    box.replaceChildren(...element(side, pair[side]));
    box.scrollTop = 0;
  }
  drawn = pair.lease;
  for (const next of queue.slice(1))
    for (const item of [next.left, next.right]) if (item.image) new Image().src = BASE + item.image;
  requestAnimationFrame(() => {
    shown = pair;
    shownAt = performance.now();
  });
}

const VOTES = ["left", "right", "tie"]; // a skip or "can't say" is no answer
const pending = () => outbox.reduce((n, entry) => n + (entry.lease ? VOTES.includes(entry.answer) : -1), 0);

function act(what) {
  if (what === "help") $("help").open = !$("help").open;
  else if (what === "undo") undo();
  else if (shown && performance.now() - shownAt >= AT_ONCE) {
    answered.add(shown.lease);
    const milliseconds = Math.round(performance.now() - shownAt);
    put({ path: "/answer", lease: shown.lease, answer: what, milliseconds });
    $("said").textContent = SAID[what] || `${$(what).querySelector(".label").innerText}.`;
    queue.shift();
    shown = null;
    draw();
    flush();
  }
}

function undo() {
  if ($("undo").disabled || outbox.some((entry) => entry.path === "/undo")) return;
  shown = null; // until the undone pair is back
  put({ path: "/undo" });
  flush();
}

function put(entry) {
  if (entry) outbox.push(entry);
  keep("sessionStorage", OUTBOX, JSON.stringify(outbox));
}

// One request at a time, in the order of the answers; retried while the server is unreachable.
async function flush() {
  if (sending) return;
  sending = true;
  try {
    do {
      const entry = outbox[0] || { path: "/next" };
      if (entry.path === "/undo" && entry.last === undefined) entry.last = state.last;
      put();
      const { path, ...body } = entry;
      const [status, reply] = await post(path, body);
      if (outbox[0] === entry) outbox.shift();
      put();
      take(status, reply, path);
    } while (outbox.length);
  } finally {
    sending = false; // even if handling the reply failed
  }
}

async function post(path, body) {
  for (let wait = 500; ; wait = Math.min(2 * wait, 8000)) {
    try {
      const reply = await fetch(BASE + path, {
        method: "POST", body: JSON.stringify(body), signal: AbortSignal.timeout(15000),
        headers: { "Content-Type": "application/json" }, credentials: "omit", cache: "no-store",
      });
      if (reply.status < 500 && reply.status !== 429) {
        const found = [reply.status, await reply.json()];
        if (lost) notice("");
        lost = false;
        return found;
      }
    } catch { /* unreachable: wait */ }
    lost = true;
    notice("The server cannot be reached. Your answers are kept here and sent when it is back.");
    await pause(wait);
  }
}

function take(status, reply, path) {
  if (status === 404 || status === 403) return end(reply.error);
  const lostOne = path === "/answer" ? " That answer was not counted; here is the next pair." : "";
  notice(reply.error ? reply.error + lostOne : "");
  if (!reply.pairs) return draw();
  state = reply;
  if (path === "/undo" && reply.undone) $("said").textContent = "Undone: here is the pair again.";
  const fresh = reply.pairs.filter((pair) => !answered.has(pair.lease));
  if (path !== "/undo") {
    const current = fresh.findIndex((pair) => pair.lease === drawn);
    if (current > 0) fresh.unshift(...fresh.splice(current, 1)); // keep the pair that is being read
    if (current < 0 && shown) $("said").textContent = "That pair was given to another annotator.";
  }
  queue = fresh;
  if (queue[0]?.lease !== shown?.lease) shown = null;
  else shown = queue[0];
  if (path === "/undo") drawn = null; // redraw the pair in any case
  if (queue.length === 0 && outbox.length === 0) end(reply.why);
  else if (reply.stop) notice(`${reply.why} You may stop here, or continue.`);
  draw();
}

function end(why) {
  queue = [];
  shown = drawn = null;
  notice(why);
  draw();
}

document.addEventListener("keydown", (event) => {
  if (event.repeat || event.ctrlKey || event.altKey || event.metaKey || event.isComposing) return;
  // Some keyboards have ? or digits on the upper half of a key.
  if (event.shiftKey && (event.key.length > 1 || event.key === " ")) return;
  const at = event.target;
  if (at.closest("textarea, select, [contenteditable], input:not([type=checkbox]), audio")) return;
  if (event.key === " " && at.closest("button, a, summary, input")) return; // activates it
  if (event.key === "ArrowDown" && at.scrollHeight > at.clientHeight && at.matches(".item, .context")) return;
  if (event.key.length === 1 && !$("keys").checked) return;
  const what = KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!what) return;
  event.preventDefault();
  act(what);
});
for (const button of document.querySelectorAll("button")) {
  button.addEventListener("click", (event) => {
    if (event.detail) button.blur(); // or the next Space would activate it again
    act(button.dataset.answer || "undo");
  });
}
$("keys").checked = recall("localStorage", "sortnet keys") !== "off";
$("keys").addEventListener("change", () => {
  keep("localStorage", "sortnet keys", $("keys").checked ? "on" : "off");
});
window.addEventListener("beforeunload", (event) => outbox.length && event.preventDefault());

// A visible page renews its leases; a page without pairs asks at intervals.
async function renew() {
  for (;;) {
    const idle = queue.length === 0;
    await pause(idle ? 5000 : (state.lease_seconds * 1000) / 3);
    if (!document.hidden) flush();
  }
}
document.addEventListener("visibilitychange", () => document.hidden || flush());
flush();
renew();
