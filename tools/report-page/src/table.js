// The table of stacks: sorted by a column, and filtered by the words of the search and the zoomed
// frame. A row can be opened to show all details of its stack.
import { amountText, element, number, plural, stackMatches } from "./profile.js";

const ROWS = 200; // rows that are shown before the user asks for more

function marksText(stack) {
  return stack.firstMark === stack.lastMark ? `${stack.firstMark}` : `${stack.firstMark}\u2013${stack.lastMark}`;
}

function processText(stack) {
  const [[first]] = stack.processes;
  return (first || "\u2013") + (stack.processCount > 1 ? ` +${stack.processCount - 1}` : "");
}

export class Table {
  // Calls selected(stack) with the stack whose row was opened last, or null if none is open.
  constructor(profile, { selected }) {
    Object.assign(this, { profile, selected, words: "", within: null, opened: null, shown: ROWS });
    const oldest = (stack) => Math.max(...stack.ages.map(([age]) => age));
    this.columns = [
      { key: "bytes", name: "Bytes", value: (s) => s.amount[0], text: (s) => number(s.amount[0], profile.difference), class: "number", down: true },
      { key: "objects", name: "Objects", value: (s) => s.amount[1], text: (s) => number(s.amount[1], profile.difference), class: "number", down: true },
      { key: "function", name: "Function", value: (s) => s.name.toLowerCase() },
      { key: "cache", name: "Cache", value: (s) => s.source.toLowerCase(), text: (s) => s.source, class: "name" },
      { key: "process", name: "Process", value: (s) => s.processes[0][0].toLowerCase(), text: processText, class: "name" },
      { key: "mark", name: "Mark", value: (s) => s.firstMark, text: marksText, class: "number" },
      { key: "age", name: "Age", value: oldest, text: (s) => profile.ages[oldest(s)] ?? "\u2013", down: true, class: "age" },
    ];
    [this.head, this.rows, this.count, this.more, this.choice] = ["head", "rows", "count", "more", "sort"].map((id) => document.getElementById(id));
    for (const column of this.columns) {
      const button = element("button", column.name, { type: "button" });
      button.addEventListener("click", () => this.sortBy(column));
      this.head.append(element("th", "", { scope: "col", class: column.class ?? "" }, button));
      this.choice.append(element("option", column.name, { value: column.key }));
    }
    this.choice.addEventListener("change", () => this.sortBy(this.columns.find(({ key }) => key === this.choice.value)));
    this.more.addEventListener("click", () => {
      this.shown += ROWS;
      this.fill();
    });
    this.sorted = this.columns[0];
    this.down = true;
  }

  sortBy(column) {
    this.down = column === this.sorted ? !this.down : Boolean(column.down);
    this.sorted = column;
    this.shown = ROWS;
    this.show();
  }

  search(words) {
    this.words = words;
    this.shown = ROWS;
    this.show();
  }

  // Shows only the stacks in the Set `stacks`; all stacks if null. `name`: the name of the zoomed frame.
  zoom(stacks, name) {
    this.within = stacks && { stacks, name };
    this.shown = ROWS;
    this.show();
  }

  show() {
    const { value } = this.sorted;
    const sign = this.down ? -1 : 1;
    this.matching = this.profile.stacks
      .filter((stack) => (!this.within || this.within.stacks.has(stack)) && (!this.words || stackMatches(stack, this.words)))
      .map((stack) => [value(stack), stack])
      .sort(([a, one], [b, other]) => (a < b ? -sign : a > b ? sign : one.number - other.number))
      .map(([, stack]) => stack);
    [...this.head.children].forEach((th, i) => {
      th.setAttribute("aria-sort", this.columns[i] !== this.sorted ? "none" : this.down ? "descending" : "ascending");
    });
    this.choice.value = this.sorted.key;
    this.fill();
  }

  fill() {
    const all = this.profile.stacks.length;
    const { length } = this.matching;
    this.rows.replaceChildren(...this.matching.slice(0, this.shown).flatMap((stack) => this.row(stack)));
    this.count.textContent = `${length === all ? plural(all, "stack") : `${number(length)} of ${plural(all, "stack")}`}`
      + (this.within ? ` under ${this.within.name}` : "") + (length > this.shown ? `, the first ${number(this.shown)} shown` : "");
    this.more.hidden = length <= this.shown;
    this.more.textContent = `Show ${number(Math.min(ROWS, length - this.shown))} more`;
  }

  row(stack) {
    const open = stack === this.opened;
    const cells = this.columns.map((column) => {
      if (column.key !== "function") return element("td", column.text(stack), { class: column.class ?? "", "data-name": column.name });
      const button = element("button", stack.name, { type: "button", "aria-expanded": open, class: "name" });
      button.addEventListener("click", () => this.open(open ? null : stack));
      const place = stack.kernel[0]?.place ?? stack.user[0]?.place;
      return element("td", "", { class: "function" }, button, element("span", place ?? "", { class: "place quiet" }));
    });
    const row = element("tr", "", { "data-stack": stack.number, class: open ? "open" : "" }, ...cells);
    return open ? [row, element("tr", "", { class: "whole" }, element("td", "", { colspan: this.columns.length }, whole(stack, this.profile)))] : [row];
  }

  open(stack) {
    const before = this.opened;
    this.opened = stack;
    this.fill();
    this.rows.querySelector(`[data-stack="${(stack ?? before).number}"] button`)?.focus();
    this.selected(stack);
  }

  close() {
    if (this.opened) {
      this.opened = null;
      this.selected(null);
    }
  }
}

// Returns an element with all details of a stack.
function whole(stack, profile) {
  const signed = profile.difference;
  const parts = [];
  if (stack.kernel.length) parts.push(element("h3", "Stack in the kernel"), frameList(stack.kernel));
  if (stack.user.length) parts.push(element("h3", `Stack in ${stack.user[0].module}`), frameList(stack.user));
  if (!parts.length) parts.push(element("p", "The stack was not recorded."));
  const facts = [
    ["Held by", stack.holders, stack.holderCount],
    ["Allocated by", stack.processes.filter(([name]) => name).map(([name, ...amount]) => `${name}: ${amountText(amount, signed)}`), stack.processCount],
    ["Age", stack.ages.filter(([age]) => age >= 0).map(([age, ...amount]) => `${profile.ages[age]}: ${amountText(amount, signed)}`), 0],
  ];
  for (const [title, lines, count] of facts.filter(([, lines]) => lines.length)) {
    parts.push(element("h3", title), element("ul", "", {}, ...lines.map((line) => element("li", line))));
    if (count > lines.length) parts.push(element("p", `and ${number(count - lines.length)} more`, { class: "quiet" }));
  }
  if (stack.ever[1]) parts.push(element("p", `Ever allocated: ${amountText(stack.ever, signed)}.`));
  return element("div", "", { class: "stack" }, ...parts);
}

function frameList(frames) {
  return element("ol", "", {}, ...frames.map((frame) => {
    const item = element("li", "", {}, element("span", frame.name, { class: "name" }));
    if (frame.inlined) item.append(" ", element("span", "inlined", { class: "tag" }));
    if (frame.place) item.append(" ", element("span", frame.place, { class: "place quiet" }));
    if (frame.text) item.append(element("code", frame.text));
    return item;
  }));
}
