// Completion of filters: the server suggests fields, states, queues, kinds, labels and values while a filter is typed.
//
// Without this module a filter is a plain field. Keys: arrows select, Enter or Tab takes, Esc closes.

/** @typedef {{ text: string, about?: string }} Suggestion */
/** @typedef {{ from: number, to: number, suggestions: Suggestion[] }} Completion */

/** The suggestions are asked for when no key was pressed for this time, in milliseconds. */
const PAUSE = 60;
/** Suggestions that are shown. */
const MAX_SHOWN = 25;

let lists = 0;

/** @param {string} filter @param {number} at @param {AbortSignal} signal @returns {Promise<Completion | null>} */
async function ask(filter, at, signal) {
  const query = new URLSearchParams({ q: filter, at: String(at) });
  try {
    const response = await fetch(`${document.body.dataset.root}complete?${query}`, { signal });
    // An expired session leads to the login page.
    const isCompletion = response.ok && response.headers.get("content-type")?.startsWith("application/json");
    return isCompletion ? await response.json() : null;
  } catch {
    return null;
  }
}

/** The server counts characters; a string here has two units for some of them. @param {string} text */
const characters = (text) => [...text];

/** A field with suggestions: a combobox and its list. */
class CompletedField {
  /** @param {HTMLInputElement} input */
  constructor(input) {
    this.input = input;
    this.list = document.createElement("ul");
    /** @type {Completion | null} */
    this.completion = null;
    this.selected = -1;
    this.pending = new AbortController();
    /** @type {number | undefined} */
    this.timer = undefined;
    this.addList();
    input.addEventListener("input", () => this.update());
    input.addEventListener("focus", () => this.update());
    input.addEventListener("click", () => this.update());
    input.addEventListener("blur", () => this.close());
    input.addEventListener("keydown", (event) => this.press(event));
  }

  addList() {
    const { input, list } = this;
    const box = document.createElement("div");
    box.className = "completing";
    input.replaceWith(box);
    box.append(input, list);
    list.className = "complete";
    list.id = `complete-${lists++}`;
    list.hidden = true;
    list.setAttribute("role", "listbox");
    list.setAttribute("aria-label", input.getAttribute("aria-label") ?? "");
    input.setAttribute("role", "combobox");
    input.setAttribute("aria-autocomplete", "list");
    input.setAttribute("aria-expanded", "false");
    input.setAttribute("aria-controls", list.id);
  }

  close() {
    clearTimeout(this.timer);
    this.pending.abort();
    this.show(null);
  }

  /** Asks for suggestions at the cursor. An answer that comes too late is dropped. */
  update() {
    clearTimeout(this.timer);
    this.pending.abort();
    const pending = new AbortController();
    this.pending = pending;
    this.timer = setTimeout(async () => {
      const { value, selectionStart } = this.input;
      const at = characters(value.slice(0, selectionStart ?? value.length)).length;
      const completion = await ask(value, at, pending.signal);
      if (!pending.signal.aborted) this.show(completion);
    }, PAUSE);
  }

  /** @param {Completion | null} completion */
  show(completion) {
    this.completion = completion;
    const found = completion?.suggestions.slice(0, MAX_SHOWN) ?? [];
    this.list.replaceChildren(...found.map((one, n) => this.option(one, n)));
    this.list.hidden = found.length === 0;
    this.list.scrollTop = 0;
    this.input.setAttribute("aria-expanded", String(found.length > 0));
    this.select(-1);
  }

  /** @param {Suggestion} suggestion @param {number} n */
  option(suggestion, n) {
    const item = document.createElement("li");
    item.id = `${this.list.id}-${n}`;
    item.setAttribute("role", "option");
    const text = document.createElement("b");
    text.textContent = suggestion.text;
    const about = document.createElement("span");
    about.textContent = suggestion.about ?? "";
    // The server explains in English.
    about.lang = "en";
    item.append(text, about);
    item.addEventListener("pointerdown", (event) => { event.preventDefault(); this.take(n); });
    return item;
  }

  /** @param {number} n */
  select(n) {
    this.selected = n;
    [...this.list.children].forEach((item, i) => item.setAttribute("aria-selected", String(i === n)));
    const item = this.list.children[n];
    if (item) {
      this.input.setAttribute("aria-activedescendant", item.id);
      item.scrollIntoView({ block: "nearest" });
    } else this.input.removeAttribute("aria-activedescendant");
  }

  /** Writes a suggestion into the field. After a value the next term can be typed. @param {number} n */
  take(n) {
    const suggestion = this.completion?.suggestions[n];
    if (!this.completion || !suggestion) return;
    const all = characters(this.input.value);
    const before = all.slice(0, this.completion.from).join("");
    const after = all.slice(this.completion.to).join("");
    const isField = before === "" || /[\s-]$/.test(before);
    const start = before + suggestion.text + (isField || after.startsWith(" ") ? "" : " ");
    this.input.value = start + after;
    this.input.setSelectionRange(start.length, start.length);
    this.input.focus();
    this.update();
  }

  /** The suggestion that Tab takes: the selected one, or the first if something is typed of it. */
  target() {
    const typed = this.completion && this.completion.to > this.completion.from;
    return this.selected < 0 && typed ? 0 : this.selected;
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    const n = this.list.children.length;
    if (event.isComposing || this.list.hidden) return;
    if (event.key === "ArrowDown") this.select((this.selected + 1) % n);
    else if (event.key === "ArrowUp") this.select(this.selected > 0 ? this.selected - 1 : n - 1);
    else if (event.key === "Enter" && this.selected >= 0) this.take(this.selected);
    else if (event.key === "Tab" && !event.shiftKey && this.target() >= 0) this.take(this.target());
    else if (event.key === "Escape") this.close();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

export function addCompletion() {
  for (const input of document.querySelectorAll("input[data-filter]")) {
    if (input instanceof HTMLInputElement) new CompletedField(input);
  }
}
