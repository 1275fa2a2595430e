// Reads the profile that stele/report/page.py has put into the page, and formats its numbers.
//
// A stack of the profile represents all objects of one source (cache, arena, class of references) that
// have the same kernel stack and the same user stack; frames are in order, the innermost first.
// An amount is a pair [bytes, objects]; in a difference both may be negative.

export const MEASURES = ["bytes", "objects"];

export function readProfile(element) {
  const profile = JSON.parse(element.textContent);
  profile.frames = profile.frames.map(([name, file, line, module, inlined, text]) => ({
    name, module, text, inlined: Boolean(inlined), place: line ? `${file}:${line}` : file,
  }));
  profile.stacks.forEach((stack, number) => {
    stack.number = number;
    stack.kernel = stack.kernel.map((frame) => profile.frames[frame]);
    stack.user = stack.user.map((frame) => profile.frames[frame]);
    const innermost = stack.kernel[0] ?? stack.user[0];
    stack.name = innermost ? innermost.name : "(stack not recorded)";
  });
  return profile;
}

// True if the names of the stack's source, frames, files and processes contain `words`, which are in
// lower case. The first call for a stack joins these names to stack.text.
export function stackMatches(stack, words) {
  stack.text ??= [stack.source, stack.name, ...stack.processes.map(([name]) => name), ...[...stack.kernel, ...stack.user].flatMap(
    (frame) => [frame.name, frame.place, frame.module])].join("\n").toLowerCase();
  return stack.text.includes(words);
}

export function sum(stacks, index) {
  return stacks.reduce((total, stack) => total + stack.amount[index], 0);
}

// "1,234"; with a sign in a difference.
export function number(value, signed = false) {
  const text = Math.abs(value).toLocaleString("en", { maximumFractionDigits: 0 });
  return value < 0 ? `\u2212${text}` : signed && value > 0 ? `+${text}` : text;
}

export function amountText([bytes, objects], signed) {
  const count = `${number(objects, signed)} ${Math.abs(objects) === 1 ? "object" : "objects"}`;
  return bytes ? `${number(bytes, signed)} bytes in ${count}` : count;
}

// The number of bytes with three digits and a unit: "1.5 MiB".
export function roughly(bytes, signed) {
  const power = Math.min(6, Math.floor(Math.log2(Math.max(1, Math.abs(bytes))) / 10));
  const scaled = Math.abs(bytes) / 1024 ** power;
  const text = scaled.toLocaleString("en", { maximumSignificantDigits: scaled >= 1000 ? 4 : 3 });
  return `${bytes < 0 ? "\u2212" : signed && bytes > 0 ? "+" : ""}${text} ${["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"][power]}`;
}

export function plural(count, noun, nouns = `${noun}s`) {
  return `${number(count)} ${count === 1 ? noun : nouns}`;
}

// Returns a new element with this text, attributes and children. The text is not parsed as HTML.
export function element(name, text = "", attributes = {}, ...children) {
  const made = document.createElement(name);
  if (text) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}
