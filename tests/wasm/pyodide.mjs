// Boots Pyodide in Node for a test and prints one JSON text.
// node pyodide.mjs answers RUNTIME_DIR APP_ZIP QUESTIONS_JSON [LATER_JSON [PACKAGES]] -> [[replies as texts], ...]
//   QUESTIONS_JSON: file of "ask" and "take" messages; LATER_JSON: {name: file here} of what answers may need, brought before;
//   PACKAGES: names by commas, loaded before
// node pyodide.mjs python  RUNTIME_DIR APP_ZIP PYTHON_FILE LATER_JSON       -> what PYTHON_FILE leaves in `result`, beside the app
// node pyodide.mjs wheel   RUNTIME_DIR WHEEL PYTHON_FILE        -> what PYTHON_FILE leaves in `result`, in a bare Pyodide
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [, , mode, runtime, packed, input, later, packages] = process.argv;
const folder = path.resolve(runtime) + path.sep;
const { loadPyodide } = await import(pathToFileURL(folder + "pyodide.mjs"));
const options = { indexURL: folder, packageBaseUrl: folder };

if (mode === "answers" || mode === "python") {
  options.fsInit = async (FS, { sitePackages }) => {
    FS.mkdirTree(sitePackages);
    FS.writeFile(`${sitePackages}/app.zip`, fs.readFileSync(packed));
    FS.writeFile(`${sitePackages}/app.pth`, `${sitePackages}/app.zip\n`);
  };
  const pyodide = await loadPyodide(options);
  if (packages) await pyodide.loadPackage(packages.split(","), { messageCallback() {} });
  for (const name of packages?.split(",") ?? []) pyodide.pyimport(name);
  for (const [name, file] of Object.entries(later ? JSON.parse(fs.readFileSync(later, "utf8")) : {})) {
    const place = pyodide.pyimport("pycore.cache").place(name).toString();
    pyodide.FS.mkdirTree(path.posix.dirname(place));
    pyodide.FS.writeFile(place, fs.readFileSync(file));
  }
  if (mode === "python") {
    await pyodide.runPythonAsync(fs.readFileSync(input, "utf8"));
    console.log(pyodide.globals.get("result"));
  } else {
    const { respond } = pyodide.pyimport("studios.render");
    console.log(JSON.stringify(JSON.parse(fs.readFileSync(input, "utf8")).map((message) => [...respond(JSON.stringify(message))])));
  }
} else {
  const pyodide = await loadPyodide(options);
  await pyodide.loadPackage("micropip", { messageCallback() {} });
  const name = `/tmp/${path.basename(packed)}`;
  pyodide.FS.writeFile(name, fs.readFileSync(packed));
  await pyodide.pyimport("micropip").install.callKwargs(`emfs:${name}`, { deps: false });
  await pyodide.runPythonAsync(fs.readFileSync(input, "utf8"));
  console.log(pyodide.globals.get("result"));
}
