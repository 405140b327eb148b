// Three questions of an operator, each answered with few clicks. The browser counts pointer and key presses.

import { api, browser, check, end, open, run, url } from "./browser.mjs";

const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, locale: "en-GB" });
const pressed = { clicks: 0, keys: "" };
await context.exposeBinding("countPress", (_, kind, key) => {
  if (kind === "pointer") pressed.clicks += 1; else pressed.keys += key.length === 1 ? key : `[${key}]`;
});
await context.addInitScript(() => {
  // Pressing Enter in a form clicks its button, but moves no pointer.
  addEventListener("pointerdown", (event) => { if (event.isTrusted) globalThis.countPress("pointer", ""); }, true);
  addEventListener("keydown", (event) => { if (event.isTrusted) globalThis.countPress("key", event.key); }, true);
});
const page = await open(context);

/** Opens the overview; presses count from here. */
async function begin() {
  await page.goto(`${url}/ui/`);
  pressed.clicks = 0;
  pressed.keys = "";
}

function checkPresses(clicks, keys) {
  check(pressed.clicks === clicks, `${pressed.clicks} clicks instead of ${clicks}`);
  check(pressed.keys === keys, `the keys ${pressed.keys} instead of ${keys}`);
}

/** "Mail is late": the queue with the longest wait, why it waits, and what changes that. */
async function mailIsLate() {
  await begin();
  const waits = page.locator("[data-live=queues] tbody tr");
  check((await waits.count()) >= 2, "the waits of all queues");
  const latest = waits.first().getByRole("link");
  check((await latest.innerText()) === "mail", "the queue with the longest wait is the first");
  await latest.click();
  await page.waitForURL(/\/ui\/queues\/mail$/);
  // While a job is being delivered, no limit holds the others back; the next update of the page shows it again.
  const why = /\d+ jobs wait for limit `smtp` \(5\/1s\); at this rate the last starts in \d+/;
  await page.locator("section.why", { hasText: why }).waitFor();
  check((await page.locator("[data-live=workers] tbody tr").count()) === 1, "who works on it");
  check(await page.getByRole("button", { name: "Pause" }).isVisible(), "the button that pauses the queue");
  await page.locator("section.why").getByRole("link", { name: "smtp" }).click();
  await page.waitForURL(/\/ui\/limits\/smtp$/);
  check((await page.locator("textarea[name=limit]").inputValue()).includes("rate 5/1s"), "the definition");
  check(await page.getByRole("button", { name: "Save" }).isVisible(), "the button that changes the limit");
  checkPresses(2, "");
}

/** "Since the deploy everything fails": from the overview to the retry of all jobs of one error. */
async function everythingFails() {
  await begin();
  await page.getByRole("link", { name: "Errors", exact: true }).first().click();
  await page.waitForURL(/\/ui\/errors$/);
  const group = page.locator("table.list tbody tr").first();
  check((await group.locator("svg.spark").count()) === 1, "errors over time");
  check((await group.locator("time").count()) === 2, "first and last seen");
  await group.getByRole("link", { name: "disk quota exceeded" }).click();
  await page.waitForURL(/\/ui\/errors\/[0-9a-f]+$/);
  check(await page.locator(".tree", { hasText: "rows" }).first().isVisible(), "an example with its payload");
  check(await page.getByText("5,000", { exact: true }).first().isVisible(), "the number of errors");
  await page.getByRole("link", { name: "Retry dead jobs" }).click();
  check(await page.getByRole("heading", { name: /^Retry 5,000 jobs/ }).isVisible(), "the preview");
  // Above 100 jobs their number is typed. The field has the focus.
  await page.keyboard.type("5000");
  await page.getByRole("button", { name: /^Retry/ }).click();
  await page.waitForURL(/\/ui\/operations\/\d+/);
  await page.locator("main .s-done").waitFor();
  check(await page.locator("dd", { hasText: /^5,000$/ }).first().isVisible(), "5,000 jobs were changed");
  checkPresses(4, "5000");
  const { counts } = await api("GET", "queues/imports");
  check(!counts.dead && counts.ready === 5000, `jobs after the retry: ${JSON.stringify(counts)}`);
}

/** "Where is customer 42's export?": one search opens the job, with its timeline and its log. */
async function whereIsTheExport() {
  const filter = "payload.customer=42 kind:export";
  await begin();
  await page.keyboard.press("/");
  await page.keyboard.type(filter);
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/ui\/jobs\/\d+$/);
  check((await page.locator("h1").innerText()).startsWith("export"), "the job");
  check(await page.locator("figure.timeline svg").isVisible(), "its timeline");
  check(await page.locator(".log").getByText("page 3 of 9 written").isVisible(), "its log");
  check(await page.locator("progress[value='33']").isVisible(), "its progress");
  checkPresses(0, `/${filter}[Enter]`);
}

await end({ walks: await run([mailIsLate, everythingFails, whereIsTheExport], page) });
