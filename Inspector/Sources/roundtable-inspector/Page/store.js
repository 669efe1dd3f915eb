// What the page knows: the lines of `roundtable record`, in the order of their times.

// A page that shows a running database forgets what is older. A recording is kept whole.
const kept = 90;

export class Store {
  constructor() {
    // Whether the lines are those of a recording. The server says so before it sends them.
    this.isKeptWhole = false;
    this.reset();
  }

  reset() {
    this.header = null;
    this.turns = [];
    this.samples = [];
    this.problem = null;
    // How many lines could not be read.
    this.damaged = 0;
    this.isEnded = false;
    // When the last line arrived, by the clock of this page.
    this.arrived = performance.now();
    this.known = new Map();
  }

  // Accepts a line as text. One that is no line of a recording is counted: a recorder that was killed leaves half of one behind.
  addText(text) {
    try {
      const line = JSON.parse(text);
      this.add(line);
      return line;
    } catch {
      this.damaged += 1;
      return null;
    }
  }

  add(line) {
    this.arrived = performance.now();
    switch (line.kind) {
      case "recording":
        // A file can have several recordings behind each other. A running database has one, and another after the recorder was started again.
        if (!this.isKeptWhole) this.reset();
        this.header = line;
        break;
      case "turns":
        for (const one of line.participants) one.key = this.participant(one).key;
        this.turns.push(line);
        break;
      case "sample":
        this.addSample(line);
        break;
      case "problem":
        this.problem = line;
        break;
      case "end":
        this.isEnded = true;
        break;
    }
    if (!this.isKeptWhole) this.forget();
  }

  addSample(line) {
    const all = [...line.top.status.participants].sort((one, other) => (one.joined_at < other.joined_at ? -1 : one.joined_at > other.joined_at ? 1 : one.pid - other.pid));
    for (const one of all) one.key = this.participant(one).key;
    this.samples.push(line);
    this.problem = null;
  }

  // A participant with its index, which decides its colour, and stays.
  participant({ pid, author }) {
    const key = `${pid} ${author}`;
    let found = this.known.get(key);
    if (!found) {
      found = { key, pid, author, index: this.known.size };
      this.known.set(key, found);
    }
    return found;
  }

  forget() {
    const limit = this.newest - kept;
    for (const lines of [this.turns, this.samples]) {
      if (lines.length > 200 && lines[100].time < limit) lines.splice(0, 100);
    }
  }

  get newest() {
    return Math.max(this.turns.at(-1)?.time ?? 0, this.samples.at(-1)?.time ?? 0, this.problem?.time ?? 0);
  }

  get oldest() {
    return Math.min(this.turns[0]?.time ?? Infinity, this.samples[0]?.time ?? Infinity);
  }

  // The lines of a time, by bisection.
  static between(lines, from, to) {
    return lines.slice(Store.firstAfter(lines, from), Store.firstAfter(lines, to));
  }

  static firstAfter(lines, time) {
    let [low, high] = [0, lines.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (lines[middle].time <= time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // The sample that was current at a time; the first one before there was any.
  sample(time) {
    const index = Store.firstAfter(this.samples, time + 0.0005);
    return this.samples[Math.max(0, index - 1)] ?? null;
  }
}

// How a look divides its time: the part of it for which each participant held the turn, by key.
export function shares(line) {
  const parts = new Map();
  const holder = line.participants.find((one) => one.has_turn && one.writing_s !== undefined);
  let left = 1;
  if (holder) {
    // Its current turn, which is not counted as taken before it began.
    const held = Math.min(1, holder.writing_s / line.interval_s);
    parts.set(holder.key, held);
    left -= held;
  }
  const turns = line.participants.reduce((sum, one) => sum + (one.turns ?? 0), 0);
  for (const one of line.participants) {
    if (turns > 0 && one.turns) parts.set(one.key, (parts.get(one.key) ?? 0) + (left * one.turns) / turns);
  }
  return parts;
}

// The waits of a time: by key, how much of the looks found it waiting, and the longest wait that was seen.
export function waits(lines) {
  const found = new Map();
  for (const line of lines) {
    for (const one of line.participants) {
      const entry = found.get(one.key) ?? { looks: 0, waiting: 0, longest: 0, turns: 0 };
      entry.looks += 1;
      entry.turns += one.turns ?? 0;
      if (one.waiting_s !== undefined && one.liveness === undefined) {
        entry.waiting += 1;
        entry.longest = Math.max(entry.longest, one.waiting_s);
      }
      found.set(one.key, entry);
    }
  }
  return found;
}
