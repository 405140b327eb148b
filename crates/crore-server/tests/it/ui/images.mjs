// The images of the documentation, taken from a server with sample jobs.

import { fileURLToPath } from "node:url";

import { api, browser, end, open, url } from "./browser.mjs";

const folder = fileURLToPath(new URL("../../../../../docs/images", import.meta.url));

/** @param {{ name: string, path: string, theme?: string, width?: number, height?: number }} image */
async function take({ name, path, theme = "light", width = 1280, height = 800 }) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: theme, locale: "en-GB" });
  const page = await open(context);
  await page.goto(`${url}/ui/${path}`);
  await page.locator("button.live:not(.lost)").waitFor({ state: "attached" });
  await page.screenshot({ path: `${folder}/${name}.png` });
  await context.close();
}

const { groups } = await api("GET", "errors");
const { jobs } = await api("GET", "jobs?q=kind:export+payload.customer=42");
const narrow = { width: 360, height: 720 };
for (const image of [
  { name: "overview", path: "?range=5m" },
  { name: "queue", path: "queues/mail?range=5m" },
  { name: "job", path: `jobs/${jobs[0].id}` },
  { name: "errors", path: `errors/${groups[0].fingerprint}`, theme: "dark" },
  { name: "jobs", path: "jobs", theme: "dark" },
  { name: "narrow", path: "jobs", ...narrow },
]) await take(image);
await end({});
