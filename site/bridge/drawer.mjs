// The Python drawer: a reader's own lines, run by the worker where `query` and `answer` are at hand.
export function drawer(send, restart) {
  const root = document.querySelector("#drawer"), code = root.querySelector("[data-code]"), output = root.querySelector("[data-output]");
  const button = root.querySelector("[data-action=run]"), stop = root.querySelector("[data-action=stop]");
  const busy = (on) => { if (button) button.disabled = on; if (stop) stop.hidden = !on; };
  busy(false);
  code.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); run(); }
  });
  function run() {
    if (button?.disabled || !code.value.trim()) return;
    busy(true);
    output.textContent = "running";
    send(code.value);
  }
  return {
    run,
    toggle() {
      if (root instanceof HTMLDialogElement) root.open ? root.close() : root.show();
      else root.hidden = !root.hidden;
      if (root.open || !root.hidden) code.focus();
    },
    show({ output: text, error }) { busy(false); output.textContent = text || "(nothing printed)"; output.classList.toggle("error", error); },
    stop() { busy(false); output.textContent = "stopped; names bound here are gone"; restart(); },
  };
}
