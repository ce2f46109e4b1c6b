// The form: its fields as text, filled from text, faults at their fields, texts from files and from the Hub.
const FILE_LIMIT = 4 << 20, STORE_LIMIT = 64 << 20, FETCH_MS = 15000;

export const fields = (form) => {
  const values = new URLSearchParams(new FormData(form)); // files are not fields; unticked boxes say "no"
  for (const input of form.querySelectorAll("input[type=file][name]")) values.delete(input.name);
  for (const box of form.querySelectorAll("input[type=checkbox][name]")) values.set(box.name, box.checked ? "yes" : "no");
  return values.toString();
};

const control = (form, name) => (name ? form.elements.namedItem(name) : null);

export function set(form, name, value) {
  const field = control(form, name);
  if (!field) return;
  if (field.type === "checkbox") field.checked = ["yes", "true", "1", "on"].includes(value.toLowerCase());
  else field.value = value;
  if (field.options && field.value !== value) field.add(Object.assign(new Option(value, value, true, true), { hidden: true })); // refused by name
}

export function fill(form, query) {
  form.reset();
  alter(form, query);
}

// Only the fields that are named: the rest of the question stays as it is.
export function alter(form, query) {
  for (const [name, value] of new URLSearchParams(query)) set(form, name, value);
}

export function clearFaults(form) {
  for (const slot of document.querySelectorAll("[data-error-for]")) { slot.replaceChildren(); slot.hidden = true; }
  for (const field of form.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
}

export function showFaults(form, errors, choose) {
  clearFaults(form);
  for (const { field, message, suggestions } of errors) {
    const slot = document.querySelector(`[data-error-for="${CSS.escape(field)}"]`) ?? document.querySelector('[data-error-for=""]');
    control(form, field)?.setAttribute("aria-invalid", "true");
    for (let fold = slot?.closest("details:not([open])"); fold; fold = fold.parentElement.closest("details:not([open])")) fold.open = true;
    const line = Object.assign(document.createElement("p"), { textContent: message });
    slot?.append(line, ...suggestions.map((name) => {
      const button = Object.assign(document.createElement("button"), { type: "button", className: "suggestion", textContent: name });
      button.addEventListener("click", () => { set(form, field, name); choose(); control(form, field)?.focus(); });
      return button;
    }));
    if (slot) slot.hidden = false;
  }
}

async function readInto(form, file, name, changed, fail) {
  if (file.size > FILE_LIMIT) return fail(name, `${file.name} is ${(file.size / 1e6).toFixed(1)} MB; accepted: at most 4 MB of text`);
  const bytes = new Uint8Array(await file.arrayBuffer());
  try { set(form, name, new TextDecoder("utf-8", { fatal: true }).decode(bytes)); } catch {
    const at = validBytes(bytes), byte = bytes[at].toString(16).padStart(2, "0");
    return fail(name, `${file.name} is not UTF-8 text: byte 0x${byte} at offset ${at.toLocaleString("en")}; convert it first`);
  }
  changed();
}

// How many bytes from the first are whole characters: a decoder that says no does not say where.
function validBytes(bytes) {
  const decoded = (end) => new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes.subarray(0, end), { stream: true });
  let low = 0, high = bytes.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    try { decoded(middle); low = middle; } catch { high = middle - 1; }
  }
  return new TextEncoder().encode(decoded(low)).length;
}

const REASONS = { 404: "there is no such file there", 401: "it is gated or private: open it in your browser and paste the text", 403: "it is gated or private: open it in your browser and paste the text", 429: "too many requests; try again later" };

async function fetchInto(form, button, changed, fail) {
  const { fetch: pattern, from, into } = button.dataset;
  const value = control(form, from).value.trim();
  const url = pattern.replace("{}", value.split("/").map(encodeURIComponent).join("/"));
  const where = new URL(url).host;
  button.disabled = true;
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(FETCH_MS), credentials: "omit", referrerPolicy: "no-referrer" });
    if (!response.ok) throw new Error(`${where} answered ${response.status} for ${value}: ${REASONS[response.status] ?? response.statusText}`);
    if (!control(form, into)) return;
    set(form, into, await limited(response, where));
    changed();
  } catch (error) {
    const slow = error.name === "TimeoutError", unreachable = error instanceof TypeError;
    fail(from, slow ? `${where} did not answer within ${FETCH_MS / 1000} s; try again, or paste the text` : unreachable ? `${where} could not be reached (${error.message}); paste the text instead` : error.message);
  } finally { button.disabled = false; }
}

async function limited(response, where) {
  const reader = response.body.getReader(), decoder = new TextDecoder();
  let text = "", size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    size += value.byteLength;
    if (size > FILE_LIMIT) { reader.cancel(); throw new Error(`${where} sent more than 4 MB; that is not a configuration`); }
    text += decoder.decode(value, { stream: true });
  }
}

// Controls outside the form that write into one of its fields: all of it, or the entry KEY=value of a list by commas.
export function setters(form, changed) {
  document.addEventListener("input", ({ target }) => {
    const { sets, key } = target.dataset, field = sets && control(form, sets);
    if (!field) return;
    const others = field.value.split(",").map((one) => one.trim()).filter((one) => one && one.split("=")[0].trim() !== key);
    const entry = target.value.trim() ? [`${key}=${target.value.trim()}`] : [];
    set(form, sets, key === undefined ? target.value : [...others, ...entry].join(","));
    changed();
  });
  document.addEventListener("change", ({ target }) => { if (target.dataset?.sets) changed(true); }); // what is shown is as it was understood
}

// Texts that come from elsewhere: chosen files, dropped files, an address behind a button.
export function sources(form, changed, keep, fail) {
  const take = (name, file, limit) => (file.size > limit ? fail(name, `${file.name} is ${(file.size / 1e6).toFixed(1)} MB; accepted: at most 64 MiB`) : keep(name, file));
  const slot = ({ name }) => name && form.querySelector(`[data-store="${name}"], [data-open="${name}"]`);
  document.addEventListener("change", (event) => { // before the form hears of it: a file is no field
    const { target } = event, { into, store, open } = target.dataset, [file] = target.files ?? [];
    if (!target.matches("input[type=file]:is([data-into], [data-store], [data-open])") || !file) return;
    event.stopPropagation();
    if (into) readInto(form, file, into, changed, fail); else take(store ?? open, file, store ? STORE_LIMIT : Infinity);
    target.value = "";
  }, true);
  document.addEventListener("click", ({ target }) => {
    const button = target.closest("button[data-fetch]");
    if (button) fetchInto(form, button, changed, fail);
  });
  form.addEventListener("dragover", (event) => { if (event.target.matches("textarea") || slot(event.target)) event.preventDefault(); });
  form.addEventListener("drop", (event) => {
    const file = event.dataTransfer.files[0];
    const { name } = event.target, own = slot(event.target), { store } = own?.dataset ?? {};
    if (!file || !(own || event.target.matches("textarea[name]"))) return;
    event.preventDefault();
    if (own) take(name, file, store ? STORE_LIMIT : Infinity); else readInto(form, file, name, changed, fail);
  });
}
