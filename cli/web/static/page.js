// The labelling page shows a question, sends the answer that is given by a key, button or tap, and
// fetches the next two questions in advance. A "pair" is a question, also about more than two items.
"use strict";

const BASE = location.pathname;
const CONFIRMATIONS = { tie: "Equally good.", same: "All the same.", skip: "Skipped.", "cant-say": "Cannot be said." };
const KEYS = {
  ArrowLeft: "left", 1: "left", ArrowRight: "right", 2: "right", ArrowDown: "tie", 0: "tie",
  " ": "skip", "?": "cant-say", z: "undo", Backspace: "undo", h: "help", c: "comment", f: "flag",
  "+": "zoom-in", "=": "zoom-in", "-": "zoom-out", v: "flip", a: "play-left", s: "play-right",
  d: "diff", m: "markdown",
};
// Keys of a question about more than two items: skip and undo have the keys of a pair, and s and u.
const SET_KEYS = {
  ...Object.fromEntries(places.map((place) => [place + 1, `place-${place}`])),
  ArrowDown: "same", 0: "same", "=": "same", " ": "skip", s: "skip", u: "undo",
  ...Object.fromEntries(["?", "z", "Backspace", "h", "c", "f", "+", "-", "m"].map((key) => [key, KEYS[key]])),
};
const ACTIONS = {
  ...Object.fromEntries(places.map((place) => [`place-${place}`, () => chooseAt(place)])),
  undo, comment: openRemark, flag: toggleFlag, help: () => $("manual").showModal(),
  "zoom-in": () => zoomBy(STEP), "zoom-out": () => zoomBy(1 / STEP), flip: () => flip(!isFlipped()),
  "play-left": () => play("left"), "play-right": () => play("right"),
  diff: toggleDifference, markdown: toggleMarkdown,
};
const DOUBLE_PRESS = 150; // ms: a second press within this time was meant for the previous pair
const BRIEF = 200; // characters; if both texts are shorter, both are set larger
const COMPARED = 60; // characters; in shorter texts a difference is seen without marks
const FORMATS = /[*_`#|[\]>~\n]/; // characters without which a text looks the same formatted
const MOVED = 6; // pixels: a click that moved further is no answer
const OUTBOX = `sortnet outbox ${BASE}`; // names in the browser's storage
const REMARKS = `sortnet remarks ${BASE}`;
const $ = (id) => document.getElementById(id);
const button = (action) => document.querySelector(`[data-act=${action}]`);
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const itemsOf = (asked) => asked.items || [asked.left, asked.right];

let queue = []; // the questions leased to this page; the first is shown
let shown = null; // the question to answer; null while no answer is accepted
let shownAt = 0; // performance.now() when the question was shown
let drawnLease = null; // the lease of the question on the screen
let drawnItems = ""; // the items of the question on the screen, as JSON
let outbox = JSON.parse(recall("sessionStorage", OUTBOX) || "[]"); // requests that the server has not acknowledged yet
let remarks = JSON.parse(recall("sessionStorage", REMARKS) || "{}"); // {lease: {comment, flagged}} of answers that are not acknowledged yet
const answered = new Set(outbox.map((entry) => entry.lease)); // leases of the questions that were answered already
const sentRemarks = []; // remarks that were sent with answers; an undo gives the last one back
let state = { answered: 0, last: null, lease_seconds: 600 }; // the last reply of the server
let sending = false; // whether a request is under way
let isUnreachable = false; // whether the notice says that the server cannot be reached
let fault = ""; // why the last answer was not counted; empty if it was counted
let instructionsKey = ""; // key of the instructions in the dialog
let markdown = recall("localStorage", "sortnet markdown") === "on";
let isDifferenceShown = false;
let hasShownSet = false; // whether the page has shown a question about more than two items

// Read a stored text, or null. Browsers may block storage: then the page works without it.
function recall(storage, name) {
  try {
    return window[storage].getItem(name);
  } catch {
    return null;
  }
}

function remember(storage, name, value) {
  try {
    window[storage].setItem(name, value);
  } catch { /* the value is lost with the page */ }
}

// Show a notice. Its text is set only if it differs, because screen readers read each change.
function notice(text) {
  if ($("notice").textContent !== text) $("notice").textContent = text;
  $("notice").hidden = !text;
  // A long notice scrolls in its place, by keys too.
  $("notice").removeAttribute("tabindex");
  if ($("notice").scrollHeight > $("notice").clientHeight) $("notice").tabIndex = 0;
}

function newElement(tag, properties, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

// Make the content of a card: image, sound, text and columns of an item that is called `name`.
function cardContent(name, item) {
  const parts = [];
  if (item.image) {
    const image = newElement("img", { alt: `Image of ${name}`, src: BASE + item.image });
    const frame = newElement("div", { className: "frame" }, image);
    image.onerror = () => frame.replaceWith("This image cannot be shown.");
    parts.push(frame);
  }
  if (item.audio) {
    const audio = newElement("audio", { controls: true, preload: "auto", src: BASE + item.audio });
    audio.setAttribute("aria-label", `Sound of ${name}`);
    audio.onerror = () => audio.replaceWith("This sound cannot be played.");
    parts.push(audio);
  }
  return [...parts, ...textContent(item), ...columns(item.shown || {})];
}

// Make the elements of the text of an item or of a context, with a link to the full text if it is cut.
function textContent(item) {
  const parts = [];
  // The server sends only harmless HTML, and the policy of the page forbids scripts in it.
  if (item.html) parts.push(newElement("div", { className: "text formatted", dir: "auto", innerHTML: item.html }));
  else if (item.text !== null) parts.push(newElement("p", { className: "text", dir: "auto", textContent: item.text }));
  if (item.more) {
    const link = { textContent: "The whole text (in a new tab)", target: "_blank", rel: "noopener" };
    parts.push(newElement("a", { ...link, href: BASE + item.more }));
  }
  return parts;
}

// Make a list of an item's further columns, given as {name: text}.
function columns(texts) {
  const rows = Object.entries(texts).map(([name, text]) => newElement("div", {},
    newElement("dt", { dir: "auto" }, name), newElement("dd", { dir: "auto" }, text)));
  return rows.length ? [newElement("dl", { className: "columns" }, ...rows)] : [];
}

// Draw the context only if it differs, because screen readers read each change.
function drawContext(context) {
  const box = $("context");
  const text = context ? context.html || context.text : "";
  box.hidden = !context;
  if (box.dataset.text === text) return;
  box.dataset.text = text;
  box.replaceChildren(...(context ? textContent(context) : []));
  box.scrollTop = 0;
}

function drawQuestion(question) {
  if (!question || $("question").textContent === question) return;
  document.title = document.title.replace($("question").textContent, () => question);
  $("question").textContent = $("manual-title").textContent = question;
  $("news").textContent = question;
}

function drawProgress() {
  let left = null; // the number of questions left is not known
  if (queue.length) left = state.left ?? null;
  const done = state.answered + pending();
  const parts = [`${done} answered`];
  if (left === 0) parts.push("the goal is reached");
  else if (left !== null) parts.push(state.range);
  if (outbox.length > 1) parts.push(`${outbox.length} to be sent`);
  $("progress").textContent = parts.join(" · ");
  $("done").hidden = left === null || done + left === 0;
  Object.assign($("done"), { max: Math.max(done + (left || 0), 1), value: done });
}

const isLong = (text) => text !== null && (text.length >= BRIEF || text.includes("\n"));

function drawItems(pair) {
  const items = JSON.stringify(itemsOf(pair));
  if (items === drawnItems) return; // only the question has changed
  drawnItems = items;
  isDifferenceShown = false;
  if (pair.items) drawSet(pair.items, cardContent);
  else drawSides(pair);
  hasShownSet ||= Boolean(pair.items);
  setZoom(1);
  flip(false);
  const texts = itemsOf(pair).map((item) => item.text);
  for (const id of ["pair", "set"]) $(id).classList.toggle("brief", !texts.some(isLong));
  drawTools(pair, texts);
}

function drawSides(pair) {
  for (const side of ["left", "right"]) {
    const box = $(side).querySelector(".item");
    box.replaceChildren(newElement("div", { className: "inside" }, ...cardContent(`the ${side} item`, pair[side])));
    box.scrollTop = 0;
  }
}

// Show the tools that do something for this question, and their rows in the instructions.
function drawTools(pair, texts) {
  const allTexts = [...texts, pair.context?.text ?? null].filter((text) => text !== null);
  const hasImage = itemsOf(pair).some((item) => item.image);
  const isPair = !pair.items;
  const offered = {
    "zoom-in": hasImage, "zoom-out": hasImage, flip: isPair && hasImage,
    "play-left": isPair && Boolean(pair.left.audio), "play-right": isPair && Boolean(pair.right.audio),
    diff: isPair && texts.every((text) => text !== null && text.length >= COMPARED),
    markdown: allTexts.some((text) => FORMATS.test(text)),
  };
  for (const [action, isOffered] of Object.entries(offered)) button(action).hidden = !isOffered;
  const listed = {
    ...offered, play: offered["play-left"] || offered["play-right"], long: allTexts.some(isLong),
    pair: isPair, set: !isPair, worst: Boolean(pair.worst), "only-best": !isPair && !pair.worst,
  };
  for (const row of document.querySelectorAll("[data-tool]")) row.hidden = !listed[row.dataset.tool];
  // Once shown, the bar of tools stays for the next pairs: otherwise the cards would move.
  if (Object.values(offered).some(Boolean)) $("tools").hidden = false;
  drawPressed();
}

function drawPressed() {
  const { comment, flagged } = remarks[queue[0]?.lease] || {};
  const pressed = { diff: isDifferenceShown, markdown, flip: isFlipped(), flag: Boolean(flagged), comment: Boolean(comment) };
  for (const [action, isPressed] of Object.entries(pressed)) button(action).setAttribute("aria-pressed", isPressed);
}

function draw() {
  const pair = queue[0];
  $("pair").hidden = !pair || Boolean(pair.items);
  $("set").hidden = !pair?.items;
  document.body.classList.toggle("idle", !pair);
  document.body.classList.toggle("several", Boolean(pair?.items));
  if (pair?.lease !== drawnLease) setBest(null);
  drawUndo();
  drawProgress();
  drawQuestion(pair ? pair.question : state.question);
  if (!pair) drawContext(null);
  if (!pair || pair.lease === drawnLease) return;
  drawContext(pair.context);
  drawItems(pair);
  drawnLease = pair.lease;
  if (pair.items) scrollTo(0, 0); // on a phone several items are longer than the screen
  drawPressed();
  $("news").textContent = `${pair.items ? "Question" : "Pair"} ${state.answered + pending() + 1}: ${pair.question}`;
  for (const item of queue.slice(1).flatMap(itemsOf)) {
    if (item.image) new Image().src = BASE + item.image; // loads the image in advance
  }
  requestAnimationFrame(() => {
    shown = pair;
    shownAt = performance.now();
  });
}

function drawUndo() {
  $("undo").disabled = best === null && state.last === null && outbox.length === 0;
}

const VOTES = ["left", "right", "tie", "best", "same"]; // a skip or "can't say" is not counted

// Count the answers in the outbox, which the server has not counted yet; an undo takes one away.
function pending() {
  const votes = outbox.filter((entry) => VOTES.includes(entry.answer));
  const undos = outbox.filter((entry) => entry.path === "/undo");
  return votes.length - undos.length;
}

function act(action) {
  if (!button(action).hidden && !button(action).disabled) (ACTIONS[action] || answer)(action);
}

function chooseAt(place) {
  if (!shown || performance.now() - shownAt < DOUBLE_PRESS) return;
  choose(place, shown.worst, (chosen) => answer("best", chosen));
  drawUndo();
}

// Put an answer into the outbox, and show the next question. `chosen` has the places of the best and
// the worst item, if the question is about more than two items.
function answer(choice, chosen = {}) {
  if (!shown || performance.now() - shownAt < DOUBLE_PRESS) return;
  if (isFlipped()) {
    flip(false);
    drawPressed();
    $("confirmation").textContent = "Back in their places: answer now.";
    return;
  }
  answered.add(shown.lease);
  const milliseconds = Math.round(performance.now() - shownAt);
  enqueue({ path: "/answer", lease: shown.lease, criterion: shown.criterion, answer: choice, ...chosen, milliseconds, ...remarks[shown.lease] });
  $("confirmation").textContent = CONFIRMATIONS[choice] || answerInWords(choice, chosen);
  queue.shift();
  shown = null;
  draw();
  flush();
}

function answerInWords(choice, chosen) {
  if (choice !== "best") return `${$(`${choice}-title`).innerText} is better.`;
  const worst = chosen.worst === undefined ? "" : `, ${chosen.worst + 1} the worst`;
  return `${chosen.best + 1} is the best${worst}.`;
}

// Take back the choice of the best item if it is chosen; otherwise take back the last answer.
function undo() {
  if (best !== null) {
    setBest(null);
    return drawUndo();
  }
  const isUndoing = outbox.some((entry) => entry.path === "/undo");
  if ($("undo").disabled || isUndoing) return;
  shown = null; // no answer is accepted until the undone pair is back
  enqueue({ path: "/undo" });
  flush();
}

function openRemark() {
  if (!shown) return;
  $("remark").dataset.lease = shown.lease; // when the dialog is closed, another pair may be shown
  $("text").value = remarks[shown.lease]?.comment || "";
  $("remark").showModal();
}

function setRemark(facts, lease = queue[0]?.lease) {
  if (!lease) return;
  remarks[lease] = { ...remarks[lease], ...facts };
  saveRemarks();
  drawPressed();
}

const saveRemarks = () => remember("sessionStorage", REMARKS, JSON.stringify(remarks));
const saveComment = () => setRemark({ comment: $("text").value.trim() }, $("remark").dataset.lease);

function toggleFlag() {
  const flagged = !remarks[queue[0]?.lease]?.flagged;
  setRemark({ flagged });
  $("confirmation").textContent = flagged ? "Flagged." : "No longer flagged.";
}

function toggleDifference() {
  const pair = queue[0];
  if (!pair || pair.left.text === null || pair.right.text === null) return;
  const showDifference = !isDifferenceShown;
  drawnItems = "";
  drawItems(pair);
  const boxes = ["left", "right"].map((side) => {
    const text = $(side).querySelector(".text");
    if (showDifference) text.replaceWith(newElement("p", { className: "text", dir: "auto" }, pair[side].text));
    return $(side).querySelector(".text");
  });
  isDifferenceShown = showDifference && drawDifference(boxes, [pair.left.text, pair.right.text]);
  let message = "";
  if (isDifferenceShown) message = "What differs is marked.";
  else if (showDifference) message = "These texts are too long to compare word by word.";
  $("confirmation").textContent = message;
  drawPressed();
}

function toggleMarkdown() {
  markdown = !markdown;
  remember("localStorage", "sortnet markdown", markdown ? "on" : "off");
  drawPressed();
  flush(); // the reply has the texts in the other form
}

const saveOutbox = () => remember("sessionStorage", OUTBOX, JSON.stringify(outbox));

function enqueue(entry) {
  outbox.push(entry);
  saveOutbox();
}

// Send the outbox, one request at a time in the order of the answers; or fetch the next questions.
async function flush() {
  if (sending) return;
  sending = true;
  try {
    do {
      const entry = outbox[0] || { path: "/next" };
      if (entry.path === "/undo" && entry.last === undefined) {
        Object.assign(entry, { last: state.last, criterion: state.last_of });
      }
      saveOutbox();
      const { path, ...body } = entry;
      const [status, reply] = await post(path, { ...body, markdown });
      if (outbox[0] === entry) outbox.shift();
      saveOutbox();
      handleReply(status, reply, entry);
    } while (outbox.length);
  } finally {
    sending = false; // even if handling the reply failed
  }
}

// Send a request until the server answers, and return the status and the reply.
async function post(path, body) {
  for (let wait = 500; ; wait = Math.min(2 * wait, 8000)) {
    let why = "The server cannot be reached.";
    try {
      const reply = await fetch(BASE + path, {
        method: "POST", body: JSON.stringify(body), signal: AbortSignal.timeout(15000),
        headers: { "Content-Type": "application/json" }, credentials: "omit", cache: "no-store",
      });
      if (reply.status < 500 && reply.status !== 429) {
        const content = await reply.json();
        if (isUnreachable) notice("");
        isUnreachable = false;
        return [reply.status, content];
      }
      if (reply.status === 503) why = "The server cannot store answers now.";
    } catch { /* The server is unreachable: wait, then try again. */ }
    isUnreachable = true;
    notice(`${why} Your answers are kept here and sent again.`);
    await pause(wait);
  }
}

const ELSEWHERE = "in another tab of this link";

// Return the reason why a request of the outbox was not counted; empty if it was counted.
function faultOf(reply, { path, answer, comment, last, criterion }) {
  if (reply.error) {
    let text = reply.error;
    if (answer) text += " That answer was not counted.";
    if (comment) text += ` Your comment was: ${comment}`;
    return text;
  }
  if (reply.counted) return `That question had been answered ${ELSEWHERE} (${reply.counted}); your answer here was not counted. Here is the next one.`;
  const isNewerElsewhere = reply.last_of === criterion && reply.last > last;
  if (path === "/undo" && !reply.undone && isNewerElsewhere) return `Nothing was undone: there is a newer answer ${ELSEWHERE}.`;
  return "";
}

// Update the page by the reply to a request: `entry` is from the outbox, or asks for the next questions.
function handleReply(status, reply, entry) {
  const { path, lease } = entry;
  if (status === 404 || status === 403) return finish(reply.error);
  if (path !== "/next") fault = faultOf(reply, entry);
  if (!reply.pairs) return tryAgain(lease, reply.error);
  if (lease) settleRemark(lease, !reply.error && !reply.counted);
  const isNewElsewhere = path === "/next" && (reply.last !== state.last || reply.last_of !== state.last_of);
  state = reply;
  loadInstructions(reply.instructions);
  const pairs = reply.pairs.filter((pair) => !answered.has(pair.lease));
  if (path !== "/undo") {
    keepShownFirst(pairs, isNewElsewhere);
  } else {
    if (reply.undone) confirmUndo(pairs[0]);
    drawnLease = null; // redraw the pair in any case
  }
  queue = pairs;
  if (queue[0]?.lease !== shown?.lease) shown = null;
  else shown = queue[0];
  if (queue.length === 0 && outbox.length === 0) return finish(reply.why);
  notice(fault || (reply.stop ? `${reply.why} You may stop here, or continue.` : ""));
  if (queue[0] && queue[0].lease === drawnLease && drawnItems) refresh(queue[0]);
  draw();
}

// Ask the refused question again, and fetch questions in a second.
function tryAgain(lease, error) {
  answered.delete(lease);
  shown = drawnLease = null;
  notice(fault || error);
  setTimeout(flush, 1000);
}

// Forget the remark of an answer that was sent. If the answer was counted, an undo gives it back.
function settleRemark(lease, isCounted) {
  if (isCounted) sentRemarks.push(remarks[lease] || {});
  delete remarks[lease];
  saveRemarks();
}

// Tell that the last answer was undone, and give the undone pair its remark back.
function confirmUndo(pair) {
  $("confirmation").textContent = `Undone: here is the ${pair?.items ? "question" : "pair"} again.`;
  if (pair && sentRemarks.length) remarks[pair.lease] = sentRemarks.pop();
}

// Keep the pair on the screen as the first pair. If it is no longer leased to this page, tell why.
function keepShownFirst(pairs, isNewElsewhere) {
  const place = pairs.findIndex((pair) => pair.lease === drawnLease);
  if (place > 0) pairs.unshift(...pairs.splice(place, 1));
  if (place >= 0 || !shown || fault) return;
  if (isNewElsewhere) fault = `That question was answered ${ELSEWHERE}. Here is the next one.`;
  else $("confirmation").textContent = "That question was given to another annotator.";
}

// Draw the pair on the screen again: its texts may be formatted now, or its question may have changed.
function refresh(pair) {
  if (isDifferenceShown) return;
  drawContext(pair.context);
  drawItems(pair);
}

// Show no pair, but the reason why there is none.
function finish(why) {
  queue = [];
  shown = drawnLease = null;
  drawnItems = "";
  notice(why);
  draw();
}

// Fetch the instructions if their key has changed. New instructions open by themselves once.
async function loadInstructions(key) {
  if (key === instructionsKey) return;
  instructionsKey = key;
  try {
    const reply = await fetch(`${BASE}/instructions`, { credentials: "omit", cache: "no-store" });
    if (!reply.ok) throw new Error(reply.status);
    $("instructions").innerHTML = (await reply.json()).html;
  } catch {
    instructionsKey = ""; // so that they are fetched again after the next reply
    return;
  }
  if (key && recall("localStorage", "sortnet read") !== key && !$("manual").open) $("manual").showModal();
}

function afterClose(dialog) {
  if (dialog.id === "manual") remember("localStorage", "sortnet read", instructionsKey);
  else saveComment();
  shownAt = performance.now(); // reading and writing do not count as answering time
}

// Whether a key does something in the element that has the focus: types, activates or scrolls.
function isKeyOfElement(key, element) {
  if (element.closest("textarea, select, [contenteditable], input:not([type=checkbox]), audio")) return true;
  if (key === " ") return Boolean(element.closest("button, a, summary, input"));
  const scrolls = element.scrollHeight > element.clientHeight && element.matches(".item, .context, .notice");
  return key === "ArrowDown" && scrolls;
}

document.addEventListener("keydown", (event) => {
  if (event.repeat || event.ctrlKey || event.altKey || event.metaKey || event.isComposing) return;
  if (event.shiftKey && MOVES[event.key] && zoom.scale > 1) {
    event.preventDefault();
    return moveBy(MOVES[event.key]);
  }
  // Shift is allowed with characters, because some keyboards have ? or digits on the upper half of a key.
  if (event.shiftKey && (event.key.length > 1 || event.key === " ")) return;
  if (isKeyOfElement(event.key, event.target)) return;
  if (event.key.length === 1 && !$("keys").checked) return;
  // Numbers that are typed by habit, such as the best and the worst of four, answer no pair.
  if (hasShownSet && queue[0] && !queue[0].items && "012".includes(event.key)) {
    $("confirmation").textContent = "Only two items: answer with the arrow keys, or by a click.";
    return;
  }
  const keys = queue[0]?.items ? SET_KEYS : KEYS;
  const action = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  const dialog = document.querySelector("dialog[open]");
  if (!action || (dialog && action !== "help")) return;
  event.preventDefault();
  if (dialog) dialog.close();
  else act(action);
  drawPressed();
});
document.addEventListener("keyup", (event) => {
  if (event.key.toLowerCase() !== "v" || !isFlipped()) return;
  flip(false);
  drawPressed();
});
for (const control of document.querySelectorAll("[data-act]")) {
  control.addEventListener("click", (event) => {
    if (event.detail) control.blur(); // after a click, the next Space must not activate the button again
    act(control.dataset.act);
    drawPressed();
  });
}
for (const dialog of document.querySelectorAll("dialog")) {
  dialog.addEventListener("close", () => afterClose(dialog));
  dialog.querySelector(".close").addEventListener("click", () => dialog.close());
}
$("text").addEventListener("input", saveComment);

// A click on a card answers, unless it was on a link or a sound, or it selects a text.
let press = { moved: 0, selecting: false };
document.addEventListener("pointerdown", (event) => {
  press = { x: event.clientX, y: event.clientY, moved: 0, selecting: !getSelection().isCollapsed };
});
// The browser may move the click of a tap by some pixels, to the element that was probably meant.
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
  remember("localStorage", "sortnet keys", $("keys").checked ? "on" : "off");
});
window.addEventListener("beforeunload", (event) => outbox.length && event.preventDefault());

const IDLE = 5000; // ms between two requests for questions while there are none

// Renew the leases of a visible page in time; ask for questions at intervals if there are none.
async function renew() {
  for (;;) {
    const isIdle = queue.length === 0;
    await pause(isIdle ? IDLE : (state.lease_seconds * 1000) / 3);
    if (!document.hidden) flush();
  }
}
document.addEventListener("visibilitychange", () => document.hidden || flush());
flush();
renew();
