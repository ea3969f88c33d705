// The admin page: fetches its tables every few seconds, draws the curve, and sends decisions.
"use strict";

const BASE = location.pathname;
const EVERY = 3000; // ms
const SVG = "http://www.w3.org/2000/svg";
const JSON_TYPE = { "Content-Type": "application/json" };
const ABOUT_ONE = ["question", "gold", "no-gold"]; // decisions about one criterion
const $ = (id) => document.getElementById(id);
const percent = (share) => `${Math.round(100 * share)} %`;
// A time, with its day unless that is today.
function clock(seconds) {
  const [time, now] = [new Date(1000 * seconds), new Date()];
  const today = time.toDateString() === now.toDateString() ? {} : { day: "numeric", month: "short" };
  return time.toLocaleString([], { ...today, hour: "2-digit", minute: "2-digit" });
}
// The rows of the ranking that are shown.
const view = { page: 1, sort: "rank" };

function notice(text) {
  $("notice").textContent = text;
  $("notice").hidden = !text;
}

function shape(kind, attributes, ...parts) {
  const made = document.createElementNS(SVG, kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...parts);
  return made;
}

// Show what the server rendered of a part of the page, if it changed; but not while the part has the
// focus, unless one of its buttons was used: then the one in its place gets the focus. Returns whether
// it is shown now.
const drawn = {};
function redraw(part) {
  const { into, ...facts } = part.dataset; // facts of a button whose words these are
  const body = document.querySelector(into);
  const place = [...body.querySelectorAll("button")].indexOf(document.activeElement);
  if (drawn[into] === part.innerHTML) return true;
  if (!used && body.contains(document.activeElement)) return false;
  drawn[into] = part.innerHTML;
  for (const time of part.content.querySelectorAll("time")) time.textContent = clock(+time.dataset.at);
  body.replaceChildren(part.content);
  Object.assign(body.dataset, facts);
  for (const link of body.querySelectorAll(".link")) link.title = link.href;
  if (place >= 0) body.querySelectorAll("button")[place]?.focus();
  return true;
}

function drawTables(state) {
  const made = document.createElement("template");
  made.innerHTML = state.html;
  const shown = [...made.content.querySelectorAll("template")].map(redraw);
  known = shown.every(Boolean) ? state.key : ""; // else it is asked for again
}

function drawPager(state) {
  view.page = state.page;
  $("ranking").classList.toggle("whole", !state.top);
  $("pager").hidden = state.pages === 1;
  $("before").disabled = state.page === 1;
  $("after").disabled = state.page === state.pages;
  const [by, order] = view.sort.startsWith("-") ? [view.sort.slice(1), "descending"] : [view.sort, "ascending"];
  for (const head of $("ranking").querySelectorAll("[data-sort]")) {
    if (head.dataset.sort === by) head.parentElement.setAttribute("aria-sort", order);
    else head.parentElement.removeAttribute("aria-sort");
  }
}

// About four round numbers from 0 to the largest.
function ticks(largest) {
  const power = 10 ** Math.floor(Math.log10(largest / 4));
  const step = [1, 2, 5, 10].map((digit) => digit * power).find((each) => each >= largest / 4);
  return Array.from({ length: Math.floor(largest / step) + 1 }, (_, k) => k * step).filter(Number.isInteger);
}

// The share that is right by the number of answers: expected, and of the hold-out. Without a line for
// the goal of a top: that is a probability.
function drawCurve(state) {
  const points = state.curve.filter((point) => point.expected !== null);
  $("curve").hidden = points.length < 2;
  if (points.length < 2) return;
  const [width, height, left, low, right] = [Math.max($("curve").clientWidth, 200), 190, 46, 24, 14];
  const most = Math.max(...points.map((point) => point.answers), 4);
  const values = points.flatMap((point) => [point.expected, point.holdout ?? 1]).concat(state.top ? [] : 1 - state.goal);
  const least = Math.min(0.5, Math.floor(10 * Math.min(...values)) / 10);
  const x = (answers) => left + ((width - left - right) * answers) / most;
  const y = (share) => 8 + ((height - low - 8) * (1 - share)) / (1 - least);
  const svg = shape("svg", { role: "img", viewBox: `0 0 ${width} ${height}`, focusable: "false" });
  for (let share = 10; share >= Math.round(10 * least); share -= least < 0.5 ? 2 : 1) {
    svg.append(
      shape("line", { class: "rail", x1: left, x2: width - right, y1: y(share / 10), y2: y(share / 10) }),
      shape("text", { x: left - 6, y: y(share / 10) + 4, "text-anchor": "end" }, `${10 * share} %`),
    );
  }
  for (const answers of ticks(most)) svg.append(shape("text", { x: x(answers), y: height - 6, "text-anchor": "middle" }, `${answers}`));
  if (!state.top) svg.append(shape("line", { class: "goal", x1: left, x2: width - right, y1: y(1 - state.goal), y2: y(1 - state.goal) }));
  for (const name of ["holdout", "expected"]) {
    const known = points.filter((point) => point[name] !== null);
    svg.append(shape("polyline", { class: name, points: known.map((point) => `${x(point.answers)},${y(point[name])}`).join(" ") }));
    svg.append(...known.map((point) => shape("circle", { class: name, cx: x(point.answers), cy: y(point[name]), r: 3 })));
  }
  const last = points.at(-1);
  const checked = last.holdout === null ? "" : `, ${percent(last.holdout)} of the hold-out predicted`;
  const what = state.top ? `the top ${state.top} are expected to belong there` : "the pairs are expected in the right order";
  const goal = state.top ? state.wanted : percent(1 - state.goal);
  svg.setAttribute("aria-label", `After ${last.answers} answers ${percent(last.expected)} of ${what}${checked}; the goal is ${goal}.`);
  $("curve").querySelector("svg")?.remove();
  $("curve").append(svg);
}

const chosen = { better: null, worse: null };

// A side of the next gold pair, from the ranking.
function choose({ side, item, name }) {
  chosen[side] = +item;
  $(side).textContent = name;
  const { better, worse } = chosen;
  $("add-gold").disabled = better === null || worse === null || better === worse;
}

function chooseNothing() {
  for (const side of ["better", "worse"]) {
    chosen[side] = null;
    $(side).textContent = "–";
  }
  $("add-gold").disabled = true;
}

async function addGold() {
  const { better, worse } = chosen;
  if (await decide({ kind: "gold", item: better, other: worse }, "Added a gold pair.")) chooseNothing();
}

// The address of a page of this server; both lie below the same path.
const address = (path) => new URL(`..${path}`, location.href).href;

// The fields of what is asked: how a value is shown, and what is sent for it.
const local = (seconds) => {
  const time = new Date(1000 * seconds);
  return new Date(time - 60000 * time.getTimezoneOffset()).toISOString().slice(0, 16);
};
const FIELDS = {
  question: [(text) => text, (text) => ({ reason: text.trim() })],
  instructions: [(text) => text, (text) => ({ reason: text.trim() })],
  top: [(many) => (many ? `${many}` : ""), (text) => ({ amount: +text })],
  goal: [(share) => (share ? `${+(100 * share).toFixed(6)}` : ""), (text) => ({ amount: +text / 100 })],
  deadline: [(seconds) => (seconds ? local(seconds) : ""), (text) => ({ amount: text ? new Date(text).getTime() / 1000 : 0 })],
};
const fields = () => [...$("study").querySelectorAll("[data-kind]")];
const changed = (field) => field.value !== (field.dataset.known ?? "");

// Whether there is something to save.
function drawButtons() {
  const all = fields().filter(changed);
  $("discard").disabled = !all.length;
  $("save").disabled = !all.length || !$("study").checkValidity();
}

// Show what is asked by now; what is being written stays.
function drawStudy(study, { top, goal, wanted }) {
  for (const field of fields()) {
    const [shown] = FIELDS[field.dataset.kind];
    const written = changed(field) ? field.value : null;
    field.value = shown(study[field.dataset.kind]);
    field.dataset.known = field.value;
    if (written !== null) field.value = written;
  }
  const until = study.deadline ? `, until ${clock(study.deadline)}` : "";
  const aim = top ? wanted : `at most ${+(100 * goal).toFixed(2)} % of the pairs in the wrong order`;
  $("asked").textContent = `${study.question} Goal: ${aim}${until}`;
  drawButtons();
}

async function save(event) {
  event.preventDefault();
  for (const field of fields().filter(changed)) {
    const { kind } = field.dataset;
    const before = field.dataset.known;
    field.dataset.known = field.value;
    if (!await decide({ kind, ...FIELDS[kind][1](field.value) }, "Saved.")) {
      field.dataset.known = before;
      break;
    }
  }
  drawButtons();
}

function discard() {
  for (const field of fields()) field.value = field.dataset.known ?? "";
  drawButtons();
}

const criterion = () => $("criterion")?.value ?? null;

// The query of a request, about the criterion that is chosen.
function query(facts) {
  const all = criterion() === null ? facts : { ...facts, criterion: criterion() };
  return `?${new URLSearchParams(all)}`;
}

async function ask(path, options = {}) {
  const about = { cache: "no-store", credentials: "omit", signal: AbortSignal.timeout(15000) };
  const reply = await fetch(BASE + path, { ...about, ...options }).catch(() => {
    throw new Error("The server cannot be reached; this page tries again.");
  });
  const found = await reply.json();
  if (!reply.ok) throw new Error(found.error);
  return found;
}

let round = 0;
let used = false; // whether a button was used since the last drawing
let known = ""; // the key of the tables that are shown
let decided = null; // the number of decisions when what is asked was read
async function refresh() {
  const mine = ++round;
  try {
    const state = await ask(`/tables${query({ find: $("find").value, known, ...view })}`);
    const asked = decided === `${state.decided} ${criterion()}` ? null : await ask(`/study${query({})}`);
    if (mine !== round) return; // a newer request was sent in the meantime
    if (state.html !== null) {
      drawTables(state);
      drawCurve(state);
    }
    drawPager(state);
    if (asked) drawStudy(asked, state);
    decided = `${state.decided} ${criterion()}`;
    used = false;
    notice("");
  } catch (error) {
    notice(error.message);
  }
}

// Show other rows of the ranking.
function show(facts) {
  Object.assign(view, facts);
  used = true;
  return refresh();
}

// Store a decision and draw what follows; returns whether it was stored.
async function decide(body, said) {
  const all = ABOUT_ONE.includes(body.kind) ? { ...body, criterion: criterion() } : body;
  try {
    await ask("/decisions", { method: "POST", body: JSON.stringify(all), headers: JSON_TYPE });
    $("done").textContent = said;
  } catch (error) {
    $("done").textContent = error.message;
    return false;
  }
  used = true;
  await refresh();
  return true;
}

async function add() {
  const name = $("name").value.trim();
  if (!name) return;
  try {
    const body = JSON.stringify({ name });
    const made = await ask("/annotators", { method: "POST", body, headers: JSON_TYPE });
    $("added").textContent = `${made.name}: ${address(made.path)}`;
    $("name").value = "";
    refresh();
  } catch (error) {
    $("added").textContent = error.message;
  }
}

// Another criterion: its own ranking, question and downloads.
function change() {
  for (const link of document.querySelectorAll("a[download]")) link.search = query({});
  discard();
  chooseNothing();
  show({ page: 1 });
}

$("add").addEventListener("click", add);
$("name").addEventListener("keydown", (event) => event.key === "Enter" && add());
$("find").addEventListener("input", () => show({ page: 1 }));
$("add-gold").addEventListener("click", addGold);
document.addEventListener("click", (event) => {
  const { dataset, ariaLabel, textContent } = event.target.closest("button") ?? event.target;
  if (dataset.decision) decide(JSON.parse(dataset.decision), dataset.said ?? `${ariaLabel}.`);
  if (dataset.side) choose(dataset);
  if (dataset.find !== undefined) { $("find").value = textContent; show({ page: 1 }); }
});
$("before").addEventListener("click", () => show({ page: view.page - 1 }));
$("after").addEventListener("click", () => show({ page: view.page + 1 }));
for (const head of $("ranking").querySelectorAll("[data-sort]")) {
  const { sort } = head.dataset;
  head.addEventListener("click", () => show({ page: 1, sort: view.sort === sort ? `-${sort}` : sort }));
}
$("zone").textContent = `(${Intl.DateTimeFormat().resolvedOptions().timeZone})`;
$("study").addEventListener("submit", save);
$("study").addEventListener("input", drawButtons);
$("discard").addEventListener("click", discard);
$("criterion")?.addEventListener("change", change);
if (criterion() !== null) change();
(async () => {
  for (;;) {
    if (!document.hidden) await refresh();
    await new Promise((done) => setTimeout(done, EVERY));
  }
})();
