// The admin page: draws the ranking, the figures and the annotators every few seconds.
"use strict";

const BASE = location.pathname;
const EVERY = 3000; // ms
const SVG = "http://www.w3.org/2000/svg";
const $ = (id) => document.getElementById(id);
const percent = (share) => (share === null || share === undefined ? "–" : `${Math.round(100 * share)} %`);
const fixed = (value, digits = 2) => (value === null || value === undefined ? "–" : value.toFixed(digits));

function notice(text) {
  $("notice").textContent = text;
  $("notice").hidden = !text;
}

function within(kind, ...parts) {
  const made = document.createElement(kind);
  made.append(...parts);
  return made;
}

function cell(content, kind = "td", name = "") {
  const made = within(kind, ...[content].flat());
  if (name) made.className = name;
  if (kind === "th") made.scope = "row";
  return made;
}

const row = (cells) => within("tr", ...cells);

function shape(kind, attributes) {
  const made = document.createElementNS(SVG, kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

// The interval of a rank on a scale from 1 to n; the columns next to it show the numbers.
function interval(entry, n) {
  const at = (rank) => `${(100 * (rank - 0.5)) / n}%`;
  const svg = shape("svg", { "aria-hidden": "true", focusable: "false" });
  svg.append(
    shape("line", { class: "rail", x1: "0%", x2: "100%", y1: "50%", y2: "50%" }),
    shape("line", { class: "bar", x1: `${(100 * (entry.low - 1)) / n}%`, x2: `${(100 * entry.high) / n}%`, y1: "50%", y2: "50%" }),
    shape("circle", { class: "dot", cx: at(entry.rank), cy: "50%", r: 4 }),
  );
  return svg;
}

function item(entry) {
  const parts = [entry.text === null ? entry.id : entry.text];
  if (entry.image) {
    parts.unshift(Object.assign(new Image(), { alt: "", loading: "lazy", src: BASE + entry.image }));
  }
  if (entry.group !== null) parts.unshift(Object.assign(within("span", entry.group), { className: "group" }));
  return cell(parts, "th", "text");
}

// A button whose name says what it is about.
function button(label, about, act) {
  const made = Object.assign(document.createElement("button"), { type: "button", textContent: label });
  made.setAttribute("aria-label", `${label}: ${about}`);
  made.addEventListener("click", act);
  return made;
}

// Redraw the rows of a table, but not while it has the focus, unless one of its buttons was used:
// then the one in its place gets the focus.
function redraw(table, rows) {
  const body = $(table).tBodies[0];
  const place = [...body.querySelectorAll("button")].indexOf(document.activeElement);
  if (!used && body.contains(document.activeElement)) return;
  body.replaceChildren(...rows);
  if (place >= 0) body.querySelectorAll("button")[place]?.focus();
}

function drawRanking(state) {
  const rows = state.ranking.map((entry) => row([
    cell(`${entry.rank}`), item(entry), cell(interval(entry, entry.of), "td", "plot"),
    cell(`${entry.low}`), cell(`${entry.high}`), cell(fixed(entry.score)), cell(`${entry.judgements}`),
    cell(["better", "worse"].map((side) => choice(side, entry)), "td", "text"),
  ]));
  redraw("ranking", rows);
  const all = state.found === state.items ? `${state.items} items` : `${state.found} of ${state.items} items found`;
  const head = rows.length < state.found ? `, the first ${rows.length} shown` : "";
  $("caption").textContent = `${all}${head}. The dot is the rank, the bar where it is with 90 % probability, of 1 to ${state.groups.length ? "the number of items in the group" : state.items}.`;
}

// The groups, those furthest from the goal first; a click shows the ranking of one.
function drawGroups(state) {
  $("groups").hidden = !state.groups.length;
  const body = $("groups").querySelector("tbody");
  if (!state.groups.length || body.contains(document.activeElement)) return;
  const { groups, done } = state.remaining;
  const shown = state.groups.length < groups ? `, the ${state.groups.length} furthest from it shown` : "";
  $("groups-about").textContent = `${done} of ${groups} groups have reached the goal${shown}`;
  body.replaceChildren(...state.groups.map((group) => {
    const link = Object.assign(within("button", group.group), { type: "button", className: "plain" });
    link.addEventListener("click", () => { $("find").value = group.group; refresh(); });
    return row([
      cell(link, "th", "text"), cell(`${group.items}`), cell(`${group.answers}`),
      cell(percent(group.wrong_pairs)), cell(group.stop ? "reached" : ""),
    ]);
  }));
}

const alpha = (of) => (of.shared_pairs ? `${fixed(of.krippendorff_alpha)} (of ${of.shared_pairs} pairs)` : "–");

function drawFigures(state) {
  const left = state.remaining?.questions;
  const figures = {
    "Answers": `${state.answers}`,
    "About left": left === null || left === undefined ? "–" : `${left}`,
    "In the last hour": `${state.per_hour.last_hour}`,
    "Answers per hour": `${state.per_hour.pace}`,
    "Agreement (Krippendorff’s α)": alpha(state.agreement),
    "Cyclic triples": percent(state.agreement.cycles),
    "Pairs expected wrong": percent(state.remaining?.wrong_pairs),
  };
  $("figures").replaceChildren(...Object.entries(figures).map(
    ([name, value]) => within("div", cell(name, "dt"), cell(value, "dd")),
  ));
  $("summary").textContent = `${state.items} items, ${state.people.length} people`;
  const why = state.remaining ? state.remaining.why : "The first ranking is being computed.";
  if ($("why").textContent !== why) $("why").textContent = why;
}

const chosen = { better: null, worse: null };

function choice(side, entry) {
  const label = side === "better" ? "Better" : "Worse";
  return button(label, entry.text === null ? entry.id : entry.text, () => {
    chosen[side] = entry.item;
    $(side).textContent = entry.text === null ? entry.id : entry.text;
    const { better, worse } = chosen;
    $("add-gold").disabled = better === null || worse === null || better === worse;
  });
}

async function addGold() {
  if (!await decide({ kind: "gold", item: chosen.better, other: chosen.worse }, "Added a gold pair.")) return;
  for (const side of ["better", "worse"]) {
    chosen[side] = null;
    $(side).textContent = "–";
  }
  $("add-gold").disabled = true;
}

function drawGold(state) {
  const share = `${Math.round(100 * state.gold_rate)} %`;
  const about = state.gold.length ? `About ${share} of the questions are about them.` : "There are none yet.";
  $("gold-about").textContent = `Pairs whose answer is known: each annotator is scored by them. ${about} Choose the two items in the ranking below.`;
  $("gold").hidden = !state.gold.length;
  redraw("gold", state.gold.map((pair) => {
    const remove = () => decide({ kind: "no-gold", item: pair.item, other: pair.other }, "Removed a gold pair.");
    return row([cell(pair.better, "td", "text"), cell(pair.worse, "td", "text"), cell(button("Remove", `${pair.better}, ${pair.worse}`, remove), "td", "text")]);
  }));
}

function remarks(who) {
  const about = who.report || {};
  const found = [who.state];
  if (about.verdict) found.push(about.verdict);
  if (who.quota !== null) found.push(`quota ${who.quota}`);
  if (about.too_fast && about.verdict !== "too fast") found.push("too fast");
  if (about.skipped) found.push(`${about.skipped} skipped`);
  if (about.cant_say) found.push(`${about.cant_say} × can’t say`);
  if (about.undone) found.push(`${about.undone} undone`);
  return found.join(", ");
}

// A value with its interval, or a share with the expected one, below it.
const below = (value, text) => cell([value, within("small", text)]);
const measured = (value) => (value ? below(fixed(value.value), `${fixed(value.low)} to ${fixed(value.high)}`) : cell("–"));
const shares = (observed, expected) => (typeof observed === "number" ? below(percent(observed), `expected ${percent(expected)}`) : cell("–"));

// What can be done to an annotator: whether it holds now, and both actions with their labels.
const SWITCHES = [
  ["excluded", ["exclude", "Exclude"], ["include", "Include"]],
  ["paused", ["pause", "Pause"], ["resume", "Resume"]],
  ["revoked", ["revoke", "Revoke link"], ["renew", "New link"]],
];

function actions(who) {
  const parts = SWITCHES.map(([state, on, off]) => {
    const [kind, label] = who[state] ? off : on;
    const reason = kind === "exclude" ? who.report?.verdict || null : null;
    return button(label, who.name, () => decide({ kind, annotator: who.name, reason }, `${label}: ${who.name}.`));
  });
  return cell(parts, "td", "actions");
}

function drawPeople(state) {
  $("pause").textContent = state.paused ? "Resume everybody" : "Pause everybody";
  $("pause").dataset.kind = state.paused ? "resume" : "pause";
  redraw("people", state.people.map((who) => {
    const to = { href: who.path, textContent: location.origin + who.path };
    const link = who.revoked ? "revoked" : Object.assign(document.createElement("a"), to);
    const report = who.report || {};
    return row([
      cell(who.name, "th", "text"), cell(link, "td", "text"), cell(`${report.answers ?? who.standing}`),
      measured(report.reliability), measured(report.side_bias),
      shares(report.agreement, report.expected_agreement),
      shares(report.consistency, report.expected_consistency),
      measured(report.gold), cell(fixed(report.median_seconds, 1)),
      cell(remarks(who), "td", "text"), actions(who),
    ]);
  }));
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
async function refresh() {
  const mine = ++round;
  try {
    const state = await ask(`/state?find=${encodeURIComponent($("find").value)}`);
    if (mine !== round) return; // a newer request was sent in the meantime
    drawRanking(state);
    drawFigures(state);
    drawGroups(state);
    drawPeople(state);
    drawGold(state);
    used = false;
    notice("");
  } catch (error) {
    notice(error.message);
  }
}

const JSON_TYPE = { "Content-Type": "application/json" };

// Store a decision and draw what follows; returns whether it was stored.
async function decide(body, said) {
  try {
    await ask("/decisions", { method: "POST", body: JSON.stringify(body), headers: JSON_TYPE });
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
    $("added").textContent = `${made.name}: ${location.origin}${made.path}`;
    $("name").value = "";
    refresh();
  } catch (error) {
    $("added").textContent = error.message;
  }
}

$("add").addEventListener("click", add);
$("name").addEventListener("keydown", (event) => event.key === "Enter" && add());
$("find").addEventListener("input", refresh);
$("add-gold").addEventListener("click", addGold);
$("pause").addEventListener("click", () => {
  const { kind } = $("pause").dataset;
  decide({ kind }, kind === "pause" ? "Everybody is paused." : "Everybody may answer again.");
});
(async () => {
  for (;;) {
    if (!document.hidden) await refresh();
    await new Promise((done) => setTimeout(done, EVERY));
  }
})();
