// Light, dark or as the system has it; remembered. Stands alone, so that it works on every page and whatever else fails.
const ORDER = ["", "light", "dark"];
const root = document.documentElement;

function label() {
  for (const button of document.querySelectorAll("[data-action=theme]"))
    button.title = `Theme: ${root.dataset.theme || "as the system"}`;
}

document.addEventListener("click", ({ target }) => {
  if (!target.closest("[data-action=theme]")) return;
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  const order = system === "dark" ? ["", "light", "dark"] : ["", "dark", "light"];
  const next = order[(order.indexOf(root.dataset.theme ?? "") + 1) % ORDER.length];
  if (next) root.dataset.theme = next; else delete root.dataset.theme;
  try { if (next) localStorage.setItem("theme", next); else localStorage.removeItem("theme"); } catch { /* not remembered */ }
  label();
  document.dispatchEvent(new Event("theme"));
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.dispatchEvent(new Event("theme")));
label();
