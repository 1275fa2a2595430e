// The flame graph, drawn by d3-flame-graph, with additions: the keyboard, names for screen readers,
// differences.
import flamegraph from "d3-flame-graph";
import { select } from "d3-selection";
import { amountText, MEASURES, plural } from "./profile.js";
import { buildTree } from "./tree.js";

const CELL = 22; // pixels of a frame's height
const MOST_FRAMES = 1500; // largest number of frames that are drawn at once; a browser takes about a millisecond for each

// Frames are light and have dark text, even if the page is dark.
const HUES = { root: [220, 8], kernel: [32, 90], program: [205, 75], source: [150, 40], rest: [220, 8] };
const FOUND = "hsl(312 90% 80%)";

function hash(name) {
  let value = 0;
  for (const character of name) value = (value * 31 + character.codePointAt(0)) >>> 0;
  return value;
}

function colour(node, difference, measure) {
  if (node.highlight) return FOUND;
  const { data } = node;
  if (difference) {
    const part = data.value ? data.amount[MEASURES.indexOf(measure)] / data.value : 0; // 1: all grew, -1: all shrank
    return part ? `hsl(${part > 0 ? 6 : 215} 85% ${90 - 18 * Math.abs(part)}%)` : "hsl(220 8% 85%)";
  }
  const [hue, saturation] = HUES[data.kind];
  return `hsl(${hue + (hash(data.name) % 21) - 10} ${saturation}% ${72 + (hash(data.name) % 9)}%)`;
}

// Returns the highlighted nodes at or below `node` that have no highlighted ancestor at or below `node`.
function highest(node) {
  return node.highlight ? [node] : (node.children ?? []).flatMap(highest);
}

export class Flame {
  // Calls tell(text) with the description of the frame under the pointer, or null if there is none.
  // Calls zoomed(node) with the data of the zoomed frame, or null if all frames are shown.
  constructor(parent, profile, { tell, zoomed }) {
    Object.assign(this, { parent, profile, tell, zoomed, words: "" });
    this.chart = null;
    parent.addEventListener("click", (event) => this.fit(select(event.target.closest?.("g.frame")).datum()), { capture: true });
    parent.addEventListener("keydown", (event) => this.key(event));
    parent.addEventListener("focusin", (event) => this.tell(event.target.getAttribute("aria-label")));
    parent.addEventListener("focusout", () => this.tell(null));
    new ResizeObserver(() => this.resize()).observe(parent);
  }

  show(measure, order) {
    const tree = buildTree(this.profile.stacks, measure, order);
    this.measure = measure;
    this.total = tree.root.value;
    this.parent.replaceChildren();
    this.chart = flamegraph()
      .width(this.parent.clientWidth).cellHeight(CELL).inverted(true).transitionDuration(0)
      .setColorMapper((node) => colour(node, this.profile.difference, this.measure))
      .setLabelHandler((node) => this.label(node))
      .setDetailsHandler((text) => this.tell(text))
      .onClick((node) => this.drawn(node));
    // No frame is wider than this minimum, so no frame is drawn until fit() below sets the real minimum.
    this.chart.minFrameSize(this.parent.clientWidth);
    select(this.parent).datum(tree.root).call(this.chart);
    this.root = select(this.parent).datum();
    this.svg = this.parent.querySelector("svg");
    this.svg.setAttribute("role", "tree");
    this.svg.setAttribute("aria-label", "Flame graph: arrows go through frames, Enter zooms, Escape shows all");
    this.current = this.root;
    this.fit(this.root);
    this.search(this.words);
    return tree;
  }

  // Called before a zoom to `node`: sets the minimum width of a frame, so that at most MOST_FRAMES are drawn.
  fit(node) {
    if (!node) return;
    const widths = node.descendants().map(({ data }) => (data.value / node.data.value) * this.chart.width()).sort((a, b) => b - a);
    this.chart.minFrameSize(Math.max(1, widths[MOST_FRAMES] ?? 0));
  }

  amount(amount, value) {
    const part = this.total ? ` (${((100 * value) / this.total).toFixed(1)}% of ${this.profile.difference ? "the change" : "all"})` : "";
    return amountText(amount, this.profile.difference) + part;
  }

  label(node) {
    const { name, amount, value, places } = node.data;
    const where = places.size ? `, ${[...places].slice(0, 3).join(", ")}${places.size > 3 ? ", \u2026" : ""}` : "";
    return `${name}: ${this.amount(amount, value)}${where}`;
  }

  search(words) {
    this.words = words;
    this.root.each((node) => {
      node.highlight = Boolean(words) && `${node.data.name}\n${[...node.data.places].join("\n")}`.toLowerCase().includes(words);
    });
    const found = words ? highest(this.root) : [];
    this.found = words && `Found: ${this.amount(found.reduce(([bytes, objects], { data }) => [bytes + data.amount[0], objects + data.amount[1]], [0, 0]),
      found.reduce((total, { data }) => total + data.value, 0))}`;
    this.redraw();
  }

  redraw() {
    this.chart.update();
    this.decorate();
  }

  reset() {
    this.fit(this.root);
    this.chart.resetZoom();
  }

  resize() {
    if (!this.chart || this.chart.width() === this.parent.clientWidth) return;
    this.chart.width(this.parent.clientWidth);
    this.fit(this.current);
    this.redraw();
  }

  drawn(node) {
    this.current = node;
    this.decorate();
    this.zoomed(node === this.root ? null : node.data);
  }

  // Finishes a drawing of the chart. Sets the attributes of each drawn frame for the search, for screen readers and for the keyboard: only
  // `current` can be reached with Tab. Fits the SVG element to the frames.
  decorate() {
    let depth = 0;
    const { label, current } = { label: (node) => this.label(node), current: this.current };
    select(this.svg).selectAll("g.frame").each(function (node) {
      depth = Math.max(depth, node.depth);
      select(this).select("rect").interrupt().attr("width", this.getAttribute("width")); // instead of the library's animation of 250 ms
      this.classList.toggle("found", Boolean(node.highlight));
      this.setAttribute("role", "treeitem");
      this.setAttribute("aria-label", label(node));
      this.setAttribute("aria-level", node.depth + 1);
      this.setAttribute("tabindex", node === current ? 0 : -1);
    });
    this.svg.setAttribute("height", (depth + 1) * CELL);
    this.svg.setAttribute("width", this.chart.width());
  }

  frameOf(node) {
    return select(this.svg).selectAll("g.frame").filter((other) => other === node).node();
  }

  key(event) {
    const node = select(event.target).datum();
    if (!node?.data || !event.target.matches?.("g.frame")) return;
    const siblings = node.parent?.children ?? [node];
    const at = siblings.indexOf(node);
    const next = { ArrowUp: node.parent, ArrowDown: node.children?.[0], ArrowLeft: siblings[at - 1], ArrowRight: siblings[at + 1] }[event.key];
    if (event.key === "Enter" || event.key === " ") {
      this.fit(node);
      this.chart.zoomTo(node);
      this.frameOf(node)?.focus();
    } else if (event.key === "Escape") {
      this.reset();
      this.frameOf(this.root)?.focus();
    } else if (event.key.startsWith("Arrow")) {
      if (next) this.frameOf(next)?.focus();
    } else {
      return;
    }
    event.preventDefault();
  }
}

export function legend(profile, tree) {
  const parts = [profile.difference
    ? "Red grew, blue shrank. A frame is as wide as what changed in it, growth and shrinkage added."
    : "Orange: kernel. Blue: program. Green: cache, arena or class of references. Pink: found."];
  if (tree.leftOut) parts.push(`The ${plural(tree.leftOut, "smallest stack")} together are one frame, "(smaller stacks)"; the table has each.`);
  if (tree.without) parts.push(`${plural(tree.without, "stack")} with nothing of this measure ${tree.without === 1 ? "is" : "are"} in the table only.`);
  return parts.join(" ");
}
