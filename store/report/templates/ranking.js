// Shows all rows of a ranking, a page of them at a time; sorts by the column whose heading is
// pressed, and finds items. Without this script the first rows are there as they were written.
const SHOWN = 100; // rows of a page: ten thousand at once take seconds to lay out
const compareText = new Intl.Collator(undefined, { numeric: true }).compare;

function element(tag, properties, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

// The text of a cell; of a column of numbers the number that it begins with, as in "1-80" or "49 %".
function keyOf(cell, isText) {
  return isText ? [cell].flat().join(" ") : parseFloat(cell);
}

function compareKeys(first, second) {
  const numbers = typeof first === "number" && typeof second === "number";
  return numbers ? first - second : compareText(String(first), String(second));
}

class Ranking {
  constructor(part) {
    this.body = part.querySelector("tbody");
    this.heads = Array.from(part.querySelector("thead tr").cells);
    this.rows = JSON.parse(part.querySelector("script").textContent);
    this.found = this.rows;
    this.start = 0;
    this.heads.forEach((head, column) => {
      const press = () => this.sort(column);
      head.replaceChildren(element("button", { type: "button", onclick: press }, head.textContent));
    });
    if (this.rows.length > SHOWN) part.append(this.controls());
  }

  controls() {
    const turn = (steps) => () => this.show(this.start + steps * SHOWN);
    this.before = element("button", { type: "button", onclick: turn(-1) }, "Previous");
    this.after = element("button", { type: "button", onclick: turn(1) }, "Next");
    this.where = element("span", {});
    this.where.setAttribute("role", "status");
    const wanted = element("input", { type: "search", oninput: () => this.find(wanted.value) });
    const label = element("label", {}, "Find ", wanted);
    const made = element("p", { className: "controls" }, this.before, this.after, this.where, label);
    this.tell();
    return made;
  }

  sort(column) {
    const head = this.heads[column];
    const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    for (const other of this.heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", sign === 1 ? "ascending" : "descending");
    const keys = new Map(this.rows.map((row) => [row, keyOf(row[column], head.classList.contains("text"))]));
    this.rows.sort((first, second) => sign * compareKeys(keys.get(first), keys.get(second)));
    this.find(this.words ?? "");
  }

  find(words) {
    this.words = words;
    const wanted = words.trim().toLowerCase();
    const has = (row) => row.flat().some((cell) => cell.toLowerCase().includes(wanted));
    this.found = wanted ? this.rows.filter(has) : this.rows;
    this.show(0);
  }

  show(start) {
    this.start = start;
    const rows = this.found.slice(start, start + SHOWN);
    this.body.replaceChildren(...rows.map((row) => this.drawn(row)));
    if (this.where) this.tell();
  }

  tell() {
    const [first, last, all] = [this.start + 1, Math.min(this.start + SHOWN, this.found.length), this.found.length];
    this.where.textContent = all ? `Rows ${first} to ${last} of ${all.toLocaleString("en")}` : "No such item";
    this.before.disabled = this.start === 0;
    this.after.disabled = last >= all;
  }

  drawn(row) {
    const cells = row.map((cell, column) => {
      const isText = this.heads[column].classList.contains("text");
      const className = isText ? "text" : "";
      if (!Array.isArray(cell)) return element("td", { className }, cell);
      const [id, text] = cell;
      return element("th", { scope: "row", className }, element("strong", {}, id), text ? ` ${text}` : "");
    });
    return element("tr", {}, ...cells);
  }
}

for (const part of document.querySelectorAll(".sortable")) new Ranking(part);
