// Completion of filters: fields, and the values that are known in advance.

/** @type {[string, string][]} */
const FIELDS = [
  ["state:", "state"], ["kind:", "kind"], ["queue:", "queue"], ["payload.", "payload.PATH=VALUE"], ["error~", "text"],
  ["label:", "NAME=VALUE"], ["age>", "1h"], ["age<", "1h"], ["id:", "id"], ["worker:", "worker"], ["why:", "why"],
  ["attempt>", "1"], ["priority<", "0"], ["pushed>", "-1h"], ["due<", "+1h"], ["ended>", "-1h"], ["group:", "id"],
  ["parent:", "id"], ["replays:", "id"],
];
/** @type {Record<string, string[]>} */
const VALUES = {
  state: ["ready", "running", "scheduled", "waiting", "dead", "done", "cancelled"],
  why: ["exhausted", "not-retried", "quarantined", "asked", "given-up", "dependency-broken", "expired", "event-timed-out"],
};

/**
 * The completions of a word.
 * @param {string} word
 * @returns {[string, string][]}
 */
function completions(word) {
  const [, field, values] = /^-?(state|why):(.*)$/.exec(word) ?? [];
  if (field) {
    const typed = values.split(",").pop() ?? "";
    const before = word.slice(0, word.length - typed.length);
    return VALUES[field].filter((one) => one.startsWith(typed) && one !== typed).map((one) => [before + one, ""]);
  }
  const minus = word.startsWith("-") ? "-" : "";
  const typed = word.slice(minus.length);
  return FIELDS.filter(([name]) => name.startsWith(typed) && name !== typed).map(([name, hint]) => [minus + name, hint]);
}

/** @param {HTMLInputElement} input */
function addCompletion(input) {
  const box = document.createElement("div");
  box.className = "completing";
  input.replaceWith(box);
  const list = document.createElement("ul");
  list.className = "complete";
  list.setAttribute("role", "listbox");
  list.hidden = true;
  box.append(input, list);
  let selected = -1;

  const word = () => {
    const at = input.selectionStart ?? input.value.length;
    const start = input.value.lastIndexOf(" ", at - 1) + 1;
    return { start, at, text: input.value.slice(start, at) };
  };
  /** @param {string} text */
  const take = (text) => {
    const { start, at } = word();
    const end = /[:~<>.=]$/.test(text) ? "" : " ";
    input.value = input.value.slice(0, start) + text + end + input.value.slice(at).trimStart();
    const position = start + text.length + end.length;
    input.setSelectionRange(position, position);
    show();
    input.focus();
  };
  /** @param {number} n */
  const select = (n) => {
    selected = n;
    [...list.children].forEach((item, i) => item.setAttribute("aria-selected", String(i === n)));
  };
  const show = () => {
    const { text } = word();
    const found = text === "" && input.value !== "" ? [] : completions(text).slice(0, 9);
    list.replaceChildren(...found.map(([value, hint]) => {
      const item = document.createElement("li");
      item.setAttribute("role", "option");
      item.dataset.value = value;
      item.append(value);
      const note = document.createElement("span");
      note.textContent = hint;
      item.append(note);
      item.addEventListener("pointerdown", (event) => { event.preventDefault(); take(value); });
      return item;
    }));
    list.hidden = found.length === 0;
    select(-1);
  };

  input.addEventListener("input", show);
  input.addEventListener("focus", show);
  input.addEventListener("blur", () => { list.hidden = true; });
  input.addEventListener("keydown", (event) => {
    if (list.hidden) return;
    const n = list.children.length;
    if (event.key === "ArrowDown") { event.preventDefault(); select((selected + 1) % n); }
    else if (event.key === "ArrowUp") { event.preventDefault(); select((selected + n - 1) % n); }
    else if (event.key === "Tab" || (event.key === "Enter" && selected >= 0)) {
      const item = list.children[Math.max(selected, 0)];
      if (item instanceof HTMLElement && (selected >= 0 || word().text !== "")) {
        event.preventDefault();
        take(item.dataset.value ?? "");
      }
    } else if (event.key === "Escape") list.hidden = true;
  });
}

export function addFilters() {
  for (const input of document.querySelectorAll("input[data-filter]")) {
    if (input instanceof HTMLInputElement) addCompletion(input);
  }
}
