// The labelling page: shows a question, takes a key or tap, prefetches the next two questions.
"use strict";

const BASE = location.pathname;
const SAID = { tie: "Equally good.", same: "All the same.", skip: "Skipped.", "cant-say": "Cannot be said." };
const KEYS = {
  ArrowLeft: "left", 1: "left", ArrowRight: "right", 2: "right", ArrowDown: "tie", 0: "tie",
  " ": "skip", "?": "cant-say", z: "undo", Backspace: "undo", h: "help", c: "comment", f: "flag",
  "+": "zoom-in", "=": "zoom-in", "-": "zoom-out", v: "flip", a: "play-left", s: "play-right",
  d: "diff", m: "markdown",
};
// Of a question about more than two items; what the skip and the undo of a pair do, they do here.
const SET_KEYS = {
  ...Object.fromEntries(places.map((place) => [place + 1, `place-${place}`])),
  ArrowDown: "same", 0: "same", "=": "same", " ": "skip", s: "skip", u: "undo",
  ...Object.fromEntries(["?", "z", "Backspace", "h", "c", "f", "+", "-", "m"].map((key) => [key, KEYS[key]])),
};
const ACTS = {
  ...Object.fromEntries(places.map((place) => [`place-${place}`, () => chooseAt(place)])),
  undo, comment: openRemark, flag: toggleFlag, help: () => $("manual").showModal(),
  "zoom-in": () => zoomBy(STEP), "zoom-out": () => zoomBy(1 / STEP), flip: () => flip(!isFlipped()),
  "play-left": () => play("left"), "play-right": () => play("right"),
  diff: toggleDifference, markdown: toggleMarkdown,
};
const AT_ONCE = 150; // ms: a second press within this time was meant for the previous pair
const BRIEF = 200; // characters; if both texts are shorter, both are set larger
const COMPARED = 60; // characters; what differs in shorter texts is seen without marks
const FORMATS = /[*_`#|[\]>~\n]/; // characters without which a text looks the same formatted
const MOVED = 6; // pixels: a click that moved further is no answer
const OUTBOX = `sortnet outbox ${BASE}`, REMARKS = `sortnet remarks ${BASE}`;
const $ = (id) => document.getElementById(id);
const button = (what) => document.querySelector(`[data-act=${what}]`);
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const itemsOf = (asked) => asked.items || [asked.left, asked.right];

let queue = []; // the questions leased to this page; the first is shown
let shown = null; // the question to answer; null while no answer is accepted
let shownAt = 0;
let drawn = null; // the lease of the question on the screen
let drawnItems = ""; // and its items
let outbox = JSON.parse(recall("sessionStorage", OUTBOX) || "[]"); // requests that were not acknowledged yet
let remarks = JSON.parse(recall("sessionStorage", REMARKS) || "{}"); // {lease: {comment, flagged}} until acknowledged
const answered = new Set(outbox.map((entry) => entry.lease)); // leases that were answered already
const given = []; // the remarks of this page's answers, for an undo
let state = { answered: 0, last: null, lease_seconds: 600 };
let sending = false;
let lost = false; // whether the notice is about the connection
let fault = ""; // what became of the last answer, if it was not counted
let known = ""; // key of the instructions in the dialog
let markdown = recall("localStorage", "sortnet markdown") === "on";
let differing = false; // whether the texts show their difference

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

// A notice is read by screen readers whenever it changes.
function notice(text) {
  if ($("notice").textContent !== text) $("notice").textContent = text;
  $("notice").hidden = !text;
  // A long one scrolls in its place, by keys too.
  $("notice").removeAttribute("tabindex");
  if ($("notice").scrollHeight > $("notice").clientHeight) $("notice").tabIndex = 0;
}

function make(tag, properties, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

// What a card shows of an item that is called `name`.
function content(name, item) {
  const parts = [];
  if (item.image) {
    const image = make("img", { alt: `Image of ${name}`, src: BASE + item.image });
    const frame = make("div", { className: "frame" }, image);
    image.onerror = () => frame.replaceWith("This image cannot be shown.");
    parts.push(frame);
  }
  if (item.audio) {
    const audio = make("audio", { controls: true, preload: "auto", src: BASE + item.audio });
    audio.setAttribute("aria-label", `Sound of ${name}`);
    audio.onerror = () => audio.replaceWith("This sound cannot be played.");
    parts.push(audio);
  }
  return [...parts, ...words(item), ...columns(item.shown || {})];
}

// The text of an item or of a context, with a link to the whole of a long one.
function words(item) {
  const parts = [];
  // The server lets only harmless elements into its HTML, and the policy of the page no script.
  if (item.html) parts.push(make("div", { className: "text formatted", dir: "auto", innerHTML: item.html }));
  else if (item.text !== null) parts.push(make("p", { className: "text", dir: "auto", textContent: item.text }));
  if (item.more) {
    const link = { textContent: "The whole text (in a new tab)", target: "_blank", rel: "noopener" };
    parts.push(make("a", { ...link, href: BASE + item.more }));
  }
  return parts;
}

// Further columns of an item: their names and texts.
function columns(shown) {
  const rows = Object.entries(shown).map(([name, text]) => make("div", {},
    make("dt", { dir: "auto" }, name), make("dd", { dir: "auto" }, text)));
  return rows.length ? [make("dl", { className: "columns" }, ...rows)] : [];
}

// Drawn only where it is another: screen readers read what changes.
function drawContext(context) {
  const box = $("context");
  const text = context ? context.html || context.text : "";
  box.hidden = !context;
  if (box.dataset.text === text) return;
  box.dataset.text = text;
  box.replaceChildren(...(context ? words(context) : []));
  box.scrollTop = 0;
}

function drawQuestion(question) {
  if (!question || $("question").textContent === question) return;
  document.title = document.title.replace($("question").textContent, () => question);
  $("question").textContent = $("manual-title").textContent = question;
  $("news").textContent = question;
}

function drawProgress() {
  const left = queue.length ? state.left ?? null : null, done = state.answered + pending();
  const waiting = outbox.length > 1 ? ` · ${outbox.length} to be sent` : "";
  $("progress").textContent = `${done} answered${left === null ? "" : left ? ` · ${state.range} left` : " · the goal is reached"}${waiting}`;
  $("done").hidden = left === null || done + left === 0;
  Object.assign($("done"), { max: Math.max(done + (left || 0), 1), value: done });
}

const isLong = (text) => text !== null && (text.length >= BRIEF || text.includes("\n"));

function drawItems(pair) {
  const items = JSON.stringify(itemsOf(pair));
  if (items === drawnItems) return; // only the question is another
  drawnItems = items;
  differing = false;
  if (pair.items) drawSet(pair.items, content);
  else drawSides(pair);
  setZoom(1);
  flip(false);
  const texts = itemsOf(pair).map((item) => item.text);
  for (const id of ["pair", "set"]) $(id).classList.toggle("brief", !texts.some(isLong));
  drawTools(pair, texts);
}

function drawSides(pair) {
  for (const side of ["left", "right"]) {
    const box = $(side).querySelector(".item");
    box.replaceChildren(make("div", { className: "inside" }, ...content(`the ${side} item`, pair[side])));
    box.scrollTop = 0;
  }
}

// Offers only the tools that do something for this question, in the instructions, too.
function drawTools(pair, texts) {
  const known = [...texts, pair.context?.text ?? null].filter((text) => text !== null);
  const hasImage = itemsOf(pair).some((item) => item.image), isPair = !pair.items;
  const offered = {
    "zoom-in": hasImage, "zoom-out": hasImage, flip: isPair && hasImage,
    "play-left": isPair && Boolean(pair.left.audio), "play-right": isPair && Boolean(pair.right.audio),
    diff: isPair && texts.every((text) => text !== null && text.length >= COMPARED),
    markdown: known.some((text) => FORMATS.test(text)),
  };
  for (const [what, on] of Object.entries(offered)) button(what).hidden = !on;
  const listed = {
    ...offered, play: offered["play-left"] || offered["play-right"], long: known.some(isLong),
    pair: isPair, set: !isPair, worst: Boolean(pair.worst), "only-best": !isPair && !pair.worst,
  };
  for (const row of document.querySelectorAll("[data-tool]")) row.hidden = !listed[row.dataset.tool];
  // Once there were tools their place is kept, or the cards of the next pair would be elsewhere.
  if (Object.values(offered).some(Boolean)) $("tools").hidden = false;
  drawPressed();
}

function drawPressed() {
  const { comment, flagged } = remarks[queue[0]?.lease] || {};
  const pressed = { diff: differing, markdown, flip: isFlipped(), flag: Boolean(flagged), comment: Boolean(comment) };
  for (const [what, on] of Object.entries(pressed)) button(what).setAttribute("aria-pressed", on);
}

function draw() {
  const pair = queue[0];
  $("pair").hidden = !pair || Boolean(pair.items);
  $("set").hidden = !pair?.items;
  document.body.classList.toggle("idle", !pair);
  document.body.classList.toggle("several", Boolean(pair?.items));
  if (pair?.lease !== drawn) setBest(null);
  drawUndo();
  drawProgress();
  drawQuestion(pair ? pair.question : state.question);
  if (!pair) drawContext(null);
  if (!pair || pair.lease === drawn) return;
  drawContext(pair.context);
  drawItems(pair);
  drawn = pair.lease;
  if (pair.items) scrollTo(0, 0); // on a phone they are longer than the screen
  drawPressed();
  $("news").textContent = `${pair.items ? "Question" : "Pair"} ${state.answered + pending() + 1}: ${pair.question}`;
  for (const next of queue.slice(1))
    for (const item of itemsOf(next)) if (item.image) new Image().src = BASE + item.image;
  requestAnimationFrame(() => {
    shown = pair;
    shownAt = performance.now();
  });
}

function drawUndo() {
  $("undo").disabled = best === null && state.last === null && outbox.length === 0;
}

const VOTES = ["left", "right", "tie", "best", "same"]; // a skip or "can't say" is no answer
const pending = () => outbox.reduce((n, entry) => n + (entry.lease ? VOTES.includes(entry.answer) : -1), 0);

function act(what) {
  if (!button(what).hidden && !button(what).disabled) (ACTS[what] || answer)(what);
}

function chooseAt(place) {
  if (!shown || performance.now() - shownAt < AT_ONCE) return;
  choose(place, shown.worst, (chosen) => answer("best", chosen));
  drawUndo();
}

// `chosen`: the places of the best and the worst item.
function answer(what, chosen = {}) {
  if (!shown || performance.now() - shownAt < AT_ONCE) return;
  if (isFlipped()) {
    flip(false);
    drawPressed();
    $("said").textContent = "Back in their places: answer now.";
    return;
  }
  answered.add(shown.lease);
  const milliseconds = Math.round(performance.now() - shownAt);
  put({ path: "/answer", lease: shown.lease, criterion: shown.criterion, answer: what, ...chosen, milliseconds, ...remarks[shown.lease] });
  $("said").textContent = SAID[what] || inWords(what, chosen);
  queue.shift();
  shown = null;
  draw();
  flush();
}

function inWords(what, chosen) {
  if (what !== "best") return `${$(`${what}-title`).innerText} is better.`;
  const worst = chosen.worst === undefined ? "" : `, ${chosen.worst + 1} the worst`;
  return `${chosen.best + 1} is the best${worst}.`;
}

// Takes back what is chosen of the question on the screen, or else the last answer.
function undo() {
  if (best !== null) {
    setBest(null);
    return drawUndo();
  }
  if ($("undo").disabled || outbox.some((entry) => entry.path === "/undo")) return;
  shown = null; // until the undone pair is back
  put({ path: "/undo" });
  flush();
}

function openRemark() {
  if (!shown) return;
  $("remark").dataset.lease = shown.lease; // the pair may be another when it is closed
  $("text").value = remarks[shown.lease]?.comment || "";
  $("remark").showModal();
}

function remark(facts, lease = queue[0]?.lease) {
  if (!lease) return;
  remarks[lease] = { ...remarks[lease], ...facts };
  keepRemarks();
  drawPressed();
}

const keepRemarks = () => keep("sessionStorage", REMARKS, JSON.stringify(remarks));
const keepComment = () => remark({ comment: $("text").value.trim() }, $("remark").dataset.lease);

function toggleFlag() {
  const flagged = !remarks[queue[0]?.lease]?.flagged;
  remark({ flagged });
  $("said").textContent = flagged ? "Flagged." : "No longer flagged.";
}

function toggleDifference() {
  const pair = queue[0];
  if (!pair || pair.left.text === null || pair.right.text === null) return;
  const on = !differing;
  drawnItems = "";
  drawItems(pair);
  const boxes = ["left", "right"].map((side) => {
    const text = $(side).querySelector(".text");
    if (on) text.replaceWith(make("p", { className: "text", dir: "auto" }, pair[side].text));
    return $(side).querySelector(".text");
  });
  differing = on && drawDifference(boxes, [pair.left.text, pair.right.text]);
  $("said").textContent = !on ? "" : differing ? "What differs is marked." : "These texts are too long to compare word by word.";
  drawPressed();
}

function toggleMarkdown() {
  markdown = !markdown;
  keep("localStorage", "sortnet markdown", markdown ? "on" : "off");
  drawPressed();
  flush(); // the reply has the texts in the other form
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
      if (entry.path === "/undo" && entry.last === undefined) {
        Object.assign(entry, { last: state.last, criterion: state.last_of });
      }
      put();
      const { path, ...body } = entry;
      const [status, reply] = await post(path, { ...body, markdown });
      if (outbox[0] === entry) outbox.shift();
      put();
      take(status, reply, entry);
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

const WHERE = "in another tab of this link";

// What became of an answer or an undo, if it was not counted.
function faultOf(reply, { path, answer, comment, last, criterion }) {
  if (reply.error) {
    const about = answer ? " That answer was not counted." : "";
    return reply.error + about + (comment ? ` Your comment was: ${comment}` : "");
  }
  if (reply.counted) return `That question had been answered ${WHERE} (${reply.counted}); your answer here was not counted. Here is the next one.`;
  if (path === "/undo" && !reply.undone && reply.last_of === criterion && reply.last > last) return `Nothing was undone: there is a newer answer ${WHERE}.`;
  return "";
}

function take(status, reply, entry) {
  const { path, lease } = entry;
  if (status === 404 || status === 403) return end(reply.error);
  if (path !== "/next") fault = faultOf(reply, entry);
  if (lease && reply.pairs) {
    if (!reply.error && !reply.counted) given.push(remarks[lease] || {});
    delete remarks[lease];
    keepRemarks();
  }
  if (!reply.pairs) {
    answered.delete(lease); // it was refused, and is asked again at once
    shown = drawn = null;
    notice(fault || reply.error);
    setTimeout(flush, 1000);
    return;
  }
  const news = path === "/next" && (reply.last !== state.last || reply.last_of !== state.last_of);
  state = reply;
  learn(reply.instructions);
  const fresh = reply.pairs.filter((pair) => !answered.has(pair.lease));
  if (path === "/undo" && reply.undone) {
    $("said").textContent = `Undone: here is the ${fresh[0]?.items ? "question" : "pair"} again.`;
    if (fresh[0] && given.length) remarks[fresh[0].lease] = given.pop();
  }
  if (path !== "/undo") {
    const current = fresh.findIndex((pair) => pair.lease === drawn);
    if (current > 0) fresh.unshift(...fresh.splice(current, 1)); // keep the pair that is being read
    if (current < 0 && shown && !fault) {
      if (news) fault = `That question was answered ${WHERE}. Here is the next one.`;
      else $("said").textContent = "That question was given to another annotator.";
    }
  }
  queue = fresh;
  if (queue[0]?.lease !== shown?.lease) shown = null;
  else shown = queue[0];
  if (path === "/undo") drawn = null; // redraw the pair in any case
  if (queue.length === 0 && outbox.length === 0) return end(reply.why);
  notice(fault || (reply.stop ? `${reply.why} You may stop here, or continue.` : ""));
  if (queue[0] && queue[0].lease === drawn && drawnItems) refresh(queue[0]);
  draw();
}

// The pair on the screen in its new form: formatted, or under another question.
function refresh(pair) {
  if (differing) return;
  drawContext(pair.context);
  drawItems(pair);
}

function end(why) {
  queue = [];
  shown = drawn = null;
  drawnItems = "";
  notice(why);
  draw();
}

// Fetch instructions that are new; they are shown once without being asked for.
async function learn(key) {
  if (key === known) return;
  known = key;
  try {
    const reply = await fetch(`${BASE}/instructions`, { credentials: "omit", cache: "no-store" });
    if (!reply.ok) throw new Error(reply.status);
    $("instructions").innerHTML = (await reply.json()).html;
  } catch {
    known = ""; // with the next reply
    return;
  }
  if (key && recall("localStorage", "sortnet read") !== key && !$("manual").open) $("manual").showModal();
}

function afterClose(dialog) {
  if (dialog.id === "manual") keep("localStorage", "sortnet read", known);
  else keepComment();
  shownAt = performance.now(); // reading and writing are no time of the answer
}

document.addEventListener("keydown", (event) => {
  if (event.repeat || event.ctrlKey || event.altKey || event.metaKey || event.isComposing) return;
  if (event.shiftKey && MOVES[event.key] && zoom.scale > 1) {
    event.preventDefault();
    return moveBy(MOVES[event.key]);
  }
  // Some keyboards have ? or digits on the upper half of a key.
  if (event.shiftKey && (event.key.length > 1 || event.key === " ")) return;
  const at = event.target;
  if (at.closest("textarea, select, [contenteditable], input:not([type=checkbox]), audio")) return;
  if (event.key === " " && at.closest("button, a, summary, input")) return; // activates it
  if (event.key === "ArrowDown" && at.scrollHeight > at.clientHeight && at.matches(".item, .context, .notice")) return;
  if (event.key.length === 1 && !$("keys").checked) return;
  const keys = queue[0]?.items ? SET_KEYS : KEYS;
  const what = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  const dialog = document.querySelector("dialog[open]");
  if (!what || (dialog && what !== "help")) return;
  event.preventDefault();
  if (dialog) dialog.close();
  else act(what);
  drawPressed();
});
document.addEventListener("keyup", (event) => {
  if (event.key.toLowerCase() !== "v" || !isFlipped()) return;
  flip(false);
  drawPressed();
});
for (const pressed of document.querySelectorAll("[data-act]")) {
  pressed.addEventListener("click", (event) => {
    if (event.detail) pressed.blur(); // or the next Space would activate it again
    act(pressed.dataset.act);
    drawPressed();
  });
}
for (const dialog of document.querySelectorAll("dialog")) {
  dialog.addEventListener("close", () => afterClose(dialog));
  dialog.querySelector(".close").addEventListener("click", () => dialog.close());
}
$("text").addEventListener("input", keepComment);

// A click on a card answers, unless something in it was meant, or a text is being selected.
let press = { moved: 0, selecting: false };
document.addEventListener("pointerdown", (event) => {
  press = { x: event.clientX, y: event.clientY, moved: 0, selecting: !getSelection().isCollapsed };
});
// The click of a tap may be some pixels from where it was: the browser looks for what was meant.
document.addEventListener("pointerup", (event) => {
  press.moved = Math.hypot(event.clientX - press.x, event.clientY - press.y);
});
for (const id of ["left", "right", ...places.map((place) => `place-${place}`)]) {
  $(id).addEventListener("click", (event) => {
    if (event.detail > 1 || press.moved > MOVED || press.selecting || !getSelection().isCollapsed) return;
    if (!event.target.closest("a, audio, button")) act(id);
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
