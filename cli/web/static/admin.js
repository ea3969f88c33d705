// The admin page: draws the ranking, the figures and the annotators every few seconds.
"use strict";

const BASE = location.pathname;
const EVERY = 3000; // ms
const SVG = "http://www.w3.org/2000/svg";
const JSON_TYPE = { "Content-Type": "application/json" };
const ABOUT_ONE = ["question", "gold", "no-gold"]; // decisions about one criterion
const $ = (id) => document.getElementById(id);
const percent = (share) => (share === null || share === undefined ? "–" : `${Math.round(100 * share)} %`);
const fixed = (value, digits = 2) => (value === null || value === undefined ? "–" : value.toFixed(digits));
const called = (entry) => (entry.text === null ? entry.id : entry.text);
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

function within(kind, ...parts) {
  const made = document.createElement(kind);
  made.append(...parts);
  return made;
}

const named = (name, made) => Object.assign(made, { className: name });

function cell(content, kind = "td", name = "") {
  const made = within(kind, ...[content].flat());
  if (name) made.className = name;
  if (kind === "th") made.scope = "row";
  return made;
}

const row = (cells) => within("tr", ...cells);

function shape(kind, attributes, ...parts) {
  const made = document.createElementNS(SVG, kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...parts);
  return made;
}

// The interval of a rank on a scale from 1 to n; the columns next to it show the numbers.
function interval(entry, n) {
  const at = (rank) => `${(100 * (rank - 0.5)) / n}%`;
  return shape(
    "svg", { "aria-hidden": "true", focusable: "false" },
    shape("line", { class: "rail", x1: "0%", x2: "100%", y1: "50%", y2: "50%" }),
    shape("line", { class: "bar", x1: `${(100 * (entry.low - 1)) / n}%`, x2: `${(100 * entry.high) / n}%`, y1: "50%", y2: "50%" }),
    shape("circle", { class: "dot", cx: at(entry.rank), cy: "50%", r: 4 }),
  );
}

// The start of an item's text, and its image, which opens in full.
function shownItem(entry) {
  const parts = [within("span", called(entry))];
  if (entry.image) {
    const image = Object.assign(new Image(), { alt: "", loading: "lazy", decoding: "async", src: BASE + entry.image });
    const link = Object.assign(named("thumb", within("a", image)), { href: BASE + entry.image, target: "_blank", rel: "noopener" });
    link.setAttribute("aria-label", `Image of ${entry.id}`);
    parts.unshift(link);
  }
  if (entry.group) parts.unshift(named("group", within("span", entry.group)));
  return named("item", within("div", ...parts));
}

// A button whose name says what it is about.
function button(label, about, act) {
  const made = Object.assign(document.createElement("button"), { type: "button", textContent: label });
  made.setAttribute("aria-label", `${label}: ${about}`);
  made.addEventListener("click", act);
  return made;
}

// Redraw the rows of a table if they changed, but not while it has the focus, unless one of its
// buttons was used: then the one in its place gets the focus.
const drawn = {};
function redraw(table, entries, draw) {
  const key = JSON.stringify(entries);
  const body = $(table).tBodies[0];
  const place = [...body.querySelectorAll("button")].indexOf(document.activeElement);
  if (drawn[table] === key || (!used && body.contains(document.activeElement))) return;
  drawn[table] = key;
  body.replaceChildren(...entries.map(draw));
  $(table).parentElement.hidden = !entries.length && table !== "ranking" && table !== "people";
  if (place >= 0) body.querySelectorAll("button")[place]?.focus();
}

function drawRanking(state) {
  redraw("ranking", state.ranking, (entry) => row([
    cell(`${entry.rank}`), cell(shownItem(entry), "th", "text"), cell(interval(entry, entry.of), "td", "plot"),
    cell(`${entry.low}`), cell(`${entry.high}`), cell(fixed(entry.score)), cell(`${entry.judgements}`),
    cell(["better", "worse"].map((side) => choice(side, entry)), "td", "actions"),
  ]));
  const all = state.found === state.items ? `${state.items} items` : `${state.found} of ${state.items} items found`;
  $("caption").textContent = `${all}. The dot is the rank, the bar where it is with 90 % probability, of 1 to ${state.groups.length ? "the number of items in the group" : state.items}.`;
  view.page = state.page;
  $("pager").hidden = state.pages === 1;
  $("before").disabled = state.page === 1;
  $("after").disabled = state.page === state.pages;
  const page = `Page ${state.page} of ${state.pages}`;
  if ($("page").textContent !== page) $("page").textContent = page;
  const [by, order] = view.sort.startsWith("-") ? [view.sort.slice(1), "descending"] : [view.sort, "ascending"];
  for (const head of $("ranking").querySelectorAll("[data-sort]")) {
    if (head.dataset.sort === by) head.parentElement.setAttribute("aria-sort", order);
    else head.parentElement.removeAttribute("aria-sort");
  }
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
    link.addEventListener("click", () => { $("find").value = group.group; show({ page: 1 }); });
    return row([
      cell(link, "th", "text"), cell(`${group.items}`), cell(`${group.answers}`),
      cell(percent(group.wrong_pairs)), cell(group.stop ? "reached" : ""),
    ]);
  }));
}

const alpha = (of) => (of.shared_pairs ? [fixed(of.krippendorff_alpha), within("small", ` of ${of.shared_pairs} pairs`)] : "–");

function drawFigures(state) {
  const left = state.remaining?.questions;
  const figures = {
    "Answers": `${state.answers}`,
    "Questions left": left || (left === 0 && state.remaining.stop) ? `about ${left}` : "–",
    "Answers in the last hour": `${state.per_hour.last_hour}`,
    "Answers per hour, by the last 10 minutes": `${state.per_hour.pace}`,
    "Pairs expected wrong": percent(state.remaining?.wrong_pairs),
    "Agreement (Krippendorff’s α)": alpha(state.agreement),
    "Cyclic triples": percent(state.agreement.cycles),
  };
  $("figures").replaceChildren(...Object.entries(figures).map(
    ([name, value]) => within("div", cell(name, "dt"), cell(value, "dd")),
  ));
  const paused = state.paused ? ", all paused" : "";
  const summary = `${state.items} items, ${state.people.length} annotator${state.people.length === 1 ? "" : "s"}${paused}`;
  if ($("summary").textContent !== summary) $("summary").textContent = summary;
  const why = state.remaining ? state.remaining.why : "The first ranking is being computed.";
  if ($("why").textContent !== why) $("why").textContent = why;
}

// About four round numbers from 0 to the largest.
function ticks(largest) {
  const power = 10 ** Math.floor(Math.log10(largest / 4));
  const step = [1, 2, 5, 10].map((digit) => digit * power).find((each) => each >= largest / 4);
  return Array.from({ length: Math.floor(largest / step) + 1 }, (_, k) => k * step).filter(Number.isInteger);
}

// The share of pairs in the right order by the number of answers: expected, and of the hold-out.
function drawCurve(state) {
  const points = state.curve.filter((point) => point.expected !== null);
  $("curve").hidden = points.length < 2;
  if (points.length < 2) return;
  const [width, height, left, low, right] = [Math.max($("curve").clientWidth, 200), 190, 46, 24, 14];
  const most = Math.max(...points.map((point) => point.answers), 4);
  const values = points.flatMap((point) => [point.expected, point.holdout ?? 1]).concat(1 - state.goal);
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
  svg.append(shape("line", { class: "goal", x1: left, x2: width - right, y1: y(1 - state.goal), y2: y(1 - state.goal) }));
  for (const name of ["holdout", "expected"]) {
    const known = points.filter((point) => point[name] !== null);
    svg.append(shape("polyline", { class: name, points: known.map((point) => `${x(point.answers)},${y(point[name])}`).join(" ") }));
    svg.append(...known.map((point) => shape("circle", { class: name, cx: x(point.answers), cy: y(point[name]), r: 3 })));
  }
  const last = points.at(-1);
  const checked = last.holdout === null ? "" : `, ${percent(last.holdout)} of the hold-out predicted`;
  svg.setAttribute("aria-label", `After ${last.answers} answers ${percent(last.expected)} of the pairs are expected in the right order${checked}; the goal is ${percent(1 - state.goal)}.`);
  $("curve").querySelector("svg")?.remove();
  $("curve").append(svg);
}

const chosen = { better: null, worse: null };

function choice(side, entry) {
  const label = side === "better" ? "Better" : "Worse";
  return button(label, called(entry), () => {
    chosen[side] = entry.item;
    $(side).textContent = called(entry);
    const { better, worse } = chosen;
    $("add-gold").disabled = better === null || worse === null || better === worse;
  });
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

function drawGold(state) {
  const share = `${Math.round(100 * state.gold_rate)} %`;
  const about = state.gold.length ? `About ${share} of the questions are about them.` : "There are none yet.";
  $("gold-about").textContent = `Pairs whose answer is known: each annotator is scored by them. ${about} Choose the two items in the ranking below.`;
  redraw("gold", state.gold, (pair) => {
    const remove = () => decide({ kind: "no-gold", item: pair.item, other: pair.other }, "Removed a gold pair.");
    return row([cell(pair.better, "td", "text"), cell(pair.worse, "td", "text"), cell(button("Remove", `${pair.better}, ${pair.worse}`, remove), "td", "text")]);
  });
}

// Each pair with the names of those who preferred one, the other, or neither.
function drawDisputed(state) {
  const { found, pairs } = state.disputed;
  const shown = pairs.length < found ? `, the ${pairs.length} most disputed shown` : "";
  $("disputed-about").textContent = found ? `${found} ${found === 1 ? "pair" : "pairs"} on which annotators differ, or one of them at two times${shown}.` : "There are none: where annotators were asked about the same pair, they gave the same answer.";
  redraw("disputed", pairs, (pair) => {
    const who = (share) => [...new Set(pair.said.filter(([, given]) => given === share).map(([name]) => name))].join(", ");
    const side = (k) => cell([shownItem(pair.items[k]), named("who", within("p", `Better: ${who(1 - k) || "nobody"}`))], k ? "td" : "th", "text");
    return row([side(0), side(1), cell(who(0.5) || "–", "td", "text")]);
  });
}

const SAID = { left: "left is better", right: "right is better", tie: "equally good", skip: "skipped", "cant-say": "can’t say" };

function drawComments(state) {
  const { found, newest } = state.comments;
  const shown = newest.length < found ? `, the ${newest.length} newest shown` : "";
  $("comments-about").textContent = found ? `${found} ${found === 1 ? "answer" : "answers"} with a comment or a flag, the newest first${shown}.` : "There are none yet.";
  redraw("comments", newest, (entry) => {
    const when = entry.at === null ? [] : [within("small", clock(entry.at))];
    const flag = entry.flagged ? [named("flag", within("strong", "⚑ flagged"))] : [];
    return row([
      cell([entry.annotator, ...when], "th", "text"), cell([...flag, named("said", within("span", entry.comment ?? ""))], "td", "text"),
      cell(SAID[entry.answer], "td", "text"), ...entry.items.map((item) => cell(shownItem(item), "td", "text")),
    ]);
  });
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

// What stands below the pace of an annotator.
function pace(who) {
  const seconds = who.report?.median_seconds ?? null;
  return [...(seconds === null ? [] : [`${fixed(seconds, 1)} s each`]), ...(who.last === null ? [] : [clock(who.last)])];
}

// The address of a page of this server; both lie below the same path.
const address = (path) => new URL(`..${path}`, location.href).href;

function drawPeople(state) {
  $("pause").textContent = state.paused ? "Resume everybody" : "Pause everybody";
  $("pause").dataset.kind = state.paused ? "resume" : "pause";
  redraw("people", state.people, (who) => {
    const to = { href: address(who.path), textContent: "Link", title: address(who.path), ariaLabel: `Link of ${who.name}` };
    const link = who.revoked ? "revoked" : Object.assign(document.createElement("a"), to);
    const report = who.report || {};
    return row([
      cell(who.name, "th", "text"), cell(link, "td", "text"), cell(`${report.answers ?? who.standing}`),
      cell([fixed(who.pace, 1), ...pace(who).map((text) => within("small", text))]),
      measured(report.reliability), measured(report.side_bias),
      shares(report.agreement, report.expected_agreement),
      shares(report.consistency, report.expected_consistency),
      measured(report.gold), cell(remarks(who), "td", "text"), actions(who),
    ]);
  });
}

// The fields of what is asked: how a value is shown, and what is sent for it.
const local = (seconds) => {
  const time = new Date(1000 * seconds);
  return new Date(time - 60000 * time.getTimezoneOffset()).toISOString().slice(0, 16);
};
const FIELDS = {
  question: [(text) => text, (text) => ({ reason: text.trim() })],
  instructions: [(text) => text, (text) => ({ reason: text.trim() })],
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
function drawStudy(study, goal) {
  for (const field of fields()) {
    const [shown] = FIELDS[field.dataset.kind];
    const written = changed(field) ? field.value : null;
    field.value = shown(study[field.dataset.kind]);
    field.dataset.known = field.value;
    if (written !== null) field.value = written;
  }
  const until = study.deadline ? `, until ${clock(study.deadline)}` : "";
  $("asked").textContent = `${study.question} Goal: at most ${+(100 * goal).toFixed(2)} % of the pairs in the wrong order${until}`;
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

const DRAW = [drawFigures, drawCurve, drawGroups, drawPeople, drawDisputed, drawComments, drawGold, drawRanking];
let round = 0;
let used = false; // whether a button was used since the last drawing
let decided = null; // the number of decisions when what is asked was read
async function refresh() {
  const mine = ++round;
  try {
    const state = await ask(`/state${query({ find: $("find").value, ...view })}`);
    const asked = decided === `${state.decided} ${criterion()}` ? null : await ask(`/study${query({})}`);
    if (mine !== round) return; // a newer request was sent in the meantime
    for (const draw of DRAW) draw(state);
    if (asked) drawStudy(asked, state.goal);
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
$("pause").addEventListener("click", () => {
  const { kind } = $("pause").dataset;
  decide({ kind }, kind === "pause" ? "Everybody is paused." : "Everybody may answer again.");
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
