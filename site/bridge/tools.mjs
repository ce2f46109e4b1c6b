// Copying and saving: everything a reader takes away from an answer.
export function save(name, blob) {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// The clipboard API is missing on pages without a secure context; a selection works everywhere.
async function copy(text) {
  try { await navigator.clipboard.writeText(text); return true; } catch { /* try the old way */ }
  const area = Object.assign(document.createElement("textarea"), { value: text, style: "position:fixed;opacity:0" });
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}

export function tools(actions, answer, say) {
  const copied = async (what, text) => say((await copy(text)) ? `${what} copied` : `Copy it yourself: ${text}`);
  const textOf = { share: () => ["Address", location.href], cli: () => ["Command", answer().command], python: () => ["Python lines", answer().python] };
  document.addEventListener("click", ({ target }) => {
    const button = target.closest("button[data-action]");
    if (!button) return;
    const { action, text, copy: selector, file } = button.dataset;
    if (action === "copy" && selector) copied("Text", document.querySelector(selector).textContent);
    else if (action === "copy" || action in textOf) copied(...textOf[{ command: "cli" }[text] ?? text ?? action]());
    else if (action === "download") actions.take(({ files }) => {
      for (const [name, { media, text: body }] of Object.entries(files)) if (!file || file === name) save(name, new Blob([body], { type: media }));
    });
    else actions[action]?.(button);
  });
}
