// Connects the parts of the page: the flame graph, the table and the growth chart all show the chosen
// measure, the words of the search, and the zoomed frame or the opened stack.
import "./page.css";
import { Flame, legend } from "./flame.js";
import { Growth } from "./growth.js";
import { amountText, element, number, plural, readProfile, roughly, sum } from "./profile.js";
import { Table } from "./table.js";
import { stacksBelow } from "./tree.js";

const LOSSES = 4; // losses that are shown before "and … more" is opened

const byId = (id) => document.getElementById(id);
const profile = readProfile(byId("profile"));
const shown = { measure: sum(profile.stacks.map(({ amount }) => ({ amount: amount.map(Math.abs) })), 0) ? "bytes" : "objects", order: "callers", frame: null, stack: null };

function heading() {
  const title = profile.title || "Outstanding objects";
  document.title = title;
  byId("title").textContent = title;
  byId("about").textContent = [
    profile.base ? `what has changed since ${profile.base}` : profile.difference ? "a difference" : "",
    profile.seconds ? `taken ${profile.seconds < 100 ? profile.seconds.toFixed(1) : number(profile.seconds)} s after boot` : "",
    profile.buildId ? `kernel ${profile.buildId.slice(0, 12)}` : "",
  ].filter(Boolean).join(" \u00b7 ");
  const { difference, total } = profile;
  const sources = new Set(profile.stacks.map(({ source }) => source)).size;
  const facts = [[roughly(total[0], difference), `bytes${difference ? " of change" : ""}`, number(total[0], difference)],
    [number(total[1], difference), `objects${difference ? " of change" : ""}`],
    [number(profile.stacks.length + (profile.leftOut?.stacks ?? 0)), "stacks"], [number(sources), "sources"]];
  byId("totals").append(...facts.map(([value, name, exact]) => element("div", "", exact ? { title: exact } : {}, element("dt", name), element("dd", value))));
}

function incomplete() {
  const section = byId("incomplete");
  section.className = profile.incomplete.length ? "warning" : "fine";
  const list = (lines) => element("ul", "", {}, ...lines.map((line) => element("li", line)));
  if (profile.incomplete.length) {
    section.append(element("h2", "This report is incomplete"), list(profile.incomplete.slice(0, LOSSES)));
    const others = profile.incomplete.slice(LOSSES);
    if (others.length) section.append(element("details", "", {}, element("summary", `and ${others.length} more`), list(others)));
  } else {
    section.append(element("p", "This report is complete."));
  }
  if (profile.leftOut) {
    const { stacks, amount } = profile.leftOut;
    section.append(element("p", `Left out of this page: the ${plural(stacks, "smallest stack")}, ${amountText(amount, profile.difference)}.`));
  }
}

function traces() {
  const list = document.querySelector("#sources ul");
  list.append(...profile.sources.map(({ name, kind, state, options, counters }) => {
    const words = Object.entries({ ...options, ...counters }).filter(([, value]) => value).map(([key, value]) => `${key} ${number(value)}`);
    return element("li", "", {}, element("span", name, { class: "name" }), ` ${[kind, state, ...words].filter(Boolean).join(", ")}`);
  }));
  byId("sources").hidden = !profile.sources.length;
}

const table = new Table(profile, {
  selected(stack) {
    shown.stack = stack;
    showGrowth();
  },
});
const growth = new Growth(byId("growth"), profile);
const flame = new Flame(byId("flame"), profile, {
  tell(text) {
    byId("details").textContent = text ?? (flame.found || (shown.frame
      ? `Zoomed to ${shown.frame.name}: ${amountText(shown.frame.amount, profile.difference)}` : "Point at a frame, or tap it to zoom."));
  },
  zoomed(frame) {
    shown.frame = frame && { ...frame, stacks: stacksBelow(frame) };
    table.zoom(shown.frame && new Set(shown.frame.stacks), frame?.name);
    flame.tell(null);
    showGrowth();
  },
});

function showGrowth() {
  const { stack, frame } = shown;
  growth.show(shown.measure, stack ? { name: stack.name, stacks: [stack] } : frame);
}

function showFlame() {
  shown.frame = null;
  byId("legend").textContent = legend(profile, flame.show(shown.measure, shown.order));
  table.zoom(null);
  flame.tell(null);
  showGrowth();
}

function search() {
  const words = byId("search").value.trim().toLowerCase();
  flame.search(words);
  flame.tell(null);
  table.search(words);
}

function listen() {
  byId("controls").addEventListener("submit", (event) => event.preventDefault());
  byId("controls").addEventListener("change", ({ target }) => {
    if (target.name === "measure") shown.measure = target.value;
    else if (target.id === "order") shown.order = target.value;
    else return;
    showFlame();
  });
  let waiting = 0; // timer that runs until the typing pauses
  byId("search").addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(search, 120);
  });
  byId("reset").addEventListener("click", () => {
    byId("search").value = "";
    search();
    table.close();
    flame.reset();
  });
  const dark = () => (document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const name = () => { byId("theme").textContent = dark() ? "Light" : "Dark"; };
  byId("theme").addEventListener("click", () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    name();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", name);
  name();
}

heading();
incomplete();
traces();
listen();
byId("controls").elements.measure.value = shown.measure;
byId("order").value = shown.order;
showFlame();
