// Builds the tree of the flame graph: merges stacks that have the same outermost callers (order
// "callers"), or the same source and innermost functions.
//
// In a difference, a node's width is the sum of the stacks' growth and shrinkage, both counted as
// positive, since a width cannot be negative. The node's colour shows the net change.
import { MEASURES } from "./profile.js";

const MOST_STACKS = 5000; // a browser would take too long for more stacks, and their frames would be narrower than a pixel
const MOST_FRAMES = 200; // largest number of frames of a stack

function pathOf(stack, order) {
  const kernel = stack.kernel.map((frame) => ({ name: frame.name, kind: "kernel", place: frame.place }));
  const user = stack.user.map((frame) => ({ name: frame.name, kind: "program", place: frame.place }));
  const source = { name: `[${stack.source}]`, kind: "source", place: "" };
  const frames = [...kernel, ...user];
  if (!frames.length) frames.push({ name: stack.name, kind: "rest", place: "" });
  const path = order === "callers" ? [...frames.reverse(), source] : [source, ...frames];
  return path.length <= MOST_FRAMES ? path : [...path.slice(0, MOST_FRAMES - 1), { name: "(deeper)", kind: "rest", place: "" }];
}

function newNode({ name, kind, place }) {
  return { name, kind, places: new Set(place ? [place] : []), value: 0, amount: [0, 0], stacks: [], below: new Map() };
}

function add(node, stack, value) {
  node.value += value;
  node.amount[0] += stack.amount[0];
  node.amount[1] += stack.amount[1];
}

function finish(node) {
  node.children = [...node.below.values()].sort((a, b) => b.value - a.value);
  node.children.forEach(finish);
  delete node.below;
}

// Returns {root, leftOut: number of stacks in the node "(smaller stacks)", without: number of stacks whose amount of this measure is 0}.
export function buildTree(stacks, measure, order) {
  const index = MEASURES.indexOf(measure);
  const root = newNode({ name: "all", kind: "root" });
  const sized = stacks.filter((stack) => stack.amount[index]).sort((a, b) => Math.abs(b.amount[index]) - Math.abs(a.amount[index]));
  for (const [rank, stack] of sized.entries()) {
    const value = Math.abs(stack.amount[index]);
    const path = rank < MOST_STACKS ? pathOf(stack, order) : [{ name: "(smaller stacks)", kind: "rest", place: "" }];
    let node = root;
    add(root, stack, value);
    for (const step of path) {
      const key = `${step.kind}\n${step.name}`;
      if (!node.below.has(key)) node.below.set(key, newNode(step));
      node = node.below.get(key);
      if (step.place && node.places.size < 4) node.places.add(step.place);
      add(node, stack, value);
    }
    node.stacks.push(stack);
  }
  finish(root);
  return { root, leftOut: Math.max(0, sized.length - MOST_STACKS), without: stacks.length - sized.length };
}

export function stacksBelow(node) {
  return [...node.stacks, ...node.children.flatMap(stacksBelow)];
}
