// Saved views: filters of the list of jobs under names, kept by this browser.

const KEY = "crore-views";

/** @returns {Record<string, string>} */
function saved() {
  try {
    const views = JSON.parse(localStorage.getItem(KEY) ?? "{}");
    return views !== null && typeof views === "object" ? views : {};
  } catch {
    return {};
  }
}

/** @param {HTMLElement} list @param {string} page @param {string} remove */
function show(list, page, remove) {
  const views = saved();
  const names = Object.keys(views).sort();
  list.replaceChildren(...names.map((name) => {
    const row = document.createElement("div");
    row.className = "view";
    const link = document.createElement("a");
    link.href = `${page}?${new URLSearchParams(views[name])}`;
    link.textContent = name;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "×";
    button.setAttribute("aria-label", `${remove} ${name}`);
    button.addEventListener("click", () => {
      delete views[name];
      localStorage.setItem(KEY, JSON.stringify(views));
      show(list, page, remove);
    });
    row.append(link, button);
    return row;
  }));
  list.hidden = names.length === 0;
}

export function addViews() {
  const menu = document.querySelector("details[data-views]");
  const list = menu?.querySelector("[data-view-list]");
  const form = document.querySelector("form[data-view-form]");
  if (!(menu instanceof HTMLElement) || !(list instanceof HTMLElement) || !(form instanceof HTMLFormElement)) return;
  const { views: page = "", remove = "" } = menu.dataset;
  menu.hidden = false;
  show(list, page, remove);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const name = String(new FormData(form).get("name") ?? "").trim();
    if (name === "") return;
    const here = new URLSearchParams(location.search);
    const view = new URLSearchParams();
    for (const key of ["state", "q"]) if (here.get(key)) view.set(key, here.get(key) ?? "");
    localStorage.setItem(KEY, JSON.stringify({ ...saved(), [name]: view.toString() }));
    form.reset();
    show(list, page, remove);
  });
}
