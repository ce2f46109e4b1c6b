// How long a changed question takes in Pyodide: until its first answer (the panel without the matrix) and until all of it.
// node rerender.mjs RUNTIME_DIR APP_ZIP MESSAGES_JSON -> [[ms until the first answer, ms until the last], ...]
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [, , runtime, app, input] = process.argv;
const folder = path.resolve(runtime) + path.sep;
const { loadPyodide } = await import(pathToFileURL(folder + "pyodide.mjs"));
const pyodide = await loadPyodide({
  indexURL: folder,
  fsInit: async (FS, { sitePackages }) => {
    FS.mkdirTree(sitePackages);
    FS.writeFile(`${sitePackages}/app.zip`, fs.readFileSync(app));
    FS.writeFile(`${sitePackages}/app.pth`, `${sitePackages}/app.zip\n`);
  },
});
const { respond } = pyodide.pyimport("studios.render");
const times = [];
for (const message of JSON.parse(fs.readFileSync(input, "utf8"))) {
  const start = performance.now();
  let first = 0;
  for (const text of respond(JSON.stringify(message)))
    if (!first && JSON.parse(text).type === "answer") first = performance.now() - start;
  times.push([first, performance.now() - start]);
}
console.log(JSON.stringify(times));
