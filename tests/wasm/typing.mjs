// How long a key takes: Pyodide in Node, a studio's question asked again and again with its text one letter longer.
// node typing.mjs RUNTIME_DIR APP_ZIP LATER_JSON QUESTIONS_JSON -> [[milliseconds of the processor, ...], ...]
//   QUESTIONS_JSON: a list of lists of "ask" messages; the first two of each list warm up and are not counted
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [, , runtime, packed, later, input] = process.argv;
const folder = path.resolve(runtime) + path.sep;
const { loadPyodide } = await import(pathToFileURL(folder + "pyodide.mjs"));
const pyodide = await loadPyodide({
  indexURL: folder,
  packageBaseUrl: folder,
  fsInit: async (FS, { sitePackages }) => {
    FS.mkdirTree(sitePackages);
    FS.writeFile(`${sitePackages}/app.zip`, fs.readFileSync(packed));
    FS.writeFile(`${sitePackages}/app.pth`, `${sitePackages}/app.zip\n`);
  },
});
for (const [name, file] of Object.entries(JSON.parse(fs.readFileSync(later, "utf8")))) {
  const place = pyodide.pyimport("pycore.cache").place(name).toString();
  pyodide.FS.mkdirTree(path.posix.dirname(place));
  pyodide.FS.writeFile(place, fs.readFileSync(file));
}
const { respond } = pyodide.pyimport("studios.render");

function milliseconds(message) {
  const before = process.cpuUsage(); // of the processor: what else runs on the machine does not count
  let answered = false;
  for (const reply of respond(JSON.stringify(message))) answered ||= JSON.parse(reply).type === "answer";
  const { user, system } = process.cpuUsage(before);
  if (!answered) throw new Error(`no answer to ${message.form}`);
  return (user + system) / 1000;
}
console.log(JSON.stringify(JSON.parse(fs.readFileSync(input, "utf8")).map((messages) => messages.map(milliseconds).slice(2))));
