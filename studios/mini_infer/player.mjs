// Moves through frames that Python draws: plays, steps and scrubs by asking for another one, and lights what belongs
// together. It draws nothing and computes nothing; the frame asked for is a field of the question, so it has an address.
const still = matchMedia("(prefers-reduced-motion: reduce)");
const known = new WeakSet();
let playing = null; // {frame, timer}: the frame that is waited for, then the pause before the next
let shown = null;   // the element that stands in the page
let pace = "";      // as the reader chose it; a swap puts the template's back

export function play(element) {
  if (!known.has(element)) listen(element);
  known.add(shown = element);
  const frame = Number(element.dataset.frame);
  if (playing && frame !== playing.frame) playing = null; // the reader asked for something else meanwhile
  if (playing && frame >= Number(element.dataset.last)) playing = null;
  if (playing) { clearTimeout(playing.timer); playing.timer = setTimeout(go, pause(), frame + 1); }
  dress();
}

const part = (selector) => shown?.querySelector(selector);
const pause = () => Number(pace || part("[data-pace]")?.value || 900);

// What the buttons say now; a swap has just put back what the template says.
function dress() {
  const button = part("[data-play]");
  if (!button) return;
  if (pace) part("[data-pace]").value = pace;
  button.textContent = playing ? "❚❚ Pause" : "▶ Play";
  button.ariaPressed = String(Boolean(playing));
  if (still.matches) { button.disabled = true; delete button.dataset.liveDisabled; button.title = "Your system asks for no motion; step or scrub instead"; }
}

function go(frame) {
  const scrub = part("[data-sets=frame]");
  if (!scrub || scrub.disabled) return;
  if (playing) playing.frame = frame;
  scrub.value = frame;
  scrub.dispatchEvent(new Event("input", { bubbles: true }));
}

function toggle() {
  if (playing) { clearTimeout(playing.timer); playing = null; return dress(); }
  const { frame, last } = shown.dataset;
  if (still.matches || last === "1" || part("[data-sets=frame]")?.disabled) return undefined;
  playing = { timer: 0 };
  go(Number(frame) < Number(last) ? Number(frame) + 1 : 1);
  return dress();
}

function stop() { if (playing) clearTimeout(playing.timer); playing = null; dress(); }

function key(event) {
  const { target } = event, [frame, last] = [Number(shown.dataset.frame), Number(shown.dataset.last)];
  if (event.ctrlKey || event.metaKey || event.altKey || target.matches("select, textarea, input:not([type=range])")) return;
  if (target.matches("input") && event.key !== " ") return stop(); // a slider knows its own keys
  if (target.matches("button, summary") && event.key === " ") return;
  const act = { " ": toggle, ArrowRight: () => step(Math.min(frame + 1, last)), ArrowLeft: () => step(Math.max(frame - 1, 1)),
    Home: () => step(1), End: () => step(last) }[event.key];
  if (!act) return;
  event.preventDefault();
  act();
}
function step(frame) { stop(); if (frame !== Number(shown.dataset.frame)) go(frame); }

// A block and its places in the tables find each other: both carry a name of the thing in data-link, their own first.
function light({ target }) {
  const here = target.closest?.("[data-link]"), name = here?.dataset.link.split(" ")[0], line = part(".told");
  for (const one of shown.querySelectorAll(".lit")) one.classList.remove("lit");
  if (name) for (const one of shown.querySelectorAll(`[data-link~="${CSS.escape(name)}"]`)) one.classList.add("lit");
  if (line) line.textContent = here?.title ?? "";
}

function listen(element) {
  element.addEventListener("keydown", key);
  element.addEventListener("pointerdown", ({ target }) => { if (!target.closest("[data-play], [data-pace]")) stop(); });
  element.addEventListener("change", ({ target }) => { if (target.matches("[data-pace]")) pace = target.value; });
  element.addEventListener("click", ({ target }) => { if (target.closest("[data-play]")) toggle(); });
  for (const kind of ["pointerover", "focusin"]) element.addEventListener(kind, light);
  element.addEventListener("pointerleave", () => light({ target: element }));
}

// A recorded run is chosen, pasted, or dropped anywhere on the page: then that is the scene.
function recorded() {
  for (const [name, value] of [["scene", "recorded"], ["frame", "0"]]) document.getElementById(`field-${name}`).value = value;
}
document.addEventListener("change", ({ target }) => { if (target.matches("[data-store=events]")) recorded(); }, true);
document.addEventListener("input", ({ target }) => { if (target.name === "events" && target.value) recorded(); }, true);
document.addEventListener("dragover", (event) => { if ([...event.dataTransfer.types].includes("Files")) event.preventDefault(); });
document.addEventListener("drop", (event) => {
  const input = document.querySelector("[data-store=events]"), { files } = event.dataTransfer;
  if (!input || !files.length || event.target.matches("textarea:not([name=events])")) return;
  event.preventDefault();
  event.stopPropagation(); // the field would take it again
  input.files = files;
  input.dispatchEvent(new Event("change", { bubbles: true }));
}, true);
