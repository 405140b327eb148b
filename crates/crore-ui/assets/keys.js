// Keys: / search, j k move, Enter open, x select, r retry, g and a letter go, ? help, Esc close.

import { closeMenus, showSelection } from "./menus.js";

/** The row that the keys act on. */
let current = -1;
let isGoing = false;

/** @returns {HTMLTableRowElement[]} */
function rows() {
  return [...document.querySelectorAll("main table.list tbody tr")].filter((row) => row instanceof HTMLTableRowElement);
}

/** @param {number} step */
function move(step) {
  const all = rows();
  if (all.length === 0) return;
  current = Math.min(Math.max(current + step, 0), all.length - 1);
  all.forEach((row, i) => row.classList.toggle("current", i === current));
  all[current].scrollIntoView({ block: "nearest" });
}

/** @param {string} key @param {KeyboardEvent} event */
function press(key, event) {
  const row = rows()[current];
  const dialog = document.querySelector("dialog#keys");
  switch (key) {
    case "/": {
      const search = document.querySelector("header .search input[name=q]");
      if (search instanceof HTMLInputElement) { event.preventDefault(); search.focus(); search.select(); }
      break;
    }
    case "j": move(1); break;
    case "k": move(-1); break;
    case "Enter": {
      const link = row?.querySelector("a[href]");
      if (link instanceof HTMLAnchorElement && document.activeElement === document.body) link.click();
      break;
    }
    case "x": {
      const box = row?.querySelector("input[type=checkbox]");
      if (box instanceof HTMLInputElement) { box.checked = !box.checked; showSelection(); }
      break;
    }
    case "r": {
      const button = document.querySelector("[data-key-button=r]");
      const hasTarget = !document.querySelector("form[data-rows-form]") || document.querySelector("input[name=id]:checked");
      if (button instanceof HTMLElement && hasTarget) button.click();
      break;
    }
    case "?": if (dialog instanceof HTMLDialogElement) dialog.showModal(); break;
    case "Escape": closeMenus(); break;
    case "g": isGoing = true; setTimeout(() => { isGoing = false; }, 1500); break;
  }
}

export function addKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.target;
    const isTyping = target instanceof HTMLElement && target.matches("input:not([type=checkbox]), textarea, select");
    if (isTyping) {
      if (event.key === "Escape") target.blur();
      return;
    }
    if (isGoing) {
      isGoing = false;
      const link = document.querySelector(`a[data-go="${CSS.escape(event.key)}"]`);
      if (link instanceof HTMLAnchorElement) link.click();
      return;
    }
    press(event.key, event);
  });
  const help = document.querySelector("[data-open-keys]");
  const dialog = document.querySelector("dialog#keys");
  if (help instanceof HTMLButtonElement && dialog instanceof HTMLDialogElement) {
    help.hidden = false;
    help.addEventListener("click", () => { closeMenus(); dialog.showModal(); });
    dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  }
}
