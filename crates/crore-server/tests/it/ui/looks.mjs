// How every page looks: screenshots at three widths in both themes and in both languages, findings of axe-core, and pages
// that are wider than the window. The screenshots are in the folder that CRORE_SCREENSHOTS names.

import { mkdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";

import { api, browser, check, end, faults, open, require, url } from "./browser.mjs";

const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const folder = process.env.CRORE_SCREENSHOTS ?? `${tmpdir()}/crore-screenshots`;
mkdirSync(folder, { recursive: true });

const HEIGHT = 900;
const LOOKS = [360, 1280, 2560].flatMap((width) => ["light", "dark"].map((theme) => ({ width, theme, locale: "en-GB" })))
  .concat([{ width: 1280, theme: "light", locale: "ja-JP" }, { width: 360, theme: "dark", locale: "ja-JP" }]);

/** Every page with data. */
async function pages() {
  const id = async (path, list, field = "id") => {
    const found = (await api("GET", path))[list];
    check(found.length > 0, `${path} is empty`);
    return encodeURIComponent(found[0][field]);
  };
  const dead = await id("jobs?state=dead", "jobs");
  const ready = await id("jobs?state=scheduled", "jobs");
  const exported = await id("jobs?q=kind:export+payload.customer=42", "jobs");
  const error = await id("errors", "groups", "fingerprint");
  const group = await id("groups", "groups");
  const operation = await id("operations", "operations");
  const worker = await id("workers", "workers", "name");
  return ["", "?range=24h", "jobs", "jobs?state=dead", "jobs?q=kind:mail+statee:x", "jobs?q=kind:nosuch",
    `jobs/${exported}`, `jobs/${dead}`, `jobs/${dead}?tab=history`, `jobs/${exported}?tab=log`, `jobs/${dead}?tab=result`,
    `jobs/${dead}?tab=related`, `jobs/${dead}/replay`, `jobs/${ready}/edit`, `jobs/${dead}/delete`, "jobs/999999",
    "jobs/act?act=retry&state=dead", "operations", `operations/${operation}`, "queues", "queues/mail", "queues/mail/drain",
    "workers", `workers/${worker}`, "schedules", "schedules/nightly", "schedules/nightly/edit", "schedules-new",
    "handlers", "handlers/greet", "limits", "limits/smtp", "limits/one-import-per-tenant", "limits-new",
    "errors", `errors/${error}`, "groups", `groups/${group}`, "system", "system/tokens", "system/audit"];
}

/** Loads a page, checks it, and takes its picture. */
async function look(page, path, { width, theme, locale }) {
  const where = `${path} at ${width} ${theme} ${locale}`;
  await page.goto(`${url}/ui/${path}`);
  await page.locator("main").waitFor();
  const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  if (overflow > 0) faults.push(`${where}: ${overflow} px too wide`);
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  for (const one of violations.filter(({ impact }) => impact === "serious" || impact === "critical")) {
    faults.push(`${where}: ${one.id}: ${one.nodes[0].html.slice(0, 200)}`);
  }
  const name = path.replace(/\d{4,}|[0-9a-f]{8,}/g, "N").replace(/[^a-z0-9]+/gi, "-") || "overview";
  await page.screenshot({ path: `${folder}/${name}-${width}-${theme}-${locale.slice(0, 2)}.png` });
}

const all = await pages();
for (const shape of LOOKS) {
  const { width, theme, locale } = shape;
  // Scripts of axe-core are not those of the page.
  const context = await browser.newContext({ viewport: { width, height: HEIGHT }, colorScheme: theme, locale, bypassCSP: true });
  const page = await open(context);
  for (const path of all) await look(page, path, shape);
  await context.close();
}
// The page of the login exists only once there is a token.
await api("POST", "tokens", { name: "admin", scopes: ["admin"] });
for (const shape of LOOKS) {
  const { width, theme, locale } = shape;
  const context = await browser.newContext({ viewport: { width, height: HEIGHT }, colorScheme: theme, locale, bypassCSP: true });
  await look(await open(context), "login", shape);
  await context.close();
}
await end({ pages: (all.length + 1) * LOOKS.length, folder });
