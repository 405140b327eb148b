// Additions to pages that work without them: current times, menus, keys, charts, completion and live updates.

import { showTimes, keepTimesCurrent } from "./times.js";
import { addMenus, addCopyButtons, addSelection } from "./menus.js";
import { addKeys } from "./keys.js";
import { addCharts } from "./charts.js";
import { addCompletion } from "./completion.js";
import { addLiveUpdates } from "./live.js";
import { addViews } from "./views.js";

/** Prepares parts of a page, also those that were replaced. */
function refresh() {
  showTimes();
  addCharts();
  addCopyButtons();
}

refresh();
keepTimesCurrent();
addMenus();
addSelection();
addKeys();
addCompletion();
addViews();
addLiveUpdates(refresh);

// On a narrow screen the navigation scrolls.
document.querySelector(".rail a[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

// A reload does not repeat the message about an action.
const here = new URL(location.href);
if (here.searchParams.has("done")) {
  here.searchParams.delete("done");
  history.replaceState(null, "", here);
}
