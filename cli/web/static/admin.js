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
  return cell(parts, "th", "text");
}

function drawRanking(state) {
  const rows = state.ranking.map((entry) => row([
    cell(`${entry.rank}`), item(entry), cell(interval(entry, state.items), "td", "plot"),
    cell(`${entry.low}`), cell(`${entry.high}`), cell(fixed(entry.score)), cell(`${entry.judgements}`),
  ]));
  $("ranking").tBodies[0].replaceChildren(...rows);
  const all = state.found === state.items ? `${state.items} items` : `${state.found} of ${state.items} items found`;
  const head = rows.length < state.found ? `, the first ${rows.length} shown` : "";
  $("caption").textContent = `${all}${head}. The dot is the rank, the bar where it is with 90 % probability, of 1 to ${state.items}.`;
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

function remarks(about) {
  const found = [];
  if (about.too_fast) found.push("faster than one can read");
  if (about.skipped) found.push(`${about.skipped} skipped`);
  if (about.cant_say) found.push(`${about.cant_say} × can’t say`);
  if (about.undone) found.push(`${about.undone} undone`);
  return found.join(", ");
}

function drawPeople(state) {
  if ($("people").contains(document.activeElement)) return; // do not redraw while a link has the focus
  $("people").tBodies[0].replaceChildren(...state.people.map((who) => {
    const to = { href: who.path, textContent: location.origin + who.path };
    const link = Object.assign(document.createElement("a"), to);
    const about = who.figures || {};
    const again = about.repeats ? `${percent(about.consistency)} of ${about.repeats}` : "–";
    return row([
      cell(who.name, "th", "text"), cell(link, "td", "text"), cell(`${who.standing}`),
      cell(percent(about.agreement)), cell(again), cell(percent(about.left_share)),
      cell(about.median_ms ? fixed(about.median_ms / 1000, 1) : "–"),
      cell(remarks(about), "td", "text"),
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
async function refresh() {
  const mine = ++round;
  try {
    const state = await ask(`/state?find=${encodeURIComponent($("find").value)}`);
    if (mine !== round) return; // a newer request was sent in the meantime
    drawRanking(state);
    drawFigures(state);
    drawPeople(state);
    notice("");
  } catch (error) {
    notice(error.message);
  }
}

async function add() {
  const name = $("name").value.trim();
  if (!name) return;
  try {
    const body = JSON.stringify({ name });
    const made = await ask("/annotators", { method: "POST", body, headers: { "Content-Type": "application/json" } });
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
(async () => {
  for (;;) {
    if (!document.hidden) await refresh();
    await new Promise((done) => setTimeout(done, EVERY));
  }
})();
