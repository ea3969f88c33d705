// The admin page: fetches its parts every few seconds, and sends decisions.
"use strict";

const BASE = location.pathname;
const EVERY = 3000; // ms
const ABOUT_ONE = ["question", "gold", "no-gold"]; // decisions about one criterion
const $ = (id) => document.getElementById(id);
// A time, with its day unless that is today.
function clock(seconds) {
  const [time, now] = [new Date(1000 * seconds), new Date()];
  const today = time.toDateString() === now.toDateString() ? {} : { day: "numeric", month: "short" };
  return time.toLocaleString([], { ...today, hour: "2-digit", minute: "2-digit" });
}
const view = { page: 1, sort: "rank" }; // the rows of the ranking that are shown
let round = 0;
let used = false; // whether a button was used since the last drawing
let known = ""; // the key of what is shown

function notice(text) {
  $("notice").textContent = text;
  $("notice").hidden = !text;
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

let chosen = {}; // the sides of the next gold pair, from the ranking
function choose(sides) {
  chosen = sides;
  const { better, worse } = chosen;
  $("better").textContent = better?.name ?? "–";
  $("worse").textContent = worse?.name ?? "–";
  $("add-gold").disabled = !better || !worse || better.item === worse.item;
}

async function addGold() {
  const { better, worse } = chosen;
  if (await decide({ kind: "gold", item: +better.item, other: +worse.item }, "Added a gold pair.")) choose({});
}

// The fields of what is asked: how a value is shown, and what is sent for it.
const local = (seconds) => {
  const time = new Date(1000 * seconds);
  return new Date(time - 60000 * time.getTimezoneOffset()).toISOString().slice(0, 16);
};
const FIELDS = {
  question: [String, (text) => ({ reason: text.trim() })],
  instructions: [String, (text) => ({ reason: text.trim() })],
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
function drawStudy(study) {
  for (const field of fields()) {
    const [shown] = FIELDS[field.dataset.kind];
    const written = changed(field) ? field.value : null;
    field.value = shown(study[field.dataset.kind]);
    field.dataset.known = field.value;
    if (written !== null) field.value = written;
  }
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

async function ask(path, options) {
  const about = { cache: "no-store", credentials: "omit", signal: AbortSignal.timeout(15000) };
  const reply = await fetch(BASE + path, { ...about, ...options }).catch(() => {
    throw new Error("The server cannot be reached; this page tries again.");
  });
  const found = await reply.json();
  if (!reply.ok) throw new Error(found.error);
  return found;
}

async function refresh() {
  const mine = ++round;
  try {
    const { html, study, key } = await ask(`/tables${query({ find: $("find").value, known, ...view })}`);
    if (mine !== round) return; // a newer request was sent in the meantime
    if (html !== null) {
      const made = document.createElement("template");
      made.innerHTML = html;
      const shown = [...made.content.querySelectorAll("template")].map(redraw);
      known = shown.every(Boolean) ? key : ""; // else it is asked for again
      drawStudy(study);
    }
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

// Send what is to change, say that it did, and draw what follows; returns whether it did.
async function send(path, body, status, said) {
  const headers = { "Content-Type": "application/json" };
  try {
    const made = await ask(path, { method: "POST", body: JSON.stringify(body), headers });
    $(status).textContent = said(made);
  } catch (error) {
    $(status).textContent = error.message;
    return false;
  }
  await show({});
  return true;
}

function decide(body, said) {
  const about = ABOUT_ONE.includes(body.kind) ? { ...body, criterion: criterion() } : body;
  return send("/decisions", about, "done", () => said);
}

async function add() {
  const name = $("name").value.trim();
  // The addresses of both pages lie below the same path.
  const said = (made) => `${made.name}: ${new URL(`..${made.path}`, location.href).href}`;
  if (name && await send("/annotators", { name }, "added", said)) $("name").value = "";
}

// Another criterion: its own ranking, question and downloads.
function change() {
  for (const link of document.querySelectorAll("a[download]")) link.search = query({});
  discard();
  choose({});
  show({ page: 1 });
}

$("add").addEventListener("click", add);
$("name").addEventListener("keydown", (event) => event.key === "Enter" && add());
$("find").addEventListener("input", () => show({ page: 1 }));
$("add-gold").addEventListener("click", addGold);
document.addEventListener("click", (event) => {
  const { dataset, ariaLabel, textContent } = event.target.closest("button") ?? event.target;
  if (dataset.decision) decide(JSON.parse(dataset.decision), dataset.said ?? `${ariaLabel}.`);
  if (dataset.side) choose({ ...chosen, [dataset.side]: dataset });
  if (dataset.show) show(JSON.parse(dataset.show));
  if (dataset.find !== undefined) { $("find").value = textContent; show({ page: 1 }); }
});
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
