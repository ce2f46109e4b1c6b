// A trace replayed in Pyodide: node replay.mjs RUNTIME_DIR APP_ZIP TRACE QUERY_JSON -> {"seconds", "completed"}
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [, , runtime, app, trace, query] = process.argv;
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
pyodide.globals.set("trace", fs.readFileSync(trace, "utf8"));
pyodide.globals.set("given", fs.readFileSync(query, "utf8"));
pyodide.runPython(`
import json
from pycore.systems.sched_sim import Query, answer
query = Query(trace=trace, **json.loads(given))`);
const start = performance.now();
const completed = pyodide.runPython("answer(query).runs[0].metrics.completed.value");
console.log(JSON.stringify({ seconds: (performance.now() - start) / 1000, completed }));
