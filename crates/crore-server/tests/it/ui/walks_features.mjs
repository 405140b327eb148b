// Walks through single features of the Web UI, in a real browser.
//
// node walks_features.mjs HOME URL: HOME has the npm packages. Prints one line of JSON: the walks that were completed,
// and the faults.

import { createRequire } from "node:module";

const [home, url] = process.argv.slice(2);
const require = createRequire(`${home}/node_modules/`);
const { chromium } = require("playwright-core");

const faults = [];
const walks = [];

function check(condition, what) {
  if (!condition) throw new Error(what);
}

/** Waits until a condition of the page holds. */
async function eventually(page, condition, what) {
  for (let n = 0; n < 100; n++) {
    if (await condition()) return;
    await page.waitForTimeout(50);
  }
  throw new Error(what);
}

/** A filter is written with the arrows, Tab and Enter, and Esc closes the list only. */
async function completion(page) {
  await page.goto(`${url}/ui/jobs`);
  const field = page.getByRole("combobox", { name: "Filter" });
  const option = (name) => page.getByRole("option", { name });
  await field.focus();
  await page.keyboard.type("sta");
  await option(/^state:/).waitFor();
  check((await field.getAttribute("aria-expanded")) === "true", "the list is announced");
  await page.keyboard.press("Tab");
  check((await field.inputValue()) === "state:", "Tab takes the first suggestion");
  await option("dead").waitFor();
  await page.keyboard.type("de");
  await eventually(page, async () => (await page.getByRole("option").count()) === 1, "one state begins with `de`");
  await page.keyboard.press("ArrowDown");
  const active = await field.getAttribute("aria-activedescendant");
  check((await page.locator(`#${active}`).innerText()).startsWith("dead"), "the selected suggestion is announced");
  await page.keyboard.press("Enter");
  check((await field.inputValue()) === "state:dead ", "Enter takes the selected suggestion");
  await page.keyboard.type("queue:");
  await option(/^imports/).waitFor();
  await option(/^mail/).click();
  check((await field.inputValue()) === "state:dead queue:mail ", "a click takes a suggestion");
  await page.keyboard.type("payload.cus");
  await option("payload.customer=").waitFor();
  await page.keyboard.press("Escape");
  check(!(await page.getByRole("listbox").isVisible()), "Esc closes the list");
  check(await field.evaluate((input) => document.activeElement === input), "Esc stays in the field");
  await page.keyboard.type("tomer=42");
  await page.keyboard.press("Enter");
  await page.waitForURL(/q=state/);
  check((await page.locator("td.main a").count()) === 1, "the filter finds the job");
  walks.push("completion");
}

/** "Since the deploy everything fails": what distinguishes the failed job from the last good one. */
async function diff(page) {
  await page.goto(`${url}/ui/errors`);
  await page.getByRole("link", { name: /mailbox/ }).click();
  const changes = page.locator("table.diff");
  check(await changes.getByRole("cell", { name: "payload.customer" }).isVisible(), "the added field");
  check(await changes.locator("tr.changed ins", { hasText: "\"ada\"" }).isVisible(), "the changed value");
  check(await page.getByRole("rowheader", { name: "Last good run" }).isVisible(), "the good run");
  walks.push("diff");
}

/** A change of a queue is a mark on the charts of its page, in words below them, and in the API. */
async function marks(page) {
  await page.goto(`${url}/ui/queues/mail`);
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByRole("button", { name: "Resume" }).click();
  check((await page.locator("svg .m-start title").count()) > 0, "the start of the server");
  check((await page.locator("svg .m-change title", { hasText: "Queue paused: mail" }).count()) === 4, "in every chart");
  await page.locator("details.marks summary").click();
  check(await page.locator("details.marks li", { hasText: "Queue resumed: mail" }).isVisible(), "in words");
  const listed = await (await fetch(`${url}/v1/marks`)).json();
  check(listed.marks.filter((mark) => mark.mark === "queue").length === 2, "the marks of the API");
  walks.push("marks");
}

/** A masked field is on no page, and a replay keeps its value. */
async function mask(page) {
  await page.goto(`${url}/ui/jobs?q=kind:pay&go=1`);
  await page.waitForURL(/\/ui\/jobs\/\d+$/);
  check(await page.locator(".tree", { hasText: "***" }).isVisible(), "the mask");
  await page.getByRole("link", { name: "Edit and replay" }).click();
  const payload = page.locator("textarea[name=payload]");
  check(!(await page.content()).includes("4111"), "the value is in the form");
  await payload.fill((await payload.inputValue()).replace("10", "20"));
  await page.getByRole("button", { name: "Replay" }).click();
  await page.waitForURL(/\/ui\/jobs\/\d+(\?|$)/);
  check(!(await page.content()).includes("4111"), "the value is on the page of the replay");
  const body = JSON.stringify({ queues: ["pay"], n: 2, worker: "w" });
  const headers = { "content-type": "application/json" };
  const { jobs } = await (await fetch(`${url}/v1/fetch`, { method: "POST", headers, body })).json();
  const payloads = jobs.map((job) => JSON.stringify(job.payload)).sort();
  check(payloads.join() === '{"amount":10,"card":"4111"},{"amount":20,"card":"4111"}', `workers get ${payloads}`);
  walks.push("mask");
}

const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
try {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, locale: "en-GB" });
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  page.on("pageerror", (error) => faults.push(`${page.url()}: ${error.message}`));
  page.on("console", (message) => {
    if (message.type() === "error") faults.push(`${page.url()}: ${message.text()}`);
  });
  for (const walk of [completion, diff, marks, mask]) {
    try {
      await walk(page);
    } catch (error) {
      const text = await page.locator("body").innerText().catch(() => "");
      throw new Error(`${walk.name} at ${page.url()}: ${error.message}\n${text.slice(0, 2000)}`);
    }
  }
} catch (error) {
  faults.push(error.message);
}
await browser.close();
console.log(JSON.stringify({ walks, faults }));
