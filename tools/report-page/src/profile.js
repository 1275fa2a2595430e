// The profile that stele/report/page.py put into the page, and the format of its numbers.
//
// A stack has all objects of one source (cache, arena, kind of references) from one stack of the
// kernel and one of a program, innermost frames first. Amounts are pairs [bytes, objects]; those of
// a difference may be negative.

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

// Does the stack have the words, in lower case, anywhere in its names? The text to search is made
// at first use.
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

// "1.5 MiB", for a quick look.
export function roughly(bytes, signed) {
  const power = Math.min(6, Math.floor(Math.log2(Math.max(1, Math.abs(bytes))) / 10));
  const scaled = Math.abs(bytes) / 1024 ** power;
  const text = scaled.toLocaleString("en", { maximumSignificantDigits: scaled >= 1000 ? 4 : 3 });
  return `${bytes < 0 ? "\u2212" : signed && bytes > 0 ? "+" : ""}${text} ${["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"][power]}`;
}

export function plural(count, noun, nouns = `${noun}s`) {
  return `${number(count)} ${count === 1 ? noun : nouns}`;
}

// An element with text and attributes. Text is never markup.
export function element(name, text = "", attributes = {}, ...children) {
  const made = document.createElement(name);
  if (text) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}
