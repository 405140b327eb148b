// Live updates: on each tick of the server the page is loaded again, and its parts with `data-live` are replaced.
// Rows of a list are updated where they are; new ones wait behind a button, so that nothing moves under the pointer.

const KEY = "crore-live";
const data = document.body.dataset;

/** @type {EventSource | null} */
let source = null;
let isLoading = false;
/** @type {() => void} */
let refreshed = () => {};

/** @param {string} text @param {string} [state] */
function showButton(text, state = "") {
  const button = document.querySelector("button[data-live-toggle]");
  if (!(button instanceof HTMLButtonElement)) return;
  button.hidden = false;
  button.textContent = text;
  button.className = `live ${state}`;
  button.setAttribute("aria-pressed", String(state === ""));
}

/** Whether a part is in use, and must not be replaced. @param {Element} part */
function isInUse(part) {
  if (part.contains(document.activeElement) && document.activeElement !== document.body) return true;
  const selection = getSelection();
  if (selection && !selection.isCollapsed && selection.anchorNode && part.contains(selection.anchorNode)) return true;
  return part.querySelector("details.menu[open]") !== null;
}

/** @param {Element} part @param {Element} fresh */
function replace(part, fresh) {
  if (part.isEqualNode(fresh) || isInUse(part)) return;
  // Folded and unfolded parts stay so.
  const open = [...part.querySelectorAll("details")].map((one) => one.open);
  part.replaceWith(fresh);
  [...fresh.querySelectorAll("details")].forEach((one, i) => { if (i < open.length) one.open = open[i]; });
}

/** @param {Element} table @param {Element} fresh */
function updateRows(table, fresh) {
  const name = table.getAttribute("data-live-rows") ?? "";
  const known = new Map([...table.querySelectorAll("tr[data-key]")].map((row) => [row.getAttribute("data-key"), row]));
  const rows = [...fresh.querySelectorAll("tr[data-key]")];
  const present = new Set(rows.map((row) => row.getAttribute("data-key")));
  let added = 0;
  for (const row of rows) {
    const old = known.get(row.getAttribute("data-key"));
    if (!old) { added += 1; continue; }
    const [was, box] = [old.querySelector("input[type=checkbox]"), row.querySelector("input[type=checkbox]")];
    if (was instanceof HTMLInputElement && box instanceof HTMLInputElement) box.checked = was.checked;
    row.className = old.className.replace("left", "").trim();
    if (!isInUse(old)) old.replaceWith(row);
  }
  for (const [key, row] of known) {
    if (!present.has(key)) row.classList.add("left");
  }
  let button = document.querySelector(`button.new-rows[data-for="${name}"]`);
  if (added === 0) { button?.remove(); return; }
  if (!button) {
    button = document.createElement("button");
    button.className = "new-rows";
    button.setAttribute("type", "button");
    button.setAttribute("data-for", name);
    button.addEventListener("click", () => location.reload());
    table.before(button);
  }
  button.textContent = (data.new ?? "{0}").replace("{0}", String(added));
}

async function load() {
  if (isLoading || document.hidden) return;
  isLoading = true;
  try {
    const response = await fetch(location.href, { headers: { "x-crore-live": "1" }, redirect: "manual" });
    if (response.status === 401 || response.type === "opaqueredirect") { location.reload(); return; }
    if (!response.ok) return;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    for (const part of document.querySelectorAll("[data-live]")) {
      const fresh = page.querySelector(`[data-live="${CSS.escape(part.getAttribute("data-live") ?? "")}"]`);
      if (fresh) replace(part, fresh);
    }
    for (const table of document.querySelectorAll("[data-live-rows]")) {
      const fresh = page.querySelector(`[data-live-rows="${CSS.escape(table.getAttribute("data-live-rows") ?? "")}"]`);
      if (fresh) updateRows(table, fresh);
    }
    // The tokens in forms change when the server restarts.
    const token = page.querySelector("input[name=csrf]")?.getAttribute("value");
    if (token) {
      for (const field of document.querySelectorAll("input[name=csrf]")) field.setAttribute("value", token);
    }
    refreshed();
  } catch {
    // The server is away; the stream notices when it is back.
  } finally {
    isLoading = false;
  }
}

function stop() {
  source?.close();
  source = null;
}

function start() {
  if (source || !data.liveUrl) return;
  source = new EventSource(data.liveUrl);
  source.addEventListener("open", () => { showButton(data.liveText ?? ""); load(); });
  source.addEventListener("tick", load);
  source.addEventListener("error", () => {
    showButton(data.lost ?? "", "lost");
    // A refused stream is not opened again by the browser. If the session is over, the page leads to the login.
    if (source?.readyState === EventSource.CLOSED) {
      stop();
      load();
      setTimeout(start, 5000);
    }
  });
}

const isPaused = () => localStorage.getItem(KEY) === "off";

/** @param {() => void} refresh */
export function addLiveUpdates(refresh) {
  if (!data.liveUrl) return;
  refreshed = refresh;
  if (isPaused()) showButton(data.pausedText ?? "", "off"); else start();
  document.querySelector("button[data-live-toggle]")?.addEventListener("click", () => {
    localStorage.setItem(KEY, isPaused() ? "on" : "off");
    if (isPaused()) { stop(); showButton(data.pausedText ?? "", "off"); } else start();
  });
  document.addEventListener("visibilitychange", () => {
    if (isPaused()) return;
    if (document.hidden) stop(); else start();
  });
}
