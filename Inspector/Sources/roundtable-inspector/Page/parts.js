// Small parts of the page. Every text from the database is inserted as text, never as HTML: the page's policy (Trusted Types) refuses anything else.

// Characters that would change how the text around them looks: control characters, and those that turn the direction of writing.
const hidden = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

export function visible(text) {
  return String(text).replace(hidden, (character) => "\\u" + character.charCodeAt(0).toString(16).padStart(4, "0"));
}

// An element with attributes and children. `style` is an object of CSS properties; a child is an element, a text, or nothing.
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "style") {
      for (const [property, setting] of Object.entries(value)) made.style.setProperty(property, setting);
    } else {
      made.setAttribute(name, name === "title" ? visible(value) : value);
    }
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== false) {
      made.append(child instanceof Node ? child : document.createTextNode(visible(child)));
    }
  }
  return made;
}

// A name of the user's.
export function name(text) {
  return element("span", { class: "text", title: text }, text);
}

// The mark of a participant: its colour everywhere, and its number, because more participants than colours are possible.
export function chip(participant) {
  return element("span", { class: "chip", style: { "--colour": `var(--c${participant.index % 8})` }, "aria-hidden": "true" }, participant.index + 1);
}

// A table: columns are [title, class, cell of a row].
export function table(columns, rows, label) {
  return element(
    "table",
    { "aria-label": label },
    element("thead", {}, element("tr", {}, columns.map(([title, style]) => element("th", { scope: "col", class: style }, title)))),
    element(
      "tbody",
      {},
      rows.map((row) => element("tr", {}, columns.map(([, style, cell]) => element("td", { class: style }, cell(row))))),
    ),
  );
}

export function bar(share, colour) {
  const width = `${Math.min(100, Math.max(0, share * 100)).toFixed(1)}%`;
  return element("div", { class: "bar" }, element("i", { style: { width, ...(colour ? { "--colour": colour } : {}) } }));
}

export function sparkline(values, label) {
  const space = "http://www.w3.org/2000/svg";
  const picture = document.createElementNS(space, "svg");
  picture.setAttribute("class", "spark");
  picture.setAttribute("viewBox", "0 0 100 30");
  picture.setAttribute("preserveAspectRatio", "none");
  picture.setAttribute("role", "img");
  picture.setAttribute("aria-label", label);
  const highest = Math.max(1, ...values);
  const points = values.map((value, index) => `${((index / Math.max(1, values.length - 1)) * 100).toFixed(2)},${(28 - (value / highest) * 26).toFixed(2)}`);
  const line = document.createElementNS(space, "polyline");
  line.setAttribute("points", points.join(" "));
  picture.append(line);
  return picture;
}

const grouping = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export function count(value) {
  return typeof value === "number" ? grouping.format(value) : "–";
}

export function plural(value, word) {
  return `${count(value)} ${word}${value === 1 ? "" : "s"}`;
}

export function rate(value) {
  if (typeof value !== "number") return "–";
  return value > 0 && value < 9.95 ? value.toFixed(1) : count(value);
}

export function bytes(value) {
  if (typeof value !== "number") return "–";
  if (value < 1024) return `${value} B`;
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let [amount, unit] = [value / 1024, 0];
  while (amount >= 1024 && unit < units.length - 1) [amount, unit] = [amount / 1024, unit + 1];
  return `${amount < 10 ? amount.toFixed(1) : count(amount)} ${units[unit]}`;
}

export function seconds(value) {
  if (typeof value !== "number") return "–";
  if (value < 0.0995) return `${(value * 1000).toFixed(1)} ms`;
  if (value < 0.9995) return `${(value * 1000).toFixed(0)} ms`;
  if (value < 120) return `${value.toFixed(1)} s`;
  if (value < 7200) return `${(value / 60).toFixed(0)} min`;
  return value < 172800 ? `${(value / 3600).toFixed(0)} h` : `${(value / 86400).toFixed(0)} d`;
}

export function clock(time, isPrecise) {
  const date = new Date(time * 1000);
  const two = (number) => String(number).padStart(2, "0");
  const text = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return isPrecise ? `${text}.${String(date.getMilliseconds()).padStart(3, "0")}` : text;
}
