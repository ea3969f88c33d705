// The admin page fetches its tables every few seconds, and sends decisions.
"use strict";

const BASE = location.pathname;
const EVERY = 3000; // ms between two requests for the tables
const ABOUT_ONE = ["question", "gold", "no-gold"]; // kinds of decisions that are about one criterion
const $ = (id) => document.getElementById(id);

// Write a time, given in seconds since 1970, with its day unless it is today.
function clock(seconds) {
  const time = new Date(1000 * seconds);
  const isToday = time.toDateString() === new Date().toDateString();
  const day = isToday ? {} : { day: "numeric", month: "short" };
  return time.toLocaleString([], { ...day, hour: "2-digit", minute: "2-digit" });
}
const view = { page: 1, sort: "rank" }; // the rows of the ranking that are shown
let lastRequest = 0; // number of the last request for the tables
let isUsed = false; // whether a button was used after the tables were drawn
let shownKey = ""; // the key of the tables that are shown

function notice(text) {
  $("notice").textContent = text;
  $("notice").hidden = !text;
}

const drawn = {}; // {selector of a part of the page: the HTML that it shows}

// Show a part of the page as the server has rendered it, if it differs. A part with the focus stays as
// it is, unless one of its buttons was used: then the button in the same place gets the focus. Returns
// whether the page shows the part now.
function redraw(part) {
  const { into, ...facts } = part.dataset; // a part that labels a button also has the button's facts
  const body = document.querySelector(into);
  const focusedPlace = [...body.querySelectorAll("button")].indexOf(document.activeElement);
  if (drawn[into] === part.innerHTML) return true;
  if (!isUsed && body.contains(document.activeElement)) return false;
  drawn[into] = part.innerHTML;
  for (const time of part.content.querySelectorAll("time")) time.textContent = clock(+time.dataset.at);
  body.replaceChildren(part.content);
  Object.assign(body.dataset, facts);
  for (const link of body.querySelectorAll(".link")) link.title = link.href;
  if (focusedPlace >= 0) body.querySelectorAll("button")[focusedPlace]?.focus();
  return true;
}

let chosen = {}; // {better, worse}: the items of the next gold pair, as chosen in the ranking
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

// Write a time in the local zone for a field of type datetime-local, such as 2026-01-31T17:00.
function localTime(seconds) {
  const time = new Date(1000 * seconds);
  const shiftedTime = new Date(time - 60000 * time.getTimezoneOffset()); // the offset is in minutes
  return shiftedTime.toISOString().slice(0, 16);
}

// {kind of decision: [text of a stored value, facts of the decision that stores a text]}
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
    const editedText = isChanged(field) ? field.value : null;
    field.value = textOf(study[field.dataset.kind]);
    field.dataset.stored = field.value; // as the browser has normalised the text
    if (editedText !== null) field.value = editedText;
  }
  drawButtons();
}

// Store the fields that were edited, up to the first one that the server refuses.
async function save(event) {
  event.preventDefault();
  for (const field of fields().filter(isChanged)) {
    const { kind, stored } = field.dataset;
    const [, factsOf] = FIELDS[kind];
    field.dataset.stored = field.value;
    const isSaved = await decide({ kind, ...factsOf(field.value) }, "Saved.");
    if (!isSaved) {
      field.dataset.stored = stored;
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

// Write the query string of a request, with the criterion that is chosen.
function query(facts) {
  const parameters = criterion() === null ? facts : { ...facts, criterion: criterion() };
  return `?${new URLSearchParams(parameters)}`;
}

// Send a request, and return the JSON of the reply.
async function ask(path, options) {
  const defaults = { cache: "no-store", credentials: "omit", signal: AbortSignal.timeout(15000) };
  const reply = await fetch(BASE + path, { ...defaults, ...options }).catch(() => {
    throw new Error("The server cannot be reached; this page tries again.");
  });
  const content = await reply.json();
  if (!reply.ok) throw new Error(content.error);
  return content;
}

// Fetch the tables, and show the parts that differ.
async function refresh() {
  const request = ++lastRequest;
  try {
    const { html, study } = await ask(`/tables${query({ find: $("find").value, ...view })}`);
    const key = JSON.stringify([html, study]);
    if (request !== lastRequest) return; // a newer request was sent in the meantime
    if (key !== shownKey) {
      const tables = document.createElement("template");
      tables.innerHTML = html;
      const areShown = [...tables.content.querySelectorAll("template")].map(redraw);
      shownKey = areShown.every(Boolean) ? key : ""; // without a key the tables are drawn again
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

// Send a change, confirm it in the element with the id `status`, and refresh the page. Returns whether
// the change was stored.
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

// Create an annotator, and show the annotator's link.
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
