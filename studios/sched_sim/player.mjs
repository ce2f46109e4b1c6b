// Draws the scene that stands in the page as JSON, in time; every number in it comes from there, none is computed here.
const SHAPES = [[0.08, 0.84], [0.3, 0.4], [0.08, 0.84], [0.08, 0.84], [0.46, 0.08], [0.42, 0.16], [0.42, 0.16], [0.42, 0.16]];
const COLOURS = ["--c1", "--c2", "--c4", "--c4", "--c7", "--c7", "--bad", "--c5"];
const SPEEDS = [0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 60, 600];
const still = matchMedia("(prefers-reduced-motion: reduce)");
const players = new Map(); // element -> player
const chosen = { by: "lanes", speed: null };

export function play(element) {
  for (const known of players.keys()) if (!known.isConnected) players.get(known).end();
  const text = element.querySelector("[data-scene]").textContent, before = players.get(element);
  if (before?.text === text && before.whole()) return before.refresh();
  before?.end();
  players.set(element, new Player(element, text));
}
document.addEventListener("theme", () => players.forEach((one) => one.colour()));
addEventListener("resize", () => players.forEach((one) => one.draw()));

const make = (name, more = {}, ...children) => {
  const made = Object.assign(document.createElement(name), more);
  made.append(...children);
  return made;
};

// ---- the scene: distances become times ------------------------------------------------------------------------------

function unpack({ lanes, strips, ...rest }) {
  return { ...rest,
    lanes: lanes.map((lane) => ({ ...lane, marks: rows(lane.marks, 4, ([kind, start, length, count]) => [kind, start, length, count]) })),
    strips: strips.map((strip) => ({ ...strip, bins: rows(strip.bins, 8, (row) => row) })) };
}
// Rows of `width` numbers; the second of a mark and the first of a bin are distances from the end of the row before.
function rows(flat, width, as) {
  const out = [], place = width === 4 ? 1 : 0;
  for (let at = 0, time = 0; at < flat.length; at += width) {
    const row = as(flat.slice(at, at + width));
    row[place] += time;
    time = row[place] + row[place + 1];
    out.push(row);
  }
  return out;
}
const seconds = (time) => (!time ? "0 s" : time >= 1e6 ? `${+(time / 1e6).toPrecision(4)} s` : time >= 1e3 ? `${+(time / 1e3).toPrecision(3)} ms` : `${time} µs`);
const nice = (span, most) => { for (let ten = 1; ; ten *= 10) for (const digit of [1, 2, 5]) if (span / (digit * ten) <= most) return digit * ten; };
// Index of the last bin that begins at or before a time.
function bin(strip, time) {
  let low = 0, high = strip.bins.length;
  while (low < high) { const middle = (low + high) >> 1; if (strip.bins[middle][0] <= time) low = middle + 1; else high = middle; }
  return low - 1;
}

class Player {
  constructor(element, text) {
    Object.assign(this, { element, text, scene: JSON.parse(text), playing: 0 });
    this.scene.runs = this.scene.runs.map(unpack);
    [this.from, this.to, this.now] = [0, this.scene.span, this.scene.span];
    this.off = new AbortController();
    this.borders = [...new Set(this.scene.runs.flatMap((run) => run.strips.flatMap((strip) => strip.bins.flatMap(([start, length]) => [start, start + length]))))].sort((a, b) => a - b);
    this.controls(element.querySelector(".controls"));
    this.axis = this.canvas(element.querySelector(".axis [data-stage]"), -1);
    this.fields = [...element.querySelectorAll(".gantt")].map((figure, index) => {
      const canvas = this.canvas(figure.querySelector(".lanes [data-stage]"), index);
      return { canvas, run: this.scene.runs[index], line: figure.querySelector(".now"), lanes: Number(canvas.closest(".lanes").dataset.lanes) };
    });
    this.listen("keydown", this.key, element);
    this.colour();
    this.refresh();
  }

  end() { cancelAnimationFrame(this.playing); this.off.abort(); players.delete(this.element); }
  whole() { return this.fields.every(({ canvas }) => canvas.isConnected && this.element.contains(canvas)); }
  refresh() { this.lanes(chosen.by); }
  listen(kind, act, where) { where.addEventListener(kind, act.bind(this), { signal: this.off.signal, passive: false }); }

  // ---- controls -----------------------------------------------------------------------------------------------------

  controls(place) {
    const button = (text, label, act) => { const made = make("button", { type: "button", className: "button", textContent: text, title: label, ...(text.length < 2 ? { ariaLabel: label } : {}) }); this.listen("click", act, made); return made; };
    this.button = button("▶ Play", "Play (space)", this.toggle);
    if (still.matches) Object.assign(this.button, { disabled: true, title: "Your system asks for no motion; step or scrub instead" });
    this.scrub = make("input", { type: "range", min: 0, max: 1000, value: 1000, ariaLabel: "Time" });
    this.listen("input", () => this.seek(this.scene.span * this.scrub.value / 1000), this.scrub);
    this.clock = make("output", { className: "clock" });
    const fitting = SPEEDS.reduce((best, one) => (Math.abs(Math.log(this.scene.span / 1e6 / one / 12)) < Math.abs(Math.log(this.scene.span / 1e6 / best / 12)) ? one : best));
    this.speed = make("select", { ariaLabel: "Speed" }, ...SPEEDS.map((one) => make("option", { value: one, textContent: `× ${one}` })));
    this.speed.value = fitting;
    this.by = make("select", { ariaLabel: "Lanes" }, make("option", { value: "lanes", textContent: "lanes: requests" }), make("option", { value: "steps", textContent: "lanes: steps" }));
    this.by.value = chosen.by;
    this.listen("change", () => this.lanes(this.by.value), this.by);
    place.replaceChildren(this.button, button("‹ Step", "One step back (left arrow)", () => this.step(-1)), button("Step ›", "One step on (right arrow)", () => this.step(1)),
      this.scrub, this.clock, this.speed, this.by, button("−", "Zoom out (minus)", () => this.zoom(1.6)), button("+", "Zoom in (plus)", () => this.zoom(1 / 1.6)), button("All", "The whole run (0)", () => this.window(0, this.scene.span)));
  }

  lanes(by) { chosen.by = this.element.dataset.by = by; this.by.value = by; this.draw(); }

  toggle() {
    if (this.playing) return this.pause();
    if (still.matches) return;
    if (this.now >= this.scene.span) this.now = 0;
    this.button.textContent = "❚❚ Pause";
    let last = performance.now();
    const frame = (time) => {
      this.seek(this.now + (time - last) * 1000 * Number(this.speed.value));
      last = time;
      if (this.now >= this.scene.span) this.pause(); else this.playing = requestAnimationFrame(frame);
    };
    this.playing = requestAnimationFrame(frame);
  }
  pause() { cancelAnimationFrame(this.playing); this.playing = 0; this.button.textContent = "▶ Play"; }

  step(direction) {
    this.pause();
    const next = direction > 0 ? this.borders.find((one) => one > this.now) : this.borders.findLast((one) => one < this.now);
    this.seek(next ?? (direction > 0 ? this.scene.span : 0));
  }

  seek(time) {
    this.now = Math.min(Math.max(time, 0), this.scene.span);
    this.scrub.value = 1000 * this.now / this.scene.span;
    const width = this.to - this.from;
    if (this.now < this.from || this.now > this.to) this.window(this.now - width / 2, this.now + width / 2);
    else this.draw();
  }

  window(from, to) {
    const width = Math.min(Math.max(to - from, 200), this.scene.span);
    this.from = Math.min(Math.max(from, 0), this.scene.span - width);
    this.to = this.from + width;
    this.draw();
  }
  zoom(factor, at = this.now >= this.from && this.now < this.to ? this.now : (this.from + this.to) / 2) {
    this.window(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }

  key(event) {
    if (event.target.matches("select, input") && event.key !== " ") return;
    const act = { " ": () => this.toggle(), ArrowRight: () => this.step(1), ArrowLeft: () => this.step(-1), Home: () => this.seek(0), End: () => this.seek(this.scene.span),
      "+": () => this.zoom(1 / 1.6), "=": () => this.zoom(1 / 1.6), "-": () => this.zoom(1.6), 0: () => this.window(0, this.scene.span) }[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey || (event.key === " " && event.target.matches("button, select"))) return;
    event.preventDefault();
    act();
  }

  // ---- pointer ------------------------------------------------------------------------------------------------------

  canvas(place, index) {
    const made = make("canvas", index < 0 ? { ariaHidden: "true" } : { tabIndex: index ? -1 : 0, role: "img", ariaLabel: `Player of ${this.scene.runs[index].label}: space plays, arrows step, plus and minus zoom` });
    place.replaceChildren(made);
    if (index < 0) return made;
    const time = (event) => this.from + (this.to - this.from) * event.offsetX / made.clientWidth;
    this.listen("wheel", (event) => {
      if (event.deltaX && this.to - this.from < this.scene.span && Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        const shift = (this.to - this.from) * event.deltaX / made.clientWidth;
        this.window(this.from + shift, this.to + shift);
      } else if (event.ctrlKey || event.metaKey || document.activeElement === made) this.zoom(event.deltaY > 0 ? 1.25 : 0.8, time(event));
      else return; // the page scrolls: a picture that was not chosen must not catch the wheel
      event.preventDefault();
    }, made);
    let grip = null;
    this.listen("pointerdown", (event) => { grip = { x: event.offsetX, from: this.from, moved: false }; made.setPointerCapture(event.pointerId); }, made);
    this.listen("pointermove", (event) => {
      if (grip && Math.abs(event.offsetX - grip.x) > 3) grip.moved = true;
      if (grip?.moved) { const from = grip.from - (event.offsetX - grip.x) * (this.to - this.from) / made.clientWidth; this.window(from, from + this.to - this.from); }
      else this.hover(index, time(event), event.offsetY);
    }, made);
    this.listen("pointerup", (event) => { if (grip && !grip.moved) this.seek(time(event)); grip = null; }, made);
    this.listen("pointerleave", () => this.say(this.fields[index]), made);
    return made;
  }

  hover(index, time, y) {
    const { run, line, lanes } = this.fields[index];
    if (chosen.by === "steps" || y > lanes) return this.say(this.fields[index], time);
    const lane = run.lanes[Math.floor(y / (lanes / run.lanes.length))], mark = lane?.marks.find(([, start, length]) => start <= time && time < start + length);
    if (!lane) return;
    const what = !mark ? (time < lane.arrival ? "not yet here" : lane.fate || "finished") : mark[0] < 4
      ? `${this.scene.kinds[mark[0]]} of ${mark[3].toLocaleString("en")} tokens` : `${this.scene.kinds[mark[0]]}: ${this.scene.texts[mark[3]]}`;
    line.textContent = `Request ${lane.id} (${lane.tokens} tokens): ${what}${mark ? `, ${seconds(mark[1])} to ${seconds(mark[1] + mark[2])}` : ""}`;
  }

  // What every server does at a moment.
  say({ run, line }, time = this.now) {
    line.textContent = run.strips.map((strip) => {
      const row = strip.bins[bin(strip, time)], name = run.strips.length > 1 ? `${strip.name}: ` : "";
      if (!row || time > row[0] + row[1]) return `${name}idle at ${seconds(time)}`;
      const [start, length, prefill, decodes, used, , running, waiting] = row;
      return `${name}${strip.group > 1 ? `up to, in ${strip.group} steps` : "step"} from ${seconds(start)}, ${seconds(length)}: ${prefill.toLocaleString("en")} prefill tokens, ${decodes} decode${decodes === 1 ? "" : "s"}, ${running} running, ${waiting} waiting, ${used.toLocaleString("en")} of ${strip.blocks.toLocaleString("en")} blocks`;
    }).join("; ");
  }

  // ---- drawing ------------------------------------------------------------------------------------------------------

  colour() {
    const style = getComputedStyle(document.documentElement);
    this.font = getComputedStyle(this.element).fontFamily;
    this.paint = new Proxy({}, { get: (_, name) => style.getPropertyValue(name).trim() });
    this.draw();
  }

  draw() {
    if (!this.fields || !this.paint || this.asked) return;
    this.asked = requestAnimationFrame(() => { this.asked = 0; this.drawn(); });
  }

  drawn() {
    this.clock.textContent = seconds(this.now);
    this.drawAxis();
    for (const field of this.fields) { this.drawField(field); this.say(field); }
  }

  sheet(canvas) {
    const { clientWidth: width, clientHeight: height } = canvas, sharp = devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * sharp) || canvas.height !== Math.round(height * sharp)) Object.assign(canvas, { width: Math.round(width * sharp), height: Math.round(height * sharp) });
    const pen = canvas.getContext("2d");
    pen.setTransform(sharp, 0, 0, sharp, 0, 0);
    pen.clearRect(0, 0, width, height);
    return { pen, width, height, x: (time) => width * (time - this.from) / (this.to - this.from) };
  }

  drawAxis() {
    const { pen, width, height, x } = this.sheet(this.axis), step = nice(this.to - this.from, width / 90);
    Object.assign(pen, { font: `12px ${this.font}`, fillStyle: this.paint["--soft"], textBaseline: "middle" });
    for (let time = Math.ceil(this.from / step) * step; time < this.to - step * 0.35; time += step) pen.fillText(seconds(time), x(time) + 3, height / 2);
  }

  drawField({ canvas, run, lanes }) {
    const { pen, width, height, x } = this.sheet(canvas), step = nice(this.to - this.from, width / 90);
    pen.fillStyle = this.paint["--line"];
    for (let time = Math.ceil(this.from / step) * step; time < this.to; time += step) pen.fillRect(x(time), 0, 1, height);
    if (chosen.by === "steps") this.drawSteps(pen, run, lanes, x); else this.drawLanes(pen, run, lanes, x, width);
    const high = run.strips.length ? (height - lanes) / run.strips.length : 0;
    run.strips.forEach((strip, index) => this.drawPool(pen, strip, lanes + high * (index + 1), high - 6, x, width));
    if (this.now < this.scene.span) { // what has not happened yet is veiled
      Object.assign(pen, { globalAlpha: 0.82, fillStyle: this.paint["--bg"] });
      pen.fillRect(x(this.now), 0, width, height);
      Object.assign(pen, { globalAlpha: 1, fillStyle: this.paint["--accent"] });
      pen.fillRect(x(this.now) - 1, 0, 2, height);
    }
  }

  drawLanes(pen, run, lanes, x, width) {
    const high = lanes / run.lanes.length;
    if (run.band) {
      pen.fillStyle = this.paint["--bad-wash"];
      pen.fillRect(x(run.band[0]), 0, Math.max(x(run.band[1]) - x(run.band[0]), 1), lanes);
    }
    run.lanes.forEach((lane, index) => {
      let covered = -1;
      if (lane.fate) { pen.fillStyle = this.paint["--bad"]; pen.fillRect(Math.min(x(lane.end), width - 3), index * high + 1, 3, high - 2); }
      for (const [kind, start, length] of lane.marks) {
        const left = x(start), right = x(start + length);
        if (right < 0 || left > width || (right <= covered && kind === 1)) continue;
        covered = right;
        this.mark(pen, kind, left, Math.max(right - left - (right - left > 6 && kind < 2 ? 1 : 0), 0.75), index * high, high);
        if (kind === 1 && run.strips.length === 1) this.tokens(pen, run.strips[0], start, start + length, index * high, high, x, width);
      }
    });
    if (run.band && x(run.band[1]) > 0 && x(run.band[0]) < width) {
      const right = x(run.band[1]) + 6, text = run.band[2];
      Object.assign(pen, { font: `600 12px ${this.font}`, fillStyle: this.paint["--bad"], strokeStyle: this.paint["--bg"], lineWidth: 4, textBaseline: "top", lineJoin: "round" });
      const room = pen.measureText(text).width, at = right + room < width ? right : Math.max(x(run.band[0]) - room - 6, 4);
      pen.strokeText(text, at, 3);
      pen.fillText(text, at, 3);
    }
  }

  // Where one step is one token and wide enough, the tokens of a decode are told apart.
  tokens(pen, strip, start, end, y, high, x, width) {
    if (strip.group > 1) return;
    pen.fillStyle = this.paint["--bg"];
    for (let at = Math.max(bin(strip, Math.max(start, this.from)), 0); at < strip.bins.length && strip.bins[at][0] < Math.min(end, this.to); at += 1) {
      const [from, length] = strip.bins[at];
      if (from > start && x(from + length) - x(from) > 5 && x(from) < width) pen.fillRect(x(from) - 1, y, 1, high);
    }
  }

  mark(pen, kind, left, width, y, high) {
    const [top, share] = SHAPES[kind], from = y + top * high, height = share * high;
    pen.fillStyle = this.paint[COLOURS[kind]];
    if (kind === 5 || kind === 6 || kind === 7) { // held back, preempted, in flight: dashes, crosses, dots
      const gap = kind === 5 ? 6 : kind === 6 ? 8 : 4;
      if (width < gap * 2) return pen.fillRect(left, from, width, height);
      for (let at = left; at < left + width; at += gap) {
        if (kind !== 6) pen.fillRect(at, from, gap / 2, height);
        else { pen.fillRect(at, y + high * 0.46, gap, high * 0.08); pen.fillRect(at + gap / 2 - 0.5, y + high * 0.25, 1.5, high * 0.5); }
      }
      return undefined;
    }
    pen.fillRect(left, from, width, height);
    if ((kind === 0 || kind === 2 || kind === 3) && width > 9 && high > 12) { // hatched, so that colour is not needed
      pen.save();
      pen.beginPath();
      pen.rect(left, from, width, height);
      pen.clip();
      Object.assign(pen, { strokeStyle: this.paint["--hatch"], globalAlpha: 0.35, lineWidth: 1 });
      pen.beginPath();
      for (let at = left - height; at < left + width; at += 7) { pen.moveTo(at, from + height); pen.lineTo(at + height, from); if (kind > 1) { pen.moveTo(at, from); pen.lineTo(at + height, from + height); } }
      pen.stroke();
      pen.restore();
    }
    return undefined;
  }

  // Columns of tokens per step, and below them who runs and who waits.
  drawSteps(pen, run, lanes, x) {
    const shared = lanes / Math.max(run.strips.length, 1);
    run.strips.forEach((strip, index) => {
      const upper = shared * 0.62, floor = index * shared + upper, below = shared * 0.36, most = Math.max(...run.strips.map((one) => one.tokens), 1), crowd = Math.max(...strip.bins.map((row) => row[6] + row[7]), 1);
      for (const [start, length, prefill, decodes, , , running, waiting] of strip.bins) {
        const left = x(start), width = Math.max(x(start + length) - left - (x(start + length) - left > 4 ? 1 : 0), 0.75);
        const bar = (colour, from, size) => { pen.fillStyle = this.paint[colour]; pen.fillRect(left, from - size, width, size); };
        const low = Math.sqrt(decodes / most) * (upper - 6), all = Math.sqrt((prefill + decodes) / most) * (upper - 6);
        bar("--c2", floor, low);
        bar("--c1", floor - low, Math.max(all - low, 0));
        bar("--c3", floor + below, (running / crowd) * (below - 4));
        bar("--c7", floor + below - (running / crowd) * (below - 4), (waiting / crowd) * (below - 4));
      }
    });
  }

  drawPool(pen, strip, floor, room, x, width) {
    for (const [colour, extra] of [["--c5", 1], ["--c3", 0]]) { // one path, so that neighbours leave no seam
      Object.assign(pen, { fillStyle: this.paint[colour], globalAlpha: extra ? 0.45 : 0.85 });
      pen.beginPath();
      for (const [start, length, , , used, cached] of strip.bins) {
        const left = x(start), right = x(start + length), size = room * (used + extra * cached) / strip.blocks;
        if (right > 0 && left < width) pen.rect(left, floor - size, right - left + 0.5, size);
      }
      pen.fill();
    }
    Object.assign(pen, { globalAlpha: 1, fillStyle: this.paint["--line"] });
    pen.fillRect(0, floor - room, width, 1);
    pen.fillRect(0, floor, width, 1);
  }
}
