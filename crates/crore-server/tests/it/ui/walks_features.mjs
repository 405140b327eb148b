// Walks through single features of the Web UI.

import { api, browser, check, end, open, run, url } from "./browser.mjs";

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
}

/** "Since the deploy everything fails": what distinguishes the failed job from the last good one. */
async function diff(page) {
  await page.goto(`${url}/ui/errors`);
  await page.getByRole("link", { name: /mailbox/ }).click();
  const changes = page.locator("table.diff");
  check(await changes.getByRole("cell", { name: "payload.customer" }).isVisible(), "the added field");
  check(await changes.locator("tr.changed ins", { hasText: "\"ada\"" }).isVisible(), "the changed value");
  check(await page.getByRole("rowheader", { name: "Last good run" }).isVisible(), "the good run");
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
  const listed = await api("GET", "marks");
  check(listed.marks.filter((mark) => mark.mark === "queue").length === 2, "the marks of the API");
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
  const { jobs } = await api("POST", "fetch", { queues: ["pay"], n: 2, worker: "w" });
  const payloads = jobs.map((job) => JSON.stringify(job.payload)).sort();
  check(payloads.join() === '{"amount":10,"card":"4111"},{"amount":20,"card":"4111"}', `workers get ${payloads}`);
}

const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, locale: "en-GB" });
await end({ walks: await run([completion, diff, marks, mask], await open(context)) });
