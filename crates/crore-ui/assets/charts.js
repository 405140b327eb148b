// The values of all charts of the page at the time under the pointer.

import { duration, exactTime } from "./times.js";

const numbers = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

/** @param {string | undefined} unit @param {string} value */
function shown(unit, value) {
  if (value === "") return "–";
  return unit === "ms" ? duration(Number(value)) : numbers.format(Number(value));
}

/** Shows the values of a bucket in all charts, or the last ones. @param {number | null} bucket */
function show(bucket) {
  for (const chart of document.querySelectorAll("figure.chart")) {
    if (!(chart instanceof HTMLElement)) continue;
    const { from, bucket: length, buckets, unit } = chart.dataset;
    const values = chart.querySelectorAll(".legend .value");
    chart.querySelectorAll("path[data-values]").forEach((path, i) => {
      const all = (path.getAttribute("data-values") ?? "").split(",");
      const value = bucket === null ? all.findLast((one) => one !== "") ?? "" : all[bucket] ?? "";
      values[i].textContent = shown(unit, value);
    });
    const x = bucket === null ? -9 : bucket / Math.max(Number(buckets) - 1, 1) * 600;
    const cursor = chart.querySelector("line.cursor");
    cursor?.setAttribute("x1", String(x));
    cursor?.setAttribute("x2", String(x));
    const at = chart.querySelector(".at");
    if (at) at.textContent = bucket === null ? "" : exactTime(new Date(Number(from) + bucket * Number(length)));
  }
}

export function addCharts() {
  for (const plot of document.querySelectorAll("figure.chart svg:not([data-ready])")) {
    plot.setAttribute("data-ready", "");
    const buckets = Number(plot.closest("figure")?.dataset.buckets);
    plot.addEventListener("pointermove", (event) => {
      if (!(event instanceof PointerEvent)) return;
      const box = plot.getBoundingClientRect();
      const part = Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
      show(Math.round(part * (buckets - 1)));
    });
    plot.addEventListener("pointerleave", () => show(null));
  }
}
