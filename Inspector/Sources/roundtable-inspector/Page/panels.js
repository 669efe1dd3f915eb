import { bar, bytes, chip, clock, count, element, name, plural, rate, seconds, sparkline, table } from "./parts.js";
import { Store, waits } from "./store.js";

// Beyond it a WAL is long: `CheckpointLimits.longest`.
const usualFrames = 4000;

// The tables of SQLite, GRDB and Roundtable.
const internal = /^(sqlite_|roundtable_|grdb_migrations$)/;

// The panels below the chart. Each is drawn anew from one sample, and from the looks at the turns before it.

export class Panels {
  constructor(store) {
    this.store = store;
    this.bodies = new Map([...document.querySelectorAll("main section")].map((section) => [section.id, section.querySelector(".body")]));
  }

  draw(view) {
    const sample = this.store.sample(view.time);
    this.figures(sample);
    this.messages(sample, view);
    this.put("participants", sample ? this.participants(sample) : empty("Nothing has been seen yet."));
    this.put("wal", sample ? this.wal(sample, view) : empty("–"));
    this.put("waits", this.waits(view));
    this.put("changes", sample ? this.changes(sample) : empty("–"));
    this.put("tables", sample ? tables(sample) : empty("–"));
    this.put("outbox", sample && outbox(sample));
    this.put("history", sample && history(sample));
    this.put("derived-tables", sample && derivedTables(sample));
  }

  put(id, ...content) {
    const body = this.bodies.get(id);
    body.replaceChildren(...content.flat().filter(Boolean));
    // A panel of something that the database does not have is left out.
    body.parentElement.hidden = body.childElementCount === 0;
  }

  figures(sample) {
    const status = sample?.top.status;
    const waiting = status?.participants.filter((one) => one.waiting_s !== undefined && !one.has_turn && one.liveness !== "dead").length;
    const isExact = sample?.top.is_exact !== false;
    const all = [
      ["commits/s", (isExact ? "" : "~") + rate(sample?.top.commits_per_s)],
      ["participants", count(status?.participants.length)],
      ["wait", count(waiting)],
      ["WAL frames", count(status?.wal?.committed_frames)],
      ["database", bytes(status?.files.database)],
    ];
    document.getElementById("figures").replaceChildren(
      ...all.map(([title, value]) => element("div", {}, element("dt", {}, title), element("dd", {}, value))),
    );
  }

  // What is wrong, and what is not known.
  messages(sample, view) {
    const found = [];
    const problem = this.store.problem;
    if (problem && (view.cursor === null || problem.time <= view.time)) found.push(["bad", problem.message]);
    const damaged = this.store.damaged;
    if (damaged > 0) {
      found.push(["warning", `${plural(damaged, "line")} of the recording cannot be read, as where a recorder was killed. What was in ${damaged === 1 ? "it" : "them"} is not shown.`]);
    }
    const status = sample?.top.status;
    if (status?.control_block.problem && status.control_block.state !== "absent") found.push(["bad", `Control block: ${status.control_block.problem}`]);
    else if (status?.control_block.state === "absent") found.push(["", "No program shares this database through Roundtable at this time: there is no control block of this version."]);
    for (const other of status?.other_control_blocks ?? []) {
      const pids = other.pids.length > 0 ? `, used by pid ${other.pids.join(", ")}` : ", which no process uses";
      found.push(["warning", `${other.path}: a control block of layout ${other.layout_version}${pids}. Its programs take turns among themselves; they are not shown here.`]);
    }
    for (const warning of sample?.top.warnings ?? []) {
      found.push([warning.severity === "error" ? "bad" : "warning", `${warning.message} ${warning.advice}`]);
    }
    for (const unknown of status?.unknowns ?? []) found.push(["", `Not known: ${unknown}`]);
    const text = JSON.stringify(found);
    // A screen reader reads what changes, so what stays is left alone.
    if (text === this.shownMessages) return;
    this.shownMessages = text;
    document.getElementById("messages").replaceChildren(...found.map(([style, message]) => element("p", { class: style, title: message }, message)));
  }

  known(one) {
    return this.store.participant(one);
  }

  participants(sample) {
    const rates = new Map(sample.top.rates.map((one) => [`${one.pid} ${one.author}`, one]));
    const all = [...sample.top.status.participants].sort((one, other) => this.known(one).index - this.known(other).index);
    if (all.length === 0) return empty("No participants.");
    const columns = [
      ["Name", "name", (one) => [chip(this.known(one)), name(one.author)]],
      ["PID", "number dim", (one) => (one.in_other_pid_namespace ? element("span", { title: "in another pid namespace" }, `${one.pid} ↗`) : one.pid)],
      ["Role", "role", (one) => ({ read_write: "writer", read_only: "reader" })[one.role] ?? one.role],
      ["State", "", state],
      ["Commits/s", "number", (one) => (one.role === "read_only" ? "" : rate(rates.get(one.key)?.commits_per_s))],
      ["Waits", "number", (one) => (one.has_turn ? "turn" : seconds(one.waiting_s))],
      ["Longest", "number", (one) => (one.turns_taken ? seconds(one.longest_wait_s) : "–")],
      ["Reads for", "number", (one) => element("span", { class: one.oldest_read?.is_past_limit ? "warning" : "" }, seconds(one.oldest_read?.age_s))],
      ["Line of code", "code", (one) => name(one.oldest_read?.call_site ?? one.call_site ?? "–")],
    ];
    return table(columns, all, "Participants");
  }

  wal(sample, view) {
    const status = sample.top.status;
    const wal = status.wal;
    if (!wal) return empty(status.journal_mode === "wal" ? "Not known." : "This database is not in WAL mode.");
    const total = wal.committed_frames;
    const isLong = total > usualFrames && wal.backfilled_frames < total;
    // A WAL of the usual length does not fill the bar.
    const share = (frames) => frames / Math.max(usualFrames, total);
    const percent = (value) => `${(Math.min(1, Math.max(0, value)) * 100).toFixed(1)}%`;
    const pins = wal.pins.slice(0, 8);
    const marks = pins.map((pin, index) =>
      element("i", {
        class: "pin",
        "data-letter": letter(index),
        style: { left: percent(share(total - pin.held_frames)), "--colour": this.colour(pin.holder) },
      }),
    );
    const summary = `${plural(total, "frame")}, ${total > 0 ? Math.floor((wal.backfilled_frames / total) * 100) : 0} % in the database`;
    const frames = Store.between(this.store.samples, view.time - 60, view.time + 0.001).map((one) => one.top.status.wal?.committed_frames ?? 0);
    return [
      element(
        "div",
        { class: "walbar", role: "img", "aria-label": `${summary}; ${plural(wal.pins.length, "read")} hold frames back` },
        element("div", { class: "done", style: { width: percent(share(wal.backfilled_frames)) } }),
        element("div", {
          class: isLong ? "left warning" : "left",
          style: { left: percent(share(wal.backfilled_frames)), width: percent(share(total - wal.backfilled_frames)) },
        }),
        marks.reverse(),
      ),
      element("div", { class: "scale" }, element("span", { class: isLong ? "warning" : "" }, summary), element("span", {}, `file ${bytes(wal.size)}`)),
      wal.failure ? element("p", { class: "bad" }, `The last checkpoint failed: ${wal.failure.reason}`) : null,
      element(
        "ul",
        { class: "pins", "aria-label": "Reads that hold frames back" },
        pins.map((pin, index) => this.pin(pin, letter(index))),
        wal.pins.length > pins.length ? element("li", { class: "dim" }, `… ${wal.pins.length - pins.length} more`) : null,
      ),
      frames.length > 1 ? sparkline(frames, `Frames of the WAL over the last ${Math.min(60, frames.length)} samples`) : null,
      element("p", { class: "note" }, `frames, up to ${count(Math.max(0, ...frames))}${wal.checkpointer ? ` · checkpoints: ${wal.checkpointer.name ?? "pid " + wal.checkpointer.pid}` : ""}`),
    ];
  }

  colour(holder) {
    const found = holder.name !== undefined && holder.is_participant !== false ? this.store.known.get(`${holder.pid} ${holder.name}`) : null;
    return found ? `var(--c${found.index % 8})` : "var(--bad)";
  }

  pin(pin, mark) {
    const holder = pin.holder;
    const found = this.store.known.get(`${holder.pid} ${holder.name}`);
    const isBad = holder.liveness === "stopped" || (pin.age_s ?? 0) >= 10;
    const what = [` (pid ${holder.pid}${holder.liveness === "stopped" ? ", stopped" : ""}) holds ${plural(pin.held_frames, "frame")}`];
    if (pin.age_s !== undefined) what.push(` for ${seconds(pin.age_s)}`);
    return element(
      "li",
      { class: isBad ? "warning" : "" },
      element("b", {}, `${mark} `),
      found ? chip(found) : null,
      name(holder.name ?? "another process"),
      what.join(""),
      pin.call_site ? [", ", name(pin.call_site)] : null,
    );
  }

  waits(view) {
    const lines = Store.between(this.store.turns, view.end - view.span, view.end + 0.001);
    const found = [...waits(lines)].map(([key, entry]) => ({ ...entry, participant: this.store.known.get(key) })).filter((one) => one.turns > 0 || one.waiting > 0);
    document.querySelector("#waits .aside").textContent = `in the ${view.span} s shown`;
    if (found.length === 0) return empty("No participant waited.");
    found.sort((one, other) => one.participant.index - other.participant.index);
    const looks = Math.max(1, lines.length);
    const columns = [
      ["", "name", (one) => [chip(one.participant), name(one.participant.author)]],
      ["Time waiting", "bar-cell", (one) => bar(one.waiting / looks, `var(--c${one.participant.index % 8})`)],
      ["", "number", (one) => `${Math.round((one.waiting / looks) * 100)} %`],
      ["Longest seen", "number", (one) => (one.waiting > 0 ? seconds(one.longest) : "–")],
    ];
    return table(columns, found, "Waits");
  }

  // Changes in a row of one participant to the same tables are one line with their number.
  changes(sample) {
    const groups = [];
    for (const change of sample.top.changes) {
      const tables = change.tables ? change.tables.join(", ") : "any table";
      const key = `${change.pid} ${change.author} ${tables}`;
      if (groups.at(-1)?.key === key) groups.at(-1).number += 1;
      else groups.push({ key, change, tables, number: 1 });
    }
    if (groups.length === 0) return empty("No change is in the ring.");
    return element(
      "ol",
      { class: "list", "aria-label": "Changes, the newest first" },
      groups.slice(0, 30).map(({ change, tables, number }) => {
        const found = this.store.known.get(`${change.pid} ${change.author}`);
        return element(
          "li",
          {},
          element("span", { class: "dim" }, clock(Date.parse(change.time) / 1000, true)),
          element("span", { class: "grow" }, found ? chip(found) : null, name(change.author ?? `pid ${change.pid}`)),
          element("span", { class: "grow" }, name(tables), number > 1 ? element("span", { class: "dim" }, ` ×${number}`) : null),
        );
      }),
    );
  }
}

function letter(index) {
  return String.fromCharCode(97 + Math.min(25, index));
}

function empty(text) {
  return element("p", { class: "empty" }, text);
}

function note(text) {
  return text ? element("p", { class: "note" }, text) : null;
}

function state(one) {
  if (one.liveness !== "alive") {
    const isBad = one.liveness === "stopped" || one.liveness === "dead";
    return element("span", { class: isBad ? "bad" : "warning" }, one.liveness);
  }
  if (one.state === "suspended") return element("span", { class: "warning" }, "suspended");
  if (one.state !== "present") return one.state.replaceAll("_", " ");
  if (one.writing_s !== undefined) return element("span", { class: "good" }, "writes");
  if (one.waiting_s !== undefined) return "waits";
  return one.oldest_read ? "reads" : "idle";
}

function tables(sample) {
  const sizes = sample.sizes;
  if (!sizes) return empty(sample.top.status.is_encrypted ? "The database is encrypted." : "Not known.");
  if (sizes.tables.length === 0) return [empty("No tables."), note(sizes.note)].filter(Boolean);
  const hasBytes = sizes.tables[0].bytes !== undefined;
  const size = (one) => (hasBytes ? one.bytes : one.largest_rowid) ?? 0;
  const others = sizes.tables.filter((one) => internal.test(one.name));
  const rows = sizes.tables.filter((one) => !internal.test(one.name));
  // A sum of rowids says nothing.
  if (others.length > 0) rows.push({ others, bytes: others.reduce((sum, one) => sum + (one.bytes ?? 0), 0) });
  const largest = Math.max(1, ...rows.map(size));
  const listed = () => others.map((one) => `${one.name} ${hasBytes ? bytes(one.bytes) : count(one.largest_rowid)}`).join(", ");
  const title = (one) => (one.others ? element("span", { class: "dim", title: listed() }, plural(others.length, "internal table")) : name(one.name));
  const columns = [
    ["", "name", title],
    ["", "bar-cell", (one) => (one.others && !hasBytes ? null : bar(size(one) / largest))],
    [hasBytes ? "With indexes" : "Largest rowid", "number", (one) => (hasBytes ? bytes(one.bytes) : count(one.largest_rowid))],
  ];
  const more = sizes.more_tables > 0 ? `${plural(sizes.more_tables, "more table")}.` : null;
  return [table(columns, rows, "Tables by size"), note(more), note(sizes.note)].filter(Boolean);
}

function outbox(sample) {
  const found = sample.top.status.outbox;
  if (!found) return null;
  // Commands that an owner applies, and that have waited for a short time, need no attention.
  const isLate = found.owners?.length === 0 || sample.time - Date.parse(found.oldest) / 1000 >= 60;
  const rows = [
    ["wait", `${count(found.waiting)} (${bytes(found.bytes)})`, found.waiting > 0 && isLate ? "warning" : ""],
    ["oldest since", found.oldest ? clock(Date.parse(found.oldest) / 1000) : "–", ""],
    ["set aside", count(found.dead_letters), found.dead_letters > 0 ? "bad" : ""],
    ["damaged", count(found.damaged), found.damaged > 0 ? "bad" : ""],
    ["applied by", (found.owners ?? []).map((one) => `${one.name ?? "?"} (pid ${one.pid})`).join(", ") || "no participant", ""],
  ];
  return element(
    "table",
    { "aria-label": "Outbox" },
    rows.map(([title, value, style]) => element("tr", {}, element("th", { scope: "row" }, title), element("td", { class: style }, value))),
  );
}

function history(sample) {
  const consumers = sample.sizes?.consumers;
  if (!consumers) return null;
  if (consumers.length === 0) return empty("No consumers.");
  const columns = [
    ["", "name", (one) => name(one.name)],
    ["Backlog", "number", (one) => count(one.backlog)],
    ["State", "", (one) => element("span", { class: one.state === "dropped" ? "bad" : "" }, one.state)],
    ["Last seen", "number dim", (one) => clock(Date.parse(one.last_seen) / 1000)],
  ];
  return table(columns, consumers, "History consumers");
}

function derivedTables(sample) {
  const all = sample.top.status.derived_tables?.tables;
  if (!all || all.length === 0) return null;
  const columns = [
    ["", "name", (one) => name(one.name)],
    ["Of", "name", (one) => name(one.base_table)],
    ["State", "", (one) => element("span", { class: one.state === "ready" ? "good" : "warning" }, one.state.replaceAll("_", " "))],
    ["Rows", "number", (one) => (one.state === "building" ? `${count(one.done)} of ${count(one.total)}` : "")],
  ];
  return table(columns, all, "Derived tables");
}
