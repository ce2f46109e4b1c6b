// node snapshot.mjs make  RUNTIME_DIR APP_ZIP STUDIOS_JSON SNAPSHOT   make a memory snapshot, print {studio: digest}
// node snapshot.mjs boot  RUNTIME_DIR APP_ZIP STUDIOS_JSON [SNAPSHOT] boot (from a snapshot if given), print {seconds until imported, digests}
// STUDIOS_JSON: {"studio": "pattern of source links"}. Used by the build and by tests/wasm.
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [, , mode, runtime, app, studiosText, snapshot] = process.argv;
const folder = path.resolve(runtime) + path.sep;
const { loadPyodide } = await import(pathToFileURL(folder + "pyodide.mjs"));
const options = {
  indexURL: folder,
  // Memory is restored from a snapshot, the file system is not: the zip is written again so that late imports work.
  fsInit: async (FS, { sitePackages }) => {
    FS.mkdirTree(sitePackages);
    FS.writeFile(`${sitePackages}/app.zip`, fs.readFileSync(app));
    FS.writeFile(`${sitePackages}/app.pth`, `${sitePackages}/app.zip\n`);
  },
};
if (mode === "make") options._makeSnapshot = true;
else if (snapshot) {
  const memory = options._loadSnapshot = fs.readFileSync(snapshot), instantiate = WebAssembly.instantiate;
  WebAssembly.instantiate = async (...given) => { // Pyodide expects a snapshot no larger than its own first memory
    const made = await instantiate(...given), missing = memory.byteLength - made.instance.exports.memory.buffer.byteLength;
    if (missing > 0) made.instance.exports.memory.grow(Math.ceil(missing / 65536));
    return made;
  };
}

// Freed memory keeps what was in it, and what nobody will read compresses badly: collect, then overwrite it with zeros by
// taking all that is free without letting the memory grow. Saves a tenth of the download.
function tidy({ pyimport, _module: { memory, _malloc, _free } }) {
  const collector = pyimport("gc");
  collector.collect();
  collector.destroy();
  memory.grow = () => { throw new Error("full"); };
  const held = [];
  for (let size = 1 << 22; size >= 32; size >>= 1)
    for (let place = _malloc(size); place; place = _malloc(size)) { new Uint8Array(memory.buffer, place, size).fill(0); held.push(place); }
  held.forEach((place) => _free(place));
  delete memory.grow;
}

const start = performance.now();
const pyodide = await loadPyodide(options);
const render = pyodide.pyimport("studios.render");
const seconds = (performance.now() - start) / 1000;
const digests = {};
for (const [studio, source] of Object.entries(JSON.parse(studiosText))) digests[studio] = render.check(studio, source);
render.destroy();
if (mode === "make") {
  pyodide.pyimport("studios.drawer").destroy();
  tidy(pyodide);
  fs.writeFileSync(snapshot, pyodide.makeMemorySnapshot());
}
console.log(JSON.stringify({ seconds, digests }));
