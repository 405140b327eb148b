// Menus that close by themselves, buttons that copy, and the selection of rows.

/** Closes open menus, except the one that contains `keep`. @param {Node | null} keep */
export function closeMenus(keep = null) {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!keep || !menu.contains(keep)) menu.removeAttribute("open");
  }
}

export function addMenus() {
  document.addEventListener("click", (event) => closeMenus(event.target instanceof Node ? event.target : null));
  for (const back of document.querySelectorAll("a[data-back]")) {
    back.addEventListener("click", (event) => {
      const from = document.referrer && new URL(document.referrer);
      if (from && from.origin === location.origin && from.pathname === location.pathname) {
        event.preventDefault();
        history.back();
      }
    });
  }
}

export function addCopyButtons() {
  for (const button of document.querySelectorAll("button[data-copy][hidden]")) {
    if (!(button instanceof HTMLButtonElement) || !navigator.clipboard) continue;
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(button.dataset.copy ?? "");
      const text = button.textContent;
      button.textContent = document.body.dataset.copied ?? "";
      setTimeout(() => { button.textContent = text; }, 1500);
    });
  }
}

/** Shows how many rows are selected, on every change. */
export function showSelection() {
  const form = document.querySelector("form[data-rows-form]");
  const hint = form?.querySelector("[data-selected]");
  if (!form || !(hint instanceof HTMLElement)) return;
  const boxes = [...form.querySelectorAll("input[name=id]")].filter((box) => box instanceof HTMLInputElement);
  const n = boxes.filter((box) => box.checked).length;
  hint.textContent = n === 0 ? hint.dataset.none ?? "" : (hint.dataset.selected ?? "").replace("{0}", String(n));
  const all = form.querySelector("input[data-select-all]");
  if (all instanceof HTMLInputElement) {
    all.checked = n > 0 && n === boxes.length;
    all.indeterminate = n > 0 && n < boxes.length;
  }
}

export function addSelection() {
  const form = document.querySelector("form[data-rows-form]");
  if (!form) return;
  const all = form.querySelector("input[data-select-all]");
  if (all instanceof HTMLInputElement) {
    all.hidden = false;
    all.addEventListener("change", () => {
      for (const box of form.querySelectorAll("input[name=id]")) {
        if (box instanceof HTMLInputElement) box.checked = all.checked;
      }
    });
  }
  form.addEventListener("change", showSelection);
  showSelection();
}
