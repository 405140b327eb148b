// Relative times, and exact times in the viewer's zone.

const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const precise = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hourCycle: "h23",
});

const data = document.body.dataset;
const units = (data.units ?? "ms s min h d").split(" ");

/**
 * A duration with one unit, as the server writes it.
 * @param {number} millis
 */
function roughly(millis) {
  const seconds = Math.floor(millis / 1000);
  if (seconds < 60) return `${seconds} ${units[1]}`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} ${units[2]}`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} ${units[3]}`;
  return `${Math.floor(seconds / 86400)} ${units[4]}`;
}

/**
 * A duration with two units.
 * @param {number} millis
 */
export function duration(millis) {
  if (millis < 1000) return `${Math.round(millis)} ${units[0]}`;
  if (millis < 60_000) return `${Number((millis / 1000).toPrecision(3))} ${units[1]}`;
  const steps = [[86_400_000, units[4]], [3_600_000, units[3]], [60_000, units[2]], [1000, units[1]]];
  const first = steps.findIndex(([length]) => millis >= Number(length));
  let rest = millis;
  const parts = [];
  for (const [length, unit] of steps.slice(first, first + 2)) {
    const n = Math.floor(rest / Number(length));
    if (n > 0) parts.push(`${n} ${unit}`);
    rest -= n * Number(length);
  }
  return parts.join(" ");
}

/** @param {Date} at */
export function exactTime(at) {
  return exact.format(at);
}

/** Writes all times of the page for the viewer. */
export function showTimes() {
  const now = Date.now();
  for (const time of document.querySelectorAll("time[datetime]")) {
    const at = new Date(time.getAttribute("datetime") ?? "");
    if (Number.isNaN(at.getTime())) continue;
    if (time.hasAttribute("data-relative")) {
      const past = now - at.getTime();
      const words = Math.abs(past) < 1000 ? data.now ?? ""
        : (past > 0 ? data.ago ?? "" : data.in ?? "").replace("{0}", roughly(Math.abs(past)));
      if (time.textContent !== words) time.textContent = words;
      time.setAttribute("title", exact.format(at));
    } else if (time.hasAttribute("data-axis")) {
      const chart = time.closest("figure");
      const span = Number(chart?.dataset.bucket) * Number(chart?.dataset.buckets);
      time.textContent = span > 2 * 86_400_000 ? day.format(at) : clock.format(at);
    } else if (time.hasAttribute("data-clock")) {
      time.textContent = precise.format(at);
      time.setAttribute("title", exact.format(at));
    }
  }
}

/** Relative times change once a second, while the page is visible. */
export function keepTimesCurrent() {
  setInterval(() => { if (!document.hidden) showTimes(); }, 1000);
}
