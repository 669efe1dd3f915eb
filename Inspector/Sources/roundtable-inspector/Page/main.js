import { Chart } from "./chart.js";
import { followKeys } from "./keys.js";
import { Panels } from "./panels.js";
import { clock, visible } from "./parts.js";
import { Store } from "./store.js";

const store = new Store();
const chart = new Chart(document.getElementById("chart"), store);
const panels = new Panels(store);

// How often the page is drawn while it shows a running database, in ms. More would need a processor that the programs may need.
const pace = 250;

// What the page shows: the chart's end and span, and the cursor, which is null while the page shows what happens now.
const view = {
  span: 30,
  cursor: null,
  pausedEnd: null,

  get end() {
    return this.pausedEnd ?? store.newest;
  },
  get time() {
    return this.cursor ?? store.newest;
  },

  togglePause() {
    if (this.cursor === null) this.goTo(store.newest);
    else this.goToNow();
  },
  goToNow() {
    if (store.isEnded) return this.goTo(store.newest);
    this.cursor = null;
    this.pausedEnd = null;
    draw();
  },
  goToOldest() {
    this.goTo(store.oldest);
  },
  goToPoint(x) {
    if (store.newest > 0) this.goTo(chart.time(x, this));
  },
  // By seconds, or by looks at the turns.
  step(direction, isFine) {
    if (!isFine) return this.goTo(this.time + direction);
    const index = Store.firstAfter(store.turns, this.time + 0.0005) - 1 + direction;
    const line = store.turns[Math.min(store.turns.length - 1, Math.max(0, index))];
    // The first look may be later than the oldest moment, from which there is no step back.
    if (line && Math.sign(line.time - this.time) === direction) this.goTo(line.time);
  },
  goTo(time) {
    if (store.newest === 0) return;
    this.cursor = Math.min(store.newest, Math.max(store.oldest, time));
    const end = this.end;
    // The cursor stays inside the chart, which moves only as far as it must.
    if (this.cursor > end) this.pausedEnd = this.cursor;
    else if (this.cursor < end - this.span) this.pausedEnd = this.cursor + this.span;
    else this.pausedEnd = end;
    draw();
  },
  setSpan(span) {
    this.span = span;
    if (this.cursor === null) draw();
    else this.goTo(this.cursor);
  },
};

let isDue = false;

function draw(isRecoloured = false) {
  if (isRecoloured) chart.readColours();
  isDue = false;
  chart.draw(view);
  panels.draw(view);
  const isPaused = view.cursor !== null;
  const button = document.getElementById("pause");
  button.setAttribute("aria-pressed", String(isPaused));
  button.disabled = store.isEnded;
  const slider = document.getElementById("chart");
  const ago = view.time - store.newest;
  slider.setAttribute("aria-valuemin", String(Math.round(Math.min(0, store.oldest - store.newest) || 0)));
  slider.setAttribute("aria-valuenow", String(Math.round(ago || 0)));
  slider.setAttribute("aria-valuetext", isPaused ? `${clock(view.time, true)}, ${Math.abs(ago).toFixed(1)} seconds before the last look` : "now");
  document.getElementById("turns-aside").textContent = isPaused
    ? `at ${clock(view.time, true)}, ${Math.abs(ago).toFixed(2)} s before the last look`
    : "";
  showPath();
  showState();
}

function showPath() {
  const path = store.samples.at(-1)?.top.status.path ?? store.header?.path ?? "";
  const last = visible(path.split("/").at(-1) ?? "");
  const title = last === "" ? "Roundtable" : last;
  if (document.title !== title) document.title = title;
  document.getElementById("title").textContent = title;
  const place = document.getElementById("path");
  // The end of a long path is what is seen: its style turns it around, and these marks keep its characters in their order.
  place.textContent = `\u200e${visible(path.slice(0, Math.max(0, path.lastIndexOf("/"))))}\u200e`;
  place.title = visible(path);
}

let connection = "connecting";

function showState() {
  const pill = document.getElementById("state");
  let [text, style] = ["live", "live"];
  if (store.isEnded) [text, style] = ["recording", "paused"];
  else if (view.cursor !== null) [text, style] = ["paused", "paused"];
  else if (connection !== "open") [text, style] = [connection === "connecting" ? "connecting" : "no connection", "lost"];
  else if (store.problem) [text, style] = ["waiting", "lost"];
  else if (performance.now() - store.arrived > 3500) [text, style] = ["nothing arrives", "lost"];
  if (pill.textContent !== text) pill.textContent = text;
  pill.className = `pill ${style}`;
}

followKeys(view, draw);

const events = new EventSource("events");
events.onopen = () => {
  connection = "open";
  // After a connection, all that is kept is sent again.
  store.reset();
};
events.onerror = () => {
  connection = "no connection";
  showState();
};
events.onmessage = (event) => {
  const line = store.addText(event.data);
  if (line?.kind === "source") {
    store.isKeptWhole = line.is_recording;
    return;
  }
  isDue = true;
  if (line?.kind === "end") {
    events.close();
    view.goTo(store.newest);
  }
};

setInterval(() => {
  if (document.hidden) return;
  if (isDue && view.cursor === null && !(store.isKeptWhole && !store.isEnded)) draw();
  else showState();
}, pace);
new ResizeObserver(() => draw()).observe(document.querySelector("main"));
