import { clock, visible } from "./parts.js";
import { shares, Store } from "./store.js";

// The strip chart: above, who held the turn; below, a lane for each participant, with its turns, its waits, its reads, and when it was stopped.

const turnHeight = 30;
const laneHeight = 17;
const axisHeight = 16;
const mostLanes = 14;
const gutter = 128;
const font = '11px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';

export class Chart {
  constructor(canvas, store) {
    this.canvas = canvas;
    this.store = store;
    this.readColours();
  }

  readColours() {
    const style = getComputedStyle(document.documentElement);
    const value = (name) => style.getPropertyValue(name).trim();
    this.colours = Array.from({ length: 8 }, (_, index) => value(`--c${index}`));
    for (const name of ["text", "dim", "line", "faint", "wait", "stopped", "focus", "panel", "on-colour"]) this[name] = value(`--${name}`);
    // Strokes of the waiting and the stopped, which are told apart without colours too.
    this.stoppedPattern = hatch(this.stopped, 6);
  }

  // The time at a point of the canvas.
  time(x, view) {
    const width = this.canvas.clientWidth - gutter - 8;
    return view.end - view.span + (Math.min(width, Math.max(0, x - gutter)) / width) * view.span;
  }

  draw(view) {
    const start = view.end - view.span;
    const turns = Store.between(this.store.turns, start, view.end + 0.001);
    const samples = Store.between(this.store.samples, start - 2, view.end + 0.001);
    const lanes = this.lanes(turns, samples);
    const shown = lanes.slice(0, mostLanes);
    const more = lanes.length - shown.length;
    const height = turnHeight + 6 + Math.max(1, shown.length + (more > 0 ? 1 : 0)) * laneHeight + axisHeight;
    const width = this.canvas.clientWidth;
    const ratio = window.devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      this.canvas.style.height = `${height}px`;
    }
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = font;
    context.textBaseline = "middle";
    const plot = width - gutter - 8;
    const x = (time) => gutter + ((time - start) / view.span) * plot;
    const bottom = height - axisHeight;
    this.grid(context, view, x, bottom);
    context.save();
    context.beginPath();
    context.rect(gutter, 0, plot, bottom);
    context.clip();
    this.drawReads(context, samples, shown, x, view);
    this.drawTurns(context, turns, shown, x);
    context.restore();
    this.labels(context, shown, more);
    if (view.cursor !== null) this.cursor(context, x(view.cursor), bottom, view.cursor, width);
    return { lanes: lanes.length };
  }

  // All that were there in this time, in the order in which they were first seen.
  lanes(turns, samples) {
    const keys = new Set();
    for (const line of turns) for (const one of line.participants) keys.add(one.key);
    for (const line of samples) for (const one of line.top.status.participants) keys.add(one.key);
    return [...this.store.known.values()].filter((one) => keys.has(one.key));
  }

  colour(participant) {
    return this.colours[participant.index % 8];
  }

  grid(context, view, x, bottom) {
    let step = view.span <= 10 ? 1 : view.span <= 30 ? 5 : 10;
    // A label is some 50 px wide.
    while (x(step) - x(0) < 60 && step < view.span) step *= 2;
    context.textAlign = "center";
    for (let time = Math.ceil((view.end - view.span) / step) * step; time <= view.end; time += step) {
      const at = Math.round(x(time)) + 0.5;
      context.strokeStyle = this.faint;
      context.beginPath();
      context.moveTo(at, 0);
      context.lineTo(at, bottom);
      context.stroke();
      context.fillStyle = this.dim;
      if (at > gutter + 26 && at < this.canvas.clientWidth - 30) context.fillText(clock(time), at, bottom + 9);
    }
  }

  laneTop(index) {
    return turnHeight + 6 + index * laneHeight;
  }

  drawTurns(context, turns, lanes, x) {
    const index = new Map(lanes.map((one, number) => [one.key, number]));
    for (const line of turns) {
      const left = x(line.time - line.interval_s);
      const width = Math.max(0.75, x(line.time) - left + 0.25);
      let top = 0;
      for (const [key, share] of shares(line)) {
        const participant = this.store.known.get(key);
        context.fillStyle = this.colour(participant);
        context.fillRect(left, top * turnHeight, width, share * turnHeight);
        top += share;
        const lane = index.get(key);
        if (lane !== undefined) {
          // The root, so that a small share is seen beside a large one.
          const height = Math.max(1.5, Math.sqrt(share) * (laneHeight - 6));
          context.fillRect(left, this.laneTop(lane) + laneHeight - 3 - height, width, height);
        }
      }
      for (const one of line.participants) {
        const lane = index.get(one.key);
        if (lane === undefined) continue;
        const laneTop = this.laneTop(lane);
        if (one.liveness !== undefined) {
          context.fillStyle = this.stoppedPattern;
          context.fillRect(left, laneTop + 2, width, laneHeight - 5);
        } else if (one.waiting_s !== undefined) {
          // The longer the wait, the stronger its line: from 1 ms to 1 s.
          context.globalAlpha = Math.min(1, 0.35 + Math.max(0, Math.log10(one.waiting_s * 1000)) * 0.22);
          context.fillStyle = this.wait;
          context.fillRect(left, laneTop + 2, width, 2);
          context.globalAlpha = 1;
        }
      }
    }
  }

  // A read that was under way at a look lasts from its beginning to that look.
  drawReads(context, samples, lanes, x, view) {
    for (const [number, lane] of lanes.entries()) {
      for (const sample of samples) {
        const one = sample.top.status.participants.find((participant) => participant.key === lane.key);
        if (!one) continue;
        const top = this.laneTop(number);
        if (one.oldest_read) {
          const left = x(Math.max(view.end - view.span, sample.time - one.oldest_read.age_s));
          context.fillStyle = this.colour(lane);
          context.fillRect(left, top + laneHeight - 2, Math.max(1, x(sample.time) - left), 1);
        }
      }
    }
  }

  labels(context, lanes, more) {
    context.textAlign = "left";
    context.fillStyle = this.dim;
    context.fillText("holds the turn", 0, turnHeight / 2);
    for (const [number, lane] of lanes.entries()) {
      const middle = this.laneTop(number) + laneHeight / 2;
      context.fillStyle = this.colour(lane);
      context.beginPath();
      context.roundRect(0, middle - 6.5, 15, 13, 4);
      context.fill();
      context.fillStyle = this["on-colour"];
      context.font = `700 ${font.replace("11px", "9.5px")}`;
      context.textAlign = "center";
      context.fillText(String(lane.index + 1), 7.5, middle + 0.5);
      context.font = font;
      context.textAlign = "left";
      context.fillStyle = this.text;
      context.fillText(shortened(context, visible(lane.author), gutter - 28), 20, middle);
    }
    if (more > 0) {
      context.fillStyle = this.dim;
      context.fillText(`… ${more} more`, 20, this.laneTop(lanes.length) + laneHeight / 2);
    }
  }

  cursor(context, at, bottom, time, width) {
    context.strokeStyle = this.focus;
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(at, 0);
    context.lineTo(at, bottom);
    context.stroke();
    context.lineWidth = 1;
    const text = clock(time, true);
    const half = context.measureText(text).width / 2 + 5;
    const middle = Math.min(width - half, Math.max(half, at));
    context.fillStyle = this.focus;
    context.beginPath();
    context.roundRect(middle - half, bottom + 1, half * 2, axisHeight - 1, 4);
    context.fill();
    context.fillStyle = this.panel;
    context.textAlign = "center";
    context.fillText(text, middle, bottom + 9);
  }
}

function shortened(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let length = Math.min(text.length, 60);
  while (length > 1 && context.measureText(`${text.slice(0, length)}…`).width > width) length -= 1;
  return `${text.slice(0, length)}…`;
}

// A pattern of slanting strokes.
function hatch(colour, size) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = size;
  const context = tile.getContext("2d");
  context.strokeStyle = colour;
  context.lineWidth = 1.2;
  for (const offset of [-size, 0, size]) {
    context.beginPath();
    context.moveTo(offset, size);
    context.lineTo(offset + size, 0);
    context.stroke();
  }
  return context.createPattern(tile, "repeat");
}
