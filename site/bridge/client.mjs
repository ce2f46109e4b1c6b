// The page's side: asks the worker, swaps the panel, keeps the URL. Knows no product. Messages and page: protocol.d.ts.
const config = JSON.parse(document.getElementById("bridge").textContent);
const root = document.documentElement, form = document.getElementById("question"), panel = document.getElementById("panel");
const every = (selector, act) => document.querySelectorAll(selector).forEach(act);
const inlined = (role) => document.querySelector(`script[data-file="${role}"]`)?.textContent;
const MB = (bytes) => (bytes / 1e6).toFixed(1);

// ---- files: an address in a served page, the unpacked text of an element in a single-file page -------------------------

async function unpack(text) {
  if (typeof DecompressionStream !== "function") throw new Error("this browser cannot unpack the file (it has no DecompressionStream); a newer one can");
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}
const address = async (role) => (inlined(role)
  ? URL.createObjectURL(new Blob([await unpack(inlined(role))], { type: "text/javascript" }))
  : new URL(config.assets + config.files[role].path, document.baseURI).href);
const use = async (role) => import(await address(role));

// ---- what the reader sees of the runtime -------------------------------------------------------------------------------

const status = document.getElementById("status"), bar = document.querySelector("[data-progress]");
let quiet = 0;
function state(name, text) {
  root.dataset.state = name;
  delete root.dataset.quiet;
  clearTimeout(quiet);
  if (name === "ready") quiet = setTimeout(() => { root.dataset.quiet = ""; }, 6000);
  if (text !== undefined) status.textContent = text;
}
function progress(value, max) { if (bar) { bar.hidden = value === null; if (value !== null) { bar.max = max; bar.value = value; } } }
const STAGES = { download: "Fetching Python", unpack: "Unpacking Python", start: "Starting Python", check: "Checking its first answer" };

// ---- the worker's life -------------------------------------------------------------------------------------------------

let worker = null, ready = false, restarts = 0, plain = false, note = "", silence = 0;
let id = 0, asked = null, pending = false, last = null, lines = null, runs = 0, running = false, taken = null;

async function start() {
  if (running) handlers.ran({ id: runs, output: "Python was started again; the names bound here are gone", error: true });
  [ready, pending, running] = [false, false, false];
  worker?.terminate();
  const single = Boolean(inlined("worker.mjs"));
  try {
    const boot = { type: "boot", ...config, plain, note, base: single ? "https://file.invalid/" : new URL(config.assets, document.baseURI).href };
    const files = single ? await inlinedFiles() : null;
    const current = worker = new Worker(await address("worker.mjs"), { type: single ? "classic" : "module" });
    worker.onmessage = ({ data }) => { if (worker === current) receive(JSON.parse(data)); };
    worker.onerror = (event) => { event.preventDefault(); if (worker === current) died(event.message || "the worker could not be started"); };
    if (single) worker.postMessage({ message: JSON.stringify(boot), files }, Object.values(files));
    else worker.postMessage(JSON.stringify(boot));
    watch();
  } catch (error) { failed(error.message); }
}

async function inlinedFiles() {
  const roles = [...config.worker, ...config.later].filter((role) => inlined(role) && !(plain && role === "snapshot.bin"));
  return Object.fromEntries(await Promise.all(roles.map(async (role) => [role, await unpack(inlined(role))])));
}

// A worker that was killed says nothing: silence of a busy one, longer than any step takes, is taken for death.
function watch() {
  clearTimeout(silence);
  if (!ready || pending || running) silence = setTimeout(() => died("it has not answered for a while"), ready ? config.patience : config.patience * 6);
}

function died(reason) {
  if (!ready && !plain) { [plain, note] = [true, reason]; return start(); }
  if (!ready || restarts >= 1) return failed(reason);
  restarts += 1;
  state("loading", `Python stopped (${reason}); starting it again`);
  start();
}

function failed(reason) {
  clearTimeout(silence);
  worker?.terminate();
  if (running) handlers.ran({ id: runs, output: "Python has stopped", error: true });
  [worker, ready, pending] = [null, false, false];
  settle("stale");
  progress(null);
  state("failed", `Python could not be ${last ? "kept running" : "loaded"}: ${reason}. The answer shown stays; reload the page to try again.`);
  every("[data-show=failed]", (element) => { element.hidden = false; });
  every("[data-show=painted]", (element) => { element.hidden = true; });
}

const handlers = {
  stage({ stage, loaded, total }) {
    state("loading", stage === "download" ? `${STAGES[stage]}: ${MB(loaded)} of ${MB(total)} MB` : STAGES[stage]);
    progress(loaded, total);
  },
  again(message) { [plain, note] = [true, message.note]; start(); },
  failed({ message }) { ready ? died(message) : plain || last ? failed(message) : died(message); },
  ready(message) {
    ready = true;
    progress(null);
    every("[data-ready]", (element) => { element.disabled = false; });
    enable();
    state("ready", `Python ready in ${message.seconds.toFixed(1)} s; ${MB(message.bytes)} MB, all from this ${inlined("worker.mjs") ? "file" : "folder"}${message.note ? `. Without the snapshot: ${message.note}` : ""}`);
    paint(message.answer, message.verified);
    if (kept.size) kept.forEach((file, field) => keep(field, file));
    else if (asked !== null || location.search || location.hash.startsWith("#?")) ask(true);
    else asked = formText(); // the painted answer stands: nobody need ask for it anew
    root.dispatchEvent(new Event("bridge-ready"));
  },
  checked(message) { paint(message.answer, message.verified, "; it gives the figures shown"); },
  progress(message) { if (message.id === id) progress(message.fraction, 1); },
  fetching({ id: reply, file, loaded, total }) {
    if (reply !== id || !id) return; // what nobody asked for arrives quietly
    progress(loaded, total);
    status.textContent = `Fetching ${file.split("/").pop()}: ${MB(loaded)} of ${MB(total)} MB`;
  },
  stored({ field, reference, message }) {
    if (message) { kept.delete(field); return refuse([{ field, message, suggestions: [] }]); }
    controls.set(form, field, reference);
    ask(true);
  },
  answer(message) { if (message.id === id) show(message); },
  complete(message) { if (message.id === id && shown === id) settle("current"); },
  files(message) { taken?.(message); taken = null; },
  invalid(message) { if (message.id === id) refuseSoon(message.errors); },
  broken({ id: reply, message }) { if (reply === id) refuseSoon([{ field: "", message: `This is a fault of ours, not of your question: ${message}`, suggestions: [] }]); },
  ran(message) { running = message.id < runs; lines.then((module) => module.show(message)); },
};
function receive(message) {
  if (message.id === id && message.type === "complete") pending = false;
  handlers[message.type](message);
  watch();
}

// The worker's own answer to the default question: what the painted page shows, if all is well.
function paint(answer, verified, good = "") {
  if (shown) return;
  last = answer;
  charts.then((module) => module.painted(answer));
  status.textContent += verified ? good : "; but its figures differ from the painted ones in this browser";
}

// ---- asking and showing ------------------------------------------------------------------------------------------------

let slow = 0, shown = 0;
const enable = () => every("[data-live-disabled]", (element) => { element.disabled = false; });
function ask(again = false) {
  const text = formText();
  if (!again && text === asked) return;
  asked = text;
  if (!ready) return;
  id += 1;
  pending = true;
  worker.postMessage(JSON.stringify({ type: "ask", id, studio: config.studio, form: text, source: config.source }));
  clearTimeout(slow);
  slow = setTimeout(() => {
    if (shown !== id) { panel.dataset.state = "pending"; panel.ariaBusy = "true"; }
    every("[data-action=cancel]", (button) => { button.hidden = false; });
  }, 300);
  watch();
}

// A reader's own files: the worker keeps them; one that is started anew is given them again.
const kept = new Map();
async function keep(field, file) {
  kept.set(field, file);
  status.textContent = `Reading ${file.name}`;
  if (!ready) return;
  try {
    const type = document.querySelector(`[data-open="${CSS.escape(field)}"]`) ? "open" : "store";
    const content = type === "open" ? file : await file.arrayBuffer();
    worker.postMessage({ message: JSON.stringify({ type, field, name: file.name }), files: { file: content } }, type === "open" ? [] : [content]);
  } catch (error) { kept.delete(field); refuse([{ field, message: `${file.name} cannot be read: ${error.message}`, suggestions: [] }]); }
}

function settle(name) {
  clearTimeout(slow);
  panel.dataset.state = name;
  for (const element of [panel, ...panel.querySelectorAll("[aria-busy]")]) element.removeAttribute("aria-busy");
  progress(null);
  every("[data-action=cancel]", (button) => { button.hidden = true; });
}

function show(answer) {
  last = answer;
  swap(answer.panel);
  enable();
  controls.clearFaults(form);
  shown = id;
  panel.dataset.state = "current";
  panel.removeAttribute("aria-busy");
  state("ready", answer.headline);
  document.title = answer.title;
  remember(answer.query);
  every("[data-show=painted]", (element) => { element.hidden = true; });
  every("[data-out]", (element) => { element.textContent = answer[element.dataset.out]; });
  charts.then((module) => module.update(answer, loadVega)).catch((error) => { status.textContent = `The charts could not be drawn: ${error.message}`; });
  tables.refresh();
  stage();
}

// What is half typed is not yet wrong: a fault is shown when the reader pauses.
function refuseSoon(errors) { clearTimeout(slow); slow = setTimeout(refuse, 250, errors); shown = -1; }

function refuse(errors) {
  controls.showFaults(form, errors, () => ask());
  settle("stale");
  every("[data-show=painted]", (element) => { element.hidden = true; });
  state("stale", `${errors[0].message} The last answer stays.`);
}

// Morphing keeps focus, scroll and what the reader opened; drawings belong to the charts module.
function swap(html) {
  const here = new Set([...panel.querySelectorAll("[data-same]")].map(({ dataset }) => dataset.same)); // not even parsed again
  const short = html.replace(/(<div id="[^"]*" data-same="(\w+)">)[^]*?(<.div><.--same-->)/g, (whole, head, digest, end) => (here.has(digest) ? head + end : whole));
  morph(panel, short, {
    morphStyle: "innerHTML",
    ignoreActiveValue: true, // what is typed or dragged right now stays
    callbacks: {
      beforeNodeMorphed(old, next) {
        if (next.dataset?.keep !== undefined) { old.ariaBusy = "true"; return false; }
        if (old.dataset?.filter !== undefined || old.dataset?.same && old.dataset.same === next.dataset?.same) return false; // the reader's own
        if (/^(SECTION|ARTICLE|TABLE|LI|DL)$/.test(old.nodeName) && old.isEqualNode(next)) return false; // most are unchanged
        if (next.dataset?.whole === undefined) return true;
        for (const { name } of [...old.attributes]) if (!next.hasAttribute(name)) old.removeAttribute(name);
        for (const { name, value } of next.attributes) old.setAttribute(name, value);
        old.replaceChildren(...document.importNode(next, true).childNodes); // the element stays: its siblings are morphed from it
        return false;
      },
      beforeAttributeUpdated: (name, node) => !(name === "open" && node.localName === "details" || name === "disabled" && "liveDisabled" in node.dataset),
      beforeNodeRemoved: (node) => !node.parentElement?.closest("[data-chart], [data-stage]"),
    },
  });
}

// Long questions go behind "#": a server never sees them, so none refuses their length.
function remember(query) {
  const next = !query ? location.pathname : query.length < 1500 ? `?${query}` : `${location.pathname}#?${query}`;
  try { history.replaceState(null, "", next); } catch { location.replace(`#?${query}`); }
}
const stated = () => (location.hash.startsWith("#?") ? location.hash.slice(2) : location.search.slice(1));

const parts = await Promise.all(["form.mjs", "tables.mjs", "tools.mjs", "idiomorph.mjs"].map(use)).catch((error) => failed(error.message));
const [controls, tables, { tools, save }, { Idiomorph: { morph } }] = parts ?? await new Promise(() => {}); // without them the painted page stays
const charts = use("charts.mjs");
const loadVega = () => use("vega.js");
const formText = () => controls.fields(form);

// A studio's own drawing module, where it has one: it draws what stands in [data-player] and is told of every swap.
const playing = `${config.studio}.player.mjs`, player = config.files[playing] || inlined(playing) ? use(playing) : null;
const stage = () => player?.then(({ play }) => every("[data-player]", play))
  .catch((error) => { status.textContent = `The moving picture could not be drawn: ${error.message}`; });
stage();

form.addEventListener("input", () => ask()); // at once: a newer question supersedes a running one
form.addEventListener("change", () => ask());
form.addEventListener("submit", (event) => { event.preventDefault(); ask(true); });
document.addEventListener("theme", () => charts.then((module) => module.redraw(loadVega)));
addEventListener("popstate", () => { controls.fill(form, stated()); ask(); });
document.addEventListener("click", (event) => {
  const link = event.target.closest('a[href^="?"]');
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || !ready) return;
  event.preventDefault();
  history.pushState(null, "", location.href);
  (link.dataset.also === undefined ? controls.fill : controls.alter)(form, link.getAttribute("href").slice(1));
  ask(true);
});
controls.setters(form, ask);
controls.sources(form, () => ask(), keep, (field, message) => refuse([{ field, message, suggestions: [] }]));
tables.tables();
tables.refresh();

const withDrawer = () => (lines ??= use("drawer.mjs").then(({ drawer }) => drawer(
  (code) => { running = true; worker.postMessage(JSON.stringify({ type: "run", id: (runs += 1), studio: config.studio, form: asked ?? formText(), code })); watch(); },
  () => { restarts = 0; asked ??= formText(); start(); })));
const saveChart = (kind) => ({ dataset }) => charts.then((module) => module.picture(dataset.id, kind, loadVega)).then((blob) => save(`${config.studio}-${dataset.id}.${kind}`, blob));
tools({
  take(then) { taken = then; worker?.postMessage(JSON.stringify({ type: "take", id: -1, studio: config.studio, form: asked ?? formText() })); },
  cancel() { worker?.postMessage(JSON.stringify({ type: "cancel", id })); id += 1; pending = false; settle("stale"); state("stale", "Cancelled. The last answer stays."); },
  retry() { [restarts, plain] = [0, false]; every("[data-show=failed]", (element) => { element.hidden = true; }); start(); },
  drawer: () => withDrawer().then((module) => module.toggle()),
  run: () => withDrawer().then((module) => module.run()),
  stop: () => withDrawer().then((module) => module.stop()),
  "chart-svg": saveChart("svg"),
  "chart-png": saveChart("png"),
}, () => last, (text) => { status.textContent = text; });

if (stated()) {
  controls.fill(form, stated());
  asked = formText();
  every("[data-show=painted]", (element) => { element.hidden = false; });
}
start();
