// Shows all rows of a ranking, page by page; sorts by the column whose heading is pressed, and finds
// items. Without this script the page has the first rows only.
const SHOWN = 100; // rows of a page: ten thousand at once take seconds to lay out
const compareText = new Intl.Collator(undefined, { numeric: true }).compare;

function element(tag, properties, ...children) {
  const newElement = Object.assign(document.createElement(tag), properties);
  newElement.append(...children);
  return newElement;
}

// The key by which a cell is sorted: its text, or the number at its start, as in "1-80" or "49 %".
function keyOf(cell, isText) {
  return isText ? [cell].flat().join(" ") : parseFloat(cell);
}

function compareKeys(first, second) {
  const areNumbers = typeof first === "number" && typeof second === "number";
  return areNumbers ? first - second : compareText(String(first), String(second));
}

class Ranking {
  constructor(part) {
    this.body = part.querySelector("tbody");
    this.heads = Array.from(part.querySelector("thead tr").cells);
    this.rows = JSON.parse(part.querySelector("script").textContent);
    this.matching = this.rows;
    this.start = 0;
    this.heads.forEach((head, column) => {
      const press = () => this.sort(column);
      head.replaceChildren(element("button", { type: "button", onclick: press }, head.textContent));
    });
    if (this.rows.length > SHOWN) part.append(this.controls());
  }

  controls() {
    const turnPages = (count) => () => this.show(this.start + count * SHOWN);
    this.previous = element("button", { type: "button", onclick: turnPages(-1) }, "Previous");
    this.next = element("button", { type: "button", onclick: turnPages(1) }, "Next");
    this.status = element("span", {});
    this.status.setAttribute("role", "status");
    const search = element("input", { type: "search", oninput: () => this.find(search.value) });
    const label = element("label", {}, "Find ", search);
    this.drawControls();
    return element("p", { className: "controls" }, this.previous, this.next, this.status, label);
  }

  sort(column) {
    const head = this.heads[column];
    const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    for (const other of this.heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", sign === 1 ? "ascending" : "descending");
    const keys = new Map(this.rows.map((row) => [row, keyOf(row[column], head.classList.contains("text"))]));
    this.rows.sort((first, second) => sign * compareKeys(keys.get(first), keys.get(second)));
    this.find(this.searched ?? "");
  }

  find(text) {
    this.searched = text;
    const lowered = text.trim().toLowerCase();
    const matches = (row) => row.flat().some((cell) => cell.toLowerCase().includes(lowered));
    this.matching = lowered ? this.rows.filter(matches) : this.rows;
    this.show(0);
  }

  show(start) {
    this.start = start;
    const rows = this.matching.slice(start, start + SHOWN);
    this.body.replaceChildren(...rows.map((row) => this.newRow(row)));
    if (this.status) this.drawControls();
  }

  drawControls() {
    const count = this.matching.length;
    const last = Math.min(this.start + SHOWN, count);
    this.status.textContent = count ? `Rows ${this.start + 1} to ${last} of ${count.toLocaleString("en")}` : "No such item";
    this.previous.disabled = this.start === 0;
    this.next.disabled = last >= count;
  }

  newRow(row) {
    const cells = row.map((cell, column) => {
      const isText = this.heads[column].classList.contains("text");
      const className = isText ? "text" : "";
      if (!Array.isArray(cell)) return element("td", { className, dir: "auto" }, cell);
      const [id, text] = cell;
      const parts = text ? [" ", element("span", { dir: "auto" }, text)] : [];
      return element("th", { scope: "row", className }, element("strong", { dir: "auto" }, id), ...parts);
    });
    return element("tr", {}, ...cells);
  }
}

for (const part of document.querySelectorAll(".sortable")) new Ranking(part);
