// The worker: boots Pyodide, then answers questions. Messages: protocol.d.ts. No static import: the same text runs as a
// module worker of a served page and as a classic worker (from a Blob) of a single-file page.
const SLICE_MS = 30;
const STALL_MS = 15000; // a download in which nothing arrives for so long has failed
let boot, inlined = {}, pyodide, respond, runLines, newest = 0, waiting = null, working = false, wake = () => {};
let loaded = 0, lastReport = 0, stage = "download";
const started = performance.now();
const post = (message) => self.postMessage(JSON.stringify(message));
const turn = () => new Promise((resolve) => { const { port1, port2 } = new MessageChannel(); port1.onmessage = () => { port1.close(); resolve(); }; port2.postMessage(0); });

self.onmessage = ({ data }) => {
  const message = JSON.parse(typeof data === "string" ? data : data.message);
  if (message.type === "boot") { boot = message; inlined = data.files ?? {}; return start(); }
  if (message.type === "ask") { newest = message.id; waiting = message; wake(); return work(); }
  if (message.type === "take") return take(message);
  if (message.type === "cancel" && message.id >= newest) { newest = message.id + 1; waiting = null; wake(); return; }
  if (message.type === "run") return run(message);
  if (message.type === "store" || message.type === "open") return store(message, data.files.file);
};

// ---- loading -------------------------------------------------------------------------------------------------------

const address = (role) => (inlined[role]
  ? URL.createObjectURL(new Blob([inlined[role]], { type: "text/javascript" }))
  : new URL(boot.files[role].path, boot.base).href);
const roles = () => Object.keys(boot.files).filter((role) => boot.worker.includes(role) && (usesSnapshot() || role !== "snapshot.bin"));
const total = () => roles().reduce((sum, role) => sum + boot.files[role].bytes, 0);
const usesSnapshot = () => !boot.plain && "snapshot.bin" in boot.files && typeof DecompressionStream === "function";

function report(next = stage) {
  if (next === stage && performance.now() - lastReport < 50) return;
  [stage, lastReport] = [next, performance.now()];
  post({ type: "stage", stage, loaded, total: total() });
}

// A file's bytes, counted as they pass; too few or too many of them is an error, not a hang.
async function bytes(role, response, tell = report) {
  if (inlined[role]) { loaded += inlined[role].byteLength; return new Uint8Array(inlined[role]); }
  const { path, parts = [path], bytes: expected } = boot.files[role], data = new Uint8Array(expected);
  let size = 0;
  for (const part of parts) { // hosts that refuse large files get them in pieces
    const soon = (promise) => (tell === report ? promise : Promise.race([promise, stalled(part)]));
    const reader = (response ?? await soon(arriving(part))).body.getReader(), next = () => soon(reader.read());
    for (let piece = await next(); !piece.done; piece = await next()) {
      if (size + piece.value.byteLength <= expected) data.set(piece.value, size);
      size += piece.value.byteLength;
      loaded += piece.value.byteLength;
      tell(size);
    }
  }
  if (size !== expected) throw new Error(`${role}: ${size} bytes arrived instead of ${expected}`);
  return data;
}

async function arriving(path) {
  const response = await fetched(new URL(path, boot.base).href);
  if (!response.ok) throw new Error(`${path}: the server answered ${response.status} ${response.statusText}`);
  return response;
}

const stalled = (part) => new Promise((_, reject) => setTimeout(() => reject(new Error(`${part}: nothing arrived for ${STALL_MS / 1000} s`)), STALL_MS));

// Compiled from the network's own response, so that the browser's cache of compiled code works; while the rest arrives.
async function compiled(role) {
  if (inlined[role]) return WebAssembly.compile(await bytes(role));
  const response = await arriving(boot.files[role].path), copy = response.clone();
  try {
    return (await Promise.all([WebAssembly.compileStreaming(response), bytes(role, copy)]))[0];
  } catch { return WebAssembly.compile(await bytes(role)); } // a server that sends another media type
}

// The page loads nothing from elsewhere, and neither does anything that runs in here.
const fetched = self.fetch.bind(self), single = () => boot.base.endsWith(".invalid/");
const roleOf = (url) => Object.keys(boot.files).find((role) => new URL(boot.files[role].path, boot.base).href === url);
let stdlib;
self.fetch = async (input, options) => {
  const url = new URL(input.url ?? input, boot.base).href, role = roleOf(url);
  if (role === "pyodide.asm.wasm") return new Response(); // compiled already, see start
  if (role === "python_stdlib.zip") return new Response(stdlib);
  if (inlined[role]) return new Response(inlined[role]);
  if (role?.endsWith(".whl")) return new Response(await counted(role, role.split("-")[0]));
  if (!single() && url.startsWith(new URL("..", boot.base).href)) return fetched(input, options);
  throw new TypeError(`${url} is outside this page's folder, and a page here loads nothing from outside`);
};

async function unpacked(role) {
  const packed = await bytes(role);
  if (packed[0] !== 0x1f || packed[1] !== 0x8b) return packed; // a server that said Content-Encoding: gzip has unpacked it
  report("unpack");
  return new Uint8Array(await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer());
}

async function start() {
  let note = "";
  if (!boot.plain && typeof DecompressionStream !== "function") note = "this browser has no DecompressionStream";
  if (Object.keys(inlined).length) self.importScripts = undefined; // pyodide.mjs refuses classic workers that have it
  report();
  try {
    const modules = ["pyodide.mjs", "pyodide.asm.mjs"].map((role) => import(address(role)).then((module) => { loaded += boot.files[role].bytes; report(); return module; }));
    const snapshot = usesSnapshot() ? unpacked("snapshot.bin").catch((error) => { note = `the snapshot could not be used: ${error.message}`; }) : undefined;
    const parts = [compiled("pyodide.asm.wasm"), ...["python_stdlib.zip", "app.zip", "pyodide-lock.json"].map((role) => bytes(role))];
    const [{ loadPyodide }, { default: createPyodideModule }, wasm, library, app, lock] = await Promise.all([...modules, ...parts]);
    stdlib = library;
    // Pyodide compiles by itself and never settles when that fails; here a bad file has been refused before.
    // It also expects a snapshot to be no larger than its own first memory: here the memory is made as large.
    WebAssembly.instantiateStreaming = async (_, imports) => {
      const instance = await WebAssembly.instantiate(wasm, imports), { memory } = instance.exports;
      const missing = (options._loadSnapshot?.byteLength ?? 0) - memory.buffer.byteLength;
      if (missing > 0) memory.grow(Math.ceil(missing / 65536));
      return { module: wasm, instance };
    };
    const folder = new URL(boot.files["pyodide.asm.wasm"].path, boot.base);
    const options = {
      indexURL: new URL(".", folder).href, createPyodideModule, packageBaseUrl: new URL("packages/", boot.base).href,
      lockFileContents: JSON.parse(new TextDecoder().decode(lock)),
      // Memory is restored from the snapshot, the file system is not: the zip is written either way.
      fsInit: async (FS, { sitePackages }) => {
        FS.mkdirTree(sitePackages);
        FS.writeFile(`${sitePackages}/app.zip`, app);
        FS.writeFile(`${sitePackages}/app.pth`, `${sitePackages}/app.zip\n`);
      },
    };
    const memory = await snapshot;
    if (memory) options._loadSnapshot = memory;
    report("start");
    await startPython(loadPyodide, options, note, Boolean(memory));
  } catch (error) {
    post({ type: "failed", stage, message: error.message ?? String(error) });
  }
}

async function startPython(loadPyodide, options, note, snapshotted) {
  try {
    pyodide = await loadPyodide(options);
    const render = pyodide.pyimport("studios.render");
    [respond, runLines] = [render.respond, (text) => pyodide.pyimport("studios.drawer").run(text, (name, path) => (path ? brought({ name, path }, 0) : packaged([name])))];
    report("check");
    const question = { type: "ask", id: 0, studio: boot.studio, form: "", source: boot.source };
    const replies = respond(JSON.stringify(question)), sooner = (fault) => JSON.parse(replies.next(fault).value);
    let answer = sooner();
    while (["progress", "needs"].includes(answer.type)) answer = sooner(answer.type === "needs" ? await supplied(answer) : undefined);
    const verified = sameAs(boot.check[0], answer);
    if (!verified && snapshotted) throw new Error("its first answer differs from the painted one");
    if (answer.type !== "answer") throw new Error(answer.message);
    post({ type: "ready", how: snapshotted ? "snapshot" : "plain", seconds: (performance.now() - started) / 1000, bytes: loaded, verified, note: note || boot.note, answer });
    working = true; // the rest of the default answer is compared when nobody asks anything else
    if (boot.check[0] === boot.check.at(-1)) post({ type: "checked", verified, answer });
    await answerTo(question, replies, checked).catch(() => {}); // what fails here fails again, and is told, when it is asked
    working = false;
    work();
    if (boot.packages.length) await packaged(boot.packages).catch(() => {}); // who needs them asks again, and is told
  } catch (error) {
    if (!snapshotted) throw error;
    post({ type: "again", note: `the snapshot could not be used: ${error.message}` });
  }
}

const sameAs = (digest, answer) => answer.type === "answer" && pyodide.pyimport("studios.render").digest(answer.panel) === digest;
let fullest = null; // an answer may come in several steps: the last is what was painted
function checked(text) {
  const reply = JSON.parse(text);
  if (reply.type === "answer") fullest = reply;
  if (reply.type === "complete" && fullest) post({ type: "checked", verified: sameAs(boot.check.at(-1), fullest), answer: fullest });
}

// ---- answering -----------------------------------------------------------------------------------------------------

// A question is a Python generator: it runs in slices, and between slices the inbox is read, so a newer one supersedes it.
async function work() {
  if (working || !respond) return;
  working = true;
  while (waiting) {
    const message = waiting;
    waiting = null;
    try { await answerTo(message); } catch (error) {
      if (error.constructor.name !== "PythonError") { post({ type: "failed", stage: "answer", message: error.message }); return self.close(); }
      post({ type: "broken", id: message.id, message: error.message.trim().split("\n").pop() });
    }
  }
  working = false;
}

async function answerTo(message, replies = respond(JSON.stringify(message)), send = (text) => self.postMessage(text)) {
  let until = performance.now() + SLICE_MS, held = null, fault;
  try {
    for (;;) {
      const { done, value } = replies.next(fault);
      fault = undefined;
      if (done) break;
      const small = value.length < 2000 && JSON.parse(value);
      if (small.type === "needs") {
        fault = await Promise.race([supplied(small), new Promise((superseded) => { wake = superseded; })]);
        if (newest !== message.id) return;
      } else if (small.type === "progress") held = value; // a slice's newest report is enough
      else { send(value); held = null; }
      if (performance.now() < until) continue;
      if (held) send(held);
      held = null;
      await turn();
      if (newest !== message.id) return;
      until = performance.now() + SLICE_MS;
    }
  } finally { replies.destroy(); }
}

async function take(message) {
  const replies = respond(JSON.stringify(message));
  for (let { done, value } = replies.next(); !done;) {
    const needs = value.length < 2000 && JSON.parse(value).type === "needs";
    if (!needs) self.postMessage(value);
    ({ done, value } = replies.next(needs ? await supplied(JSON.parse(value)) : undefined));
  }
  replies.destroy();
}

// ---- files that come later -----------------------------------------------------------------------------------------

// What an answer needs: files, put where Python looks for them, and packages. What failed, in words; undefined when all is there.
async function supplied({ id, files, packages }) {
  try {
    for (const file of files) await brought(file, id);
    if (packages.length) { telling = id; await packaged(packages); }
  } catch (error) { return error.message; }
}

// A download goes on when its question is superseded: the next one will want the file too.
const coming = {};
let telling = 0;
function brought({ name, path }, id) {
  telling = id;
  return coming[name] ??= (async () => {
    if (!boot.files[name]) throw new Error("this page does not hold the file");
    write(path, await counted(name, name));
  })().catch((error) => { delete coming[name]; throw error; });
}

// A file's bytes; how many have come is told to whoever waits.
function counted(role, file) {
  const { bytes: size } = boot.files[role];
  let last = 0;
  return bytes(role, undefined, (arrived) => {
    if (performance.now() - last < 50 && arrived < size) return;
    last = performance.now();
    post({ type: "fetching", id: telling, file, loaded: arrived, total: size });
  });
}

// Packages that come after the start: Pyodide says what is missing only in passing.
async function packaged(names) {
  let said = "";
  await pyodide.loadPackage(names, { messageCallback() {}, errorCallback(text) { said += text; } });
  const without = names.filter((name) => !(name in pyodide.loadedPackages));
  if (without.length) throw new Error(`${without.join(", ")} could not be loaded. ${said}`);
  names.forEach((name) => pyodide.pyimport(name).destroy()); // what is imported is whole: pycore.cache.absent looks for that
}

function write(path, data) {
  pyodide.FS.mkdirTree(path.slice(0, path.lastIndexOf("/")));
  pyodide.FS.writeFile(path, data);
}

// A reader's own file: it stays in this worker's memory, or stays open to be read by ranges; the question refers to it.
function store({ type, field, name }, file) {
  const { keep, keep_file } = pyodide.pyimport("studios.render");
  const read = (first, count) => new Uint8Array(new FileReaderSync().readAsArrayBuffer(file.slice(first, first + count)));
  const reply = type === "open" ? keep_file(name, file.size, String(file.lastModified), read) : keep(name, new Uint8Array(file));
  post({ type: "stored", field, ...JSON.parse(reply) });
}

const quiet = { messageCallback() {}, errorCallback() {} };
async function run(message) {
  try {
    await pyodide.loadPackagesFromImports(message.code, quiet);
    self.postMessage(await runLines(JSON.stringify(message)));
  } catch (error) { post({ type: "ran", id: message.id, output: error.message ?? String(error), error: true }); }
}
