// Every message between page and worker, and everything the bridge expects to find in a page.
// Only JSON text crosses (postMessage(JSON.stringify(message))). Three messages to the worker bring bytes along, as
// { message: JSON text, files: { [name]: ArrayBuffer } }: the first one of a single-file page (the inlined files), Store, and
// Open (a File instead).
// Ids grow; a reply with an id older than the newest question is dropped on both sides.

// ---- page -> worker ------------------------------------------------------------------------------------------------

/** First message: where the files are. Sizes are bytes as they arrive, so that progress is known before the headers. */
export interface Boot {
  type: "boot";
  studio: string;
  base: string; // absolute URL of the assets folder, ends in "/"
  files: { [role: string]: { path: string; bytes: number; parts?: string[] } }; // by role: "pyodide.mjs", "app.zip", "snapshot.bin", ...
  source: string; // pattern of source links, with {path} and {line}
  worker: string[]; // roles of the files that the worker needs
  plain: boolean; // do not use the snapshot: it failed before, for the reason in `note`
  note: string;
  check: string[]; // sha256 (hex) of the default question's first and last panel, as the build rendered them
  packages: string[]; // packages to load after "ready", in the background (numpy), by name in the lock file
}
export interface Ask { type: "ask"; id: number; studio: string; form: string; source: string } // form: URL-encoded fields
export interface Take { type: "take"; id: number; studio: string; form: string } // the files of an answer
export interface Cancel { type: "cancel"; id: number }
/** Lines of the Python drawer; `query` and `answer` are bound to the question in `form`. */
export interface Run { type: "run"; id: number; studio: string; form: string; code: string }
/** A reader's own file for a field; its bytes come along as `files.file`. The worker keeps it; the address never holds it. */
export interface Store { type: "store"; field: string; name: string }
/** The same of any size: the File itself comes along as `files.file`, and is read by ranges when Python asks for them. */
export interface Open { type: "open"; field: string; name: string }
export type ToWorker = Boot | Ask | Take | Cancel | Run | Store | Open;

// ---- worker -> page ------------------------------------------------------------------------------------------------

/** Loading, by named stage; `loaded`/`total` are bytes of all files together. */
export interface Stage { type: "stage"; stage: "download" | "unpack" | "start" | "check"; loaded: number; total: number }
/** `note` says in words why the snapshot was not used, when it was not. `verified`: this first answer has the bytes that the
 * build gave; with a snapshot nothing else is ever "ready". */
export interface Ready { type: "ready"; how: "snapshot" | "plain"; seconds: number; bytes: number; verified: boolean; note: string; answer: Answer }
/** Later, when nothing was asked meanwhile: whether the whole default answer has the bytes of the painted page. */
export interface Checked { type: "checked"; verified: boolean; answer: Answer }
/** The snapshot did not do: the page starts a fresh worker without it. */
export interface Again { type: "again"; note: string }
/** Terminal: the runtime could not be loaded, or died. The page keeps what it shows. */
export interface Failed { type: "failed"; stage: string; message: string }
export interface Progress { type: "progress"; id: number; stage: string; fraction: number }
/** A file that the answer needs is on its way (Needs below): bytes so far and in all. */
export interface Fetching { type: "fetching"; id: number; file: string; loaded: number; total: number }
/** A reader's own file is kept: `reference` goes into the field. Or it is not: `message` says why. */
export interface Stored { type: "stored"; field: string; reference: string; message: string }
export interface Answer {
  type: "answer"; id: number;
  panel: string; // HTML of the panel's inside; byte for byte what the build gives for the same question
  query: string; // canonical query string without "?"; "" for the default question
  title: string; // document title
  headline: string; // one line, read out by screen readers when the answer changes
  command: string; // shell command that asks the same
  python: string; // Python lines that ask the same
  charts: { [id: string]: object }; // Vega-Lite specs; colours may be "var(--name)"
}
/** After the last reply to an ask or a take. Until then a fuller answer may follow an answer. */
export interface Complete { type: "complete"; id: number }
export interface Files { type: "files"; id: number; files: { [fileName: string]: { media: string; text: string } } }
/** Nothing was computed: each fault belongs to a field (or to none: field ""). The last answer stays. */
export interface Invalid { type: "invalid"; id: number; message: string; errors: { field: string; message: string; suggestions: string[] }[] }
/** A fault of ours, in words. The last answer stays. */
export interface Broken { type: "broken"; id: number; message: string }
export interface Ran { type: "ran"; id: number; output: string; error: boolean }
export type FromWorker = Stage | Ready | Checked | Again | Failed | Progress | Fetching | Stored | Answer | Complete | Files | Invalid | Broken | Ran;

// ---- Python -> worker alone ----------------------------------------------------------------------------------------

/** Among the replies to an ask or a take: files that are not there yet, and packages. The worker fetches those of `Boot.files`, writes
 * each to `path` in Python's file system, loads the packages and goes on; `next(text)` says why it could not. The page hears of it
 * by Fetching. */
export interface Needs { type: "needs"; id: number; files: { name: string; path: string }[]; packages: string[] }

// ---- what a page holds ---------------------------------------------------------------------------------------------
//
// <script type="application/json" id="bridge">   PageConfig below; the build writes it
// form#question                 method=get; stands outside #panel. Its controls are named as the Query's fields.
//   fieldset[data-ready]        disabled in the HTML; enabled when Python is ready (same size, nothing shifts)
//   [name=F]                    control of field F, id "field-F", aria-describedby="help-F error-F"
//   [data-error-for=F]          empty element, id "error-F"; the bridge writes the message and the suggestions
//                               (buttons.suggestion that put the name into the field) and sets aria-invalid on the control
//   [data-error-for=""]         faults that belong to no field
//   input[type=file][data-into=F]   its text goes into field F; dropping a file on the control of F does the same
//   input[type=file][data-store=F]  the file, of any kind and at most 64 MiB, goes to the worker, a reference to it into field F;
//                               so does one that is dropped on the control of F
//   input[type=file][data-open=F]   the same for a file of any size, which is not read: Python asks for ranges of it
//   button[data-fetch=URL][data-from=F][data-into=G]   "{}" in URL is replaced by the value of field F; the text that the
//                               URL answers is put into field G (at most 4 MB, 15 s), faults are shown at F
// <html data-state=...>         painted | loading | ready | stale | failed: for the style sheet; data-quiet is set when the
//                               status line has had its say for 6 s in state "ready" (hide it from sight then)
// #panel                        the answer. Swapped by morphing: focus, open <details>, scroll and popovers survive.
//                               data-state = "default" | "pending" | "stale" | "current": default: the painted answer;
//                               pending: computing (aria-busy too); stale: your question was refused, the last answer stays
//   a[href^="?"][data-also]    a link that changes only the fields it names; without it the rest goes back to its defaults
//   #some-id[data-keep]         not there yet: what stood at #some-id before is left (aria-busy) until a fuller answer comes
//   #id[data-same=DIGEST]      up to "<!--same-->", left alone where the page shows the same DIGEST: sorting and filtering of its tables survive
//   [data-whole]                replaced as a whole instead of being morphed: for large tables
// [data-chart=ID]               EMPTY in the panel template. The build puts <svg> drawings in it (span.chart-wide 640 px and
//                               span.chart-narrow 340 px: CSS shows one), the bridge a live chart when an answer changes it.
//                               Give it role="img" and an aria-label: the panel has the figures as a table elsewhere.
// [data-player]                 drawn by the studio's own player.mjs (role "<studio>.player.mjs"), whose `play(element)` is
//                               called at the start and after every swap; the module draws and computes nothing. In it:
//   [data-scene]                hidden element whose text is the scene as JSON
//   [data-stage]                EMPTY in the panel template; what the module puts there survives swaps
// #status[role=status]          one line of text: loading stage, "Python ready in ...", what failed
// progress[data-progress]       bytes while loading, fraction of a job while computing; [hidden] otherwise (keep its room)
// [data-show=painted]           [hidden] unless a query string is being computed: "default answer shown, yours is coming"
// [data-show=failed]            [hidden] unless loading failed for good
// button[data-action=theme]     light / dark / system, remembered (localStorage "theme"); sets <html data-theme=...>
// button[data-action=share]     copies the page's URL
// button[data-action=copy][data-text=command|python]   copies it;  [data-out=command|python] shows it (pre, code)
//                               (data-action=cli and data-action=python are accepted as short forms)
// button[data-action=copy][data-copy="#selector"]      copies the text of an element
// button[data-action=download][data-file=NAME]         saves a file of the answer; without data-file: all of them
// button[data-action=chart-svg|chart-png][data-id=ID]  saves a chart
// button[data-action=retry]     loads the runtime again after a failure
// button[data-action=cancel]    shown ([hidden] removed) while a job runs longer than 0.3 s
// button[data-action=drawer] + dialog#drawer or #drawer[hidden]   the Python drawer:
//   #drawer textarea[data-code], button[data-action=run], button[data-action=stop], pre[data-output]
// a[href^="?"]                  a question as a link (presets, remedies): asked without leaving the page
// table[data-table]             sortable: <th><button data-sort>..</button></th>; cells may carry data-value (number or text)
// input|select[data-filter="#table-id"]   hides rows that do not hold the text; [data-column=N] looks at one column only.
//                               Such controls stand in the panel, outside the form.
// input|select[data-sets=F]     in the panel, outside the form: writes its value into field F of the question and asks;
//   with [data-key=K]           as the entry K=value of a list by commas ("" takes the entry out)
// [data-live-disabled]          disabled in the HTML, enabled when Python is ready (downloads, drawer, chart saving)

export interface PageConfig {
  studio: string;
  assets: string; // relative URL of the assets folder
  files: Boot["files"];
  worker: string[]; // the roles that the worker needs
  source: string;
  check: string[];
  packages: string[];
  later: string[]; // roles of the files that an answer may need; a single-file page hands them over with the others
  patience: number; // ms without a word from a busy worker before it is taken for dead and restarted (once)
}
