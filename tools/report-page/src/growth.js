// Live objects by the mark of their allocation: a bar for each mark, and a line for the running
// sum, on one scale.
import { scaleLinear } from "d3-scale";
import { select } from "d3-selection";
import { amountText, element, number, roughly, sum } from "./profile.js";

const HEIGHT = 190;
const MARGIN = { top: 10, right: 12, bottom: 34, left: 70 };

// Returns [[first mark, sum of the stacks' amounts], …], one for each column of `width` marks. `index`
// selects bytes or objects. A column without objects has the amount 0.
function columns(stacks, index, marks, width) {
  const amounts = new Map();
  for (const stack of stacks) for (const [mark, ...amount] of stack.marks) amounts.set(mark, (amounts.get(mark) ?? 0) + amount[index]);
  const result = [];
  for (let mark = marks[0]; mark <= marks[1]; mark += width) result.push([mark, amounts.get(mark) ?? 0]);
  return result;
}

function range(stacks) {
  let least = Infinity;
  let most = -Infinity;
  for (const stack of stacks) for (const [mark] of stack.marks) [least, most] = [Math.min(least, mark), Math.max(most, mark)];
  return [least, most];
}

function chart(title, stacks, profile, measure, marks, kind) {
  const index = measure === "bytes" ? 0 : 1;
  const bars = columns(stacks, index, marks, profile.markWidth);
  let total = 0;
  const line = bars.map(([mark, value]) => [mark, (total += value)]);
  const figure = element("figure", "", { class: kind });
  figure.append(element("figcaption", `${title}: ${amountText([sum(stacks, 0), sum(stacks, 1)], profile.difference)}`));
  return { figure, draw: () => draw(figure, bars, line, profile, measure, title) };
}

function draw(figure, bars, line, profile, measure, title) {
  const width = figure.clientWidth;
  if (width <= MARGIN.left + MARGIN.right) return;
  const values = [...bars, ...line].map(([, value]) => value);
  const most = Math.max(1, ...values.map(Math.abs));
  const unit = measure === "bytes" ? 1024 ** Math.floor(Math.log2(most) / 10) : 1; // ticks are round numbers of this unit
  const inUnits = scaleLinear().domain([Math.min(0, ...values) / unit, Math.max(measure === "bytes" ? 0 : 1, ...values) / unit]).nice(4)
    .range([HEIGHT - MARGIN.bottom, MARGIN.top]);
  const y = (value) => inUnits(value / unit);
  const step = (width - MARGIN.left - MARGIN.right) / bars.length;
  const x = (i) => MARGIN.left + i * step;
  const name = (mark) => (profile.markWidth > 1 ? `${mark}\u2013${mark + profile.markWidth - 1}` : `${mark}`);
  const summary = `${title}: bars for each mark, ${bars.slice(0, 20).map(([mark, value]) => `${name(mark)}: ${number(value)}`).join(", ")}`;
  figure.querySelector("svg")?.remove();
  const svg = select(figure).append("svg").attr("width", width).attr("height", HEIGHT).attr("role", "img").attr("aria-label", summary);
  for (const tick of inUnits.ticks(4).map((round) => round * unit).filter((value) => measure === "bytes" || Number.isInteger(value))) {
    svg.append("line").attr("class", "grid").attr("x1", MARGIN.left).attr("x2", width - MARGIN.right).attr("y1", y(tick)).attr("y2", y(tick));
    svg.append("text").attr("x", MARGIN.left - 8).attr("y", y(tick) + 4).attr("text-anchor", "end")
      .text(measure === "bytes" ? roughly(tick) : number(tick));
  }
  for (const [i, [mark, value]] of bars.entries()) {
    svg.append("rect").attr("class", "bar").attr("x", x(i) + Math.min(3, step * 0.1)).attr("width", Math.max(1, step - 2 * Math.min(3, step * 0.1)))
      .attr("y", Math.min(y(0), y(value))).attr("height", Math.abs(y(0) - y(value)))
      .append("title").text(`mark ${name(mark)}: ${number(value)} ${measure}, ${number(line[i][1])} up to it`);
  }
  svg.append("path").attr("class", "line").attr("d", `M${line.map(([, value], i) => `${x(i) + step / 2},${y(value)}`).join("L")}`);
  const every = Math.ceil((profile.markWidth > 1 ? 90 : 40) / step); // labels need room
  for (let i = 0; i < bars.length; i += every) {
    svg.append("text").attr("x", x(i) + step / 2).attr("y", HEIGHT - MARGIN.bottom + 16).attr("text-anchor", "middle").text(name(bars[i][0]));
  }
  svg.append("text").attr("x", MARGIN.left).attr("y", HEIGHT - 3).text("mark");
}

export class Growth {
  constructor(section, profile) {
    Object.assign(this, { profile, charts: section.querySelector("#charts"), drawn: [] });
    this.marks = range(profile.stacks);
    section.hidden = !(this.marks[0] < this.marks[1]);
    section.querySelector("#growth-about").textContent =
      "Live memory by the mark in which it was allocated. Bar: allocated in this mark. Line: allocated in this or an earlier mark. A leak adds to every mark.";
    new ResizeObserver(() => this.draw()).observe(this.charts);
  }

  // `selected`: {name, stacks}, or null.
  show(measure, selected) {
    const made = [chart("All", this.profile.stacks, this.profile, measure, this.marks, "all")];
    if (selected) made.push(chart(selected.name, selected.stacks, this.profile, measure, this.marks, "selected"));
    this.drawn = made;
    this.charts.replaceChildren(...made.map(({ figure }) => figure));
    if (!selected) this.charts.append(element("p", "Open a stack in the table, or zoom to a frame, to see its growth beside that of all.", { class: "quiet" }));
    this.draw();
  }

  draw() {
    if (this.marks[0] < this.marks[1]) for (const { draw } of this.drawn) draw();
  }
}
