// Live charts: drawn from specs when an answer changes them, or saved as pictures. The library comes on first need.
let drawn = {}, specs = {}, library = null;
const live = new Set();

// Colours are named after CSS custom properties; a drawing needs their values of now.
function coloured(spec) {
  const style = getComputedStyle(document.documentElement);
  const value = (whole, name, otherwise) => style.getPropertyValue(name).trim() || otherwise || "gray";
  return JSON.parse(JSON.stringify(spec).replace(/var\((--[\w-]+)(?:,\s*([^()]+))?\)/g, value).replaceAll("currentColor", value("", "--ink")));
}

const options = { ast: true, actions: false, renderer: "svg", defaultStyle: false, tooltip: { disableDefaultStyle: true }, mode: "vega-lite" };
const holder = (id) => document.querySelector(`[data-chart="${CSS.escape(id)}"]`);

async function draw(id, load) {
  library ??= load();
  await library;
  const place = holder(id), spec = specs[id];
  if (!place || !spec) return;
  const stage = document.createElement("div");
  stage.className = "chart-live";
  stage.ariaHidden = "true"; // the place is one image with one label
  const old = [...place.children];
  place.append(stage);
  const width = place.clientWidth;
  await window.vegaEmbed(stage, coloured({ autosize: { type: "fit-x", contains: "padding" }, ...spec, width: spec.width === "container" ? width : spec.width }), options);
  for (const child of old) child.remove();
  live.add(id);
}

// The painted drawings are right for the painted answer: remember what they show.
export function painted(answer) { specs = answer.charts; drawn = texts(specs); }
const texts = (all) => Object.fromEntries(Object.entries(all).map(([id, spec]) => [id, JSON.stringify(spec)]));

export async function update(answer, load) {
  specs = answer.charts;
  const next = texts(specs), changed = Object.keys(next).filter((id) => next[id] !== drawn[id]);
  drawn = next;
  for (const id of changed) await draw(id, load);
}

export async function redraw(load) { for (const id of live) await draw(id, load); }

export async function picture(id, kind, load) {
  library ??= load();
  await library;
  const stage = document.createElement("div");
  const spec = coloured({ autosize: { type: "fit-x", contains: "padding" }, ...specs[id], width: 800 });
  const background = getComputedStyle(document.documentElement).getPropertyValue("--bg").trim() || "white";
  const { view } = await window.vegaEmbed(stage, { ...spec, background }, options);
  if (kind === "svg") return new Blob([await view.toSVG()], { type: "image/svg+xml" });
  const canvas = await view.toCanvas(2);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}
