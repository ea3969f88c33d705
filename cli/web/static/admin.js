// The admin page: fetches its tables every few seconds, and sends decisions.
"use strict";

const BASE = location.pathname;
const EVERY = 3000; // ms
const ABOUT_ONE = ["question", "gold", "no-gold"]; // decisions about one criterion
const $ = (id) => document.getElementById(id);

// A time, with its day unless it is today.
function clock(seconds) {
  const [time, now] = [new Date(1000 * seconds), new Date()];
  const today = time.toDateString() === now.toDateString() ? {} : { day: "numeric", month: "short" };
  return time.toLocaleString([], { ...today, hour: "2-digit", minute: "2-digit" });
}
const view = { page: 1, sort: "rank" }; // the rows of the ranking that are shown
let lastRequest = 0; // number of the last request for the tables
let isUsed = false; // whether a button was used since the last drawing
let shownKey = ""; // the key of the tables that are shown

function notice(text) {
  $("notice").textContent = text;
  $("notice").hidden = !text;
}

// Show a part of the page as the server rendered it, if it changed. A part with the focus is left as
// it is, unless one of its buttons was used: then the button in its place gets the focus. Returns
// whether the part is shown now.
const drawn = {}; // {selector of a part: its HTML}
function redraw(part) {
  const { into, ...facts } = part.dataset; // facts of a button, if the part is its label
  const body = document.querySelector(into);
  const place = [...body.querySelectorAll("button")].indexOf(document.activeElement);
  if (drawn[into] === part.innerHTML) return true;
  if (!isUsed && body.contains(document.activeElement)) return false;
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

// A time as a field of type datetime-local has it.
const localTime = (seconds) => {
  const time = new Date(1000 * seconds);
  return new Date(time - 60000 * time.getTimezoneOffset()).toISOString().slice(0, 16);
};
// The fields of the study: [the text of a value, the facts of a decision by the text].
const FIELDS = {
  question: [String, (text) => ({ reason: text.trim() })],
  instructions: [String, (text) => ({ reason: text.trim() })],
  top: [(many) => (many ? `${many}` : ""), (text) => ({ amount: +text })],
  goal: [(share) => (share ? `${+(100 * share).toFixed(6)}` : ""), (text) => ({ amount: +text / 100 })],
  deadline: [(seconds) => (seconds ? localTime(seconds) : ""), (text) => ({ amount: text ? new Date(text).getTime() / 1000 : 0 })],
};
const fields = () => [...$("study").querySelectorAll("[data-kind]")];
const isChanged = (field) => field.value !== (field.dataset.stored ?? "");

// Enable the buttons if there are changes to save or to discard.
function drawButtons() {
  const hasChanges = fields().some(isChanged);
  $("discard").disabled = !hasChanges;
  $("save").disabled = !hasChanges || !$("study").checkValidity();
}

// Show the study as it is stored; fields that are being edited keep their text.
function drawStudy(study) {
  for (const field of fields()) {
    const [textOf] = FIELDS[field.dataset.kind];
    const edited = isChanged(field) ? field.value : null;
    field.value = textOf(study[field.dataset.kind]);
    field.dataset.stored = field.value;
    if (edited !== null) field.value = edited;
  }
  drawButtons();
}

async function save(event) {
  event.preventDefault();
  for (const field of fields().filter(isChanged)) {
    const { kind } = field.dataset;
    const [, factsOf] = FIELDS[kind];
    const before = field.dataset.stored;
    field.dataset.stored = field.value;
    if (!await decide({ kind, ...factsOf(field.value) }, "Saved.")) {
      field.dataset.stored = before;
      break;
    }
  }
  drawButtons();
}

function discard() {
  for (const field of fields()) field.value = field.dataset.stored ?? "";
  drawButtons();
}

const criterion = () => $("criterion")?.value ?? null;

// The query of a request about the criterion that is chosen.
function query(facts) {
  const parameters = criterion() === null ? facts : { ...facts, criterion: criterion() };
  return `?${new URLSearchParams(parameters)}`;
}

// Send a request; returns the JSON of the reply.
async function ask(path, options) {
  const defaults = { cache: "no-store", credentials: "omit", signal: AbortSignal.timeout(15000) };
  const reply = await fetch(BASE + path, { ...defaults, ...options }).catch(() => {
    throw new Error("The server cannot be reached; this page tries again.");
  });
  const content = await reply.json();
  if (!reply.ok) throw new Error(content.error);
  return content;
}

async function refresh() {
  const request = ++lastRequest;
  try {
    const { html, study, key } = await ask(`/tables${query({ find: $("find").value, known: shownKey, ...view })}`);
    if (request !== lastRequest) return; // a newer request was sent in the meantime
    if (html !== null) {
      const tables = document.createElement("template");
      tables.innerHTML = html;
      const areShown = [...tables.content.querySelectorAll("template")].map(redraw);
      shownKey = areShown.every(Boolean) ? key : ""; // without a key the tables are sent again
      drawStudy(study);
    }
    isUsed = false;
    notice("");
  } catch (error) {
    notice(error.message);
  }
}

// Show other rows of the ranking.
function show(facts) {
  Object.assign(view, facts);
  isUsed = true;
  return refresh();
}

// Send a change, confirm it in the element `status`, and refresh; returns whether it was stored.
async function send(path, body, status, confirmationOf) {
  const headers = { "Content-Type": "application/json" };
  try {
    const reply = await ask(path, { method: "POST", body: JSON.stringify(body), headers });
    $(status).textContent = confirmationOf(reply);
  } catch (error) {
    $(status).textContent = error.message;
    return false;
  }
  await show({});
  return true;
}

function decide(decision, confirmation) {
  const isAboutOne = ABOUT_ONE.includes(decision.kind);
  const body = isAboutOne ? { ...decision, criterion: criterion() } : decision;
  return send("/decisions", body, "done", () => confirmation);
}

async function add() {
  const name = $("name").value.trim();
  // The addresses of both pages lie below the same path.
  const linkOf = (reply) => `${reply.name}: ${new URL(`..${reply.path}`, location.href).href}`;
  if (name && await send("/annotators", { name }, "added", linkOf)) $("name").value = "";
}

// Show the ranking, question and downloads of the criterion that is chosen.
function showCriterion() {
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
  if (dataset.decision) decide(JSON.parse(dataset.decision), dataset.confirmation ?? `${ariaLabel}.`);
  if (dataset.side) choose({ ...chosen, [dataset.side]: dataset });
  if (dataset.show) show(JSON.parse(dataset.show));
  if (dataset.find !== undefined) { $("find").value = textContent; show({ page: 1 }); }
});
$("zone").textContent = `(${Intl.DateTimeFormat().resolvedOptions().timeZone})`;
$("study").addEventListener("submit", save);
$("study").addEventListener("input", drawButtons);
$("discard").addEventListener("click", discard);
$("criterion")?.addEventListener("change", showCriterion);
if (criterion() !== null) showCriterion();
(async () => {
  for (;;) {
    if (!document.hidden) await refresh();
    await new Promise((done) => setTimeout(done, EVERY));
  }
})();
