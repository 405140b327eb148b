// The walks of an operator through the Web UI, in a real browser.
//
// node walks.mjs HOME URL MODE: HOME has the npm packages. Prints `restart` to have the server restarted, and at the end
// one line of JSON: the walks that were completed, and the faults.

import { createRequire } from "node:module";
import { readFileSync, mkdirSync } from "node:fs";
import { createInterface } from "node:readline";

const [home, url, mode] = process.argv.slice(2);
const require = createRequire(`${home}/node_modules/`);
const { chromium } = require("playwright-core");

const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const faults = [];
const walks = [];

const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });

/** A page whose errors and foreign requests are faults. */
async function open(context) {
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  page.on("pageerror", (error) => faults.push(`${page.url()}: ${error.message}`));
  page.on("dialog", (dialog) => { faults.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on("request", (request) => {
    if (!request.url().startsWith(url)) faults.push(`request to ${request.url()}`);
  });
  page.on("console", (message) => {
    // A page for an error has the status of the error, and a server that is away refuses connections.
    const isExpected = /status of (401|403|404)|ERR_(CONNECTION|INCOMPLETE|EMPTY|NETWORK)/.test(message.text());
    if (message.type() === "error" && !isExpected) faults.push(`${page.url()}: ${message.text()}`);
  });
  return page;
}

function check(condition, what) {
  if (!condition) throw new Error(what);
}

const PAGES = ["", "jobs", "jobs?state=dead", "jobs?q=statee:x", "queues", "queues/mail", "operations", "jobs/1",
  "jobs/1?tab=history", "jobs/1?tab=related", "jobs/1?tab=log", "jobs/1?tab=result", "jobs/1/replay", "jobs/1/delete",
  "jobs/999999", "login"];

async function pages(page) {
  for (const path of PAGES) {
    await page.goto(`${url}/ui/${path}`);
    check((await page.locator("main").innerText()).trim().length > 0, `${path} is blank`);
  }
  await page.goto(url);
  check(page.url() === `${url}/ui/`, "the root leads to the pages");
  walks.push("pages");
}

/** "Where is the job of customer 42?" */
async function search(page) {
  await page.goto(`${url}/ui/`);
  await page.keyboard.press("/");
  await page.keyboard.type("payload.customer=42 kind:mail");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/ui\/jobs\/\d+$/);
  check(await page.getByText("mailbox `ada` is full").isVisible(), "the error of the job");
  walks.push("search");
}

async function replay(page) {
  await page.getByRole("link", { name: "Edit and replay" }).click();
  const payload = page.locator("textarea[name=payload]");
  await payload.fill((await payload.inputValue()).replace("ada", "eve"));
  await page.getByRole("button", { name: "Replay" }).click();
  await page.waitForURL(/\/ui\/jobs\/\d+/);
  check(await page.locator(".tree").getByText("\"eve\"").isVisible(), "the edited payload");
  await page.getByRole("link", { name: "Related" }).click();
  check(await page.getByText("Replay of").isVisible(), "the link to the original");
  walks.push("replay");
}

/** "Since the deploy everything fails": from the overview to the retry of all in four clicks. */
async function bulk(page) {
  await page.goto(`${url}/ui/`);
  await page.getByRole("link", { name: "disk quota exceeded" }).click();
  await page.getByRole("link", { name: "Retry dead jobs" }).click();
  check(await page.getByRole("heading", { name: /^Retry 5,000 jobs/ }).isVisible(), "the number of jobs");
  await page.locator("input[name=typed]").fill("5000");
  await page.getByRole("button", { name: /^Retry/ }).click();
  await page.waitForURL(/\/ui\/operations\/\d+/);
  await page.locator("main .s-done").waitFor();
  check(await page.locator("dd", { hasText: /^5,000$/ }).first().isVisible(), "5,000 jobs were changed");
  walks.push("bulk");
}

/** "Mail is late." */
async function queue(page) {
  await page.goto(`${url}/ui/queues`);
  await page.getByRole("link", { name: "mail", exact: true }).click();
  await page.getByRole("button", { name: "Pause" }).click();
  check(await page.getByText(/Waiting until the queue is resumed: 2\d jobs/).isVisible(), "why jobs wait");
  await page.getByRole("button", { name: "Resume" }).click();
  check(await page.getByText(/Ready and waiting for a worker: 2\d jobs/).isVisible(), "the queue is open");
  walks.push("queue");
}

async function hostile(page) {
  await page.goto(`${url}/ui/jobs?q=kind:%3C*`);
  await page.locator("td.main a").first().click();
  await page.waitForURL(/\/ui\/jobs\/\d+/);
  check((await page.title()) !== "owned", "a script of a job ran");
  check((await page.locator("h1").innerText()).includes("<script>"), "the name is shown as text");
  check(await page.getByText("U+202E").first().isVisible(), "marks of direction are visible");
  check((await page.locator("main img").count()) === 0, "an image of a job was loaded");
  walks.push("hostile");
}

async function keys(page) {
  await page.goto(`${url}/ui/`);
  await page.keyboard.press("g");
  await page.keyboard.press("j");
  await page.waitForURL(/\/ui\/jobs$/);
  await page.keyboard.press("j");
  await page.keyboard.press("x");
  check(await page.getByText("1 selected").isVisible(), "a selected row");
  await page.keyboard.press("?");
  check(await page.locator("dialog[open]").isVisible(), "the list of keys");
  await page.keyboard.press("Escape");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/ui\/jobs\/\d+$/);
  walks.push("keys");
}

/** The server restarts, and the page comes back by itself. */
async function restart(page) {
  await page.goto(`${url}/ui/queues/mail`);
  await page.locator("button.live:not(.lost)").waitFor();
  console.log("restart");
  await page.locator("button.live.lost").waitFor();
  await answers.next();
  await page.locator("button.live:not(.lost)").waitFor();
  // The forms of the page work with the server that is new.
  await page.waitForFunction(async () => {
    const fresh = await (await fetch(location.href)).text();
    return fresh.includes(document.querySelector("input[name=csrf]")?.getAttribute("value") ?? "-");
  });
  await page.getByRole("button", { name: "Pause" }).click();
  check(await page.getByText("The queue is paused.").isVisible(), "the action after a restart");
  walks.push("restart");
}

async function viewer(page) {
  const create = async (name, preset) => {
    const response = await fetch(`${url}/v1/tokens`, {
      method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ name, ...preset }),
    });
    return (await response.json()).token;
  };
  const token = await create("viewer", { scopes: ["read"] });
  await page.goto(`${url}/ui/jobs/1`);
  await page.waitForURL(/\/ui\/login/);
  await page.locator("input[name=token]").fill(token);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.waitForURL(/\/ui\/jobs\/1$/);
  check((await page.locator("main form").count()) === 0, "a viewer sees a form");
  const response = await page.request.post(`${url}/ui/queues/mail/resume`, { form: {} });
  check(response.status() === 403, `a viewer got ${response.status()}`);
  await page.locator("header details.menu").last().click();
  await page.getByRole("button", { name: "Log out" }).click();
  await page.waitForURL(/\/ui\/login/);
  walks.push("viewer");
}

/** Every page at three widths in both themes: screenshots, and no serious finding of axe-core. */
async function looks() {
  const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
  const shots = process.env.CRORE_SCREENSHOTS;
  if (shots) mkdirSync(shots, { recursive: true });
  for (const width of [360, 1440, 2560]) {
    for (const colorScheme of ["light", "dark"]) {
      const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme, bypassCSP: true });
      const page = await open(context);
      for (const path of PAGES) {
        await page.goto(`${url}/ui/${path}`);
        const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        if (overflow > 0) faults.push(`${path} at ${width} is ${overflow} px too wide`);
        await page.evaluate(axe);
        const { violations } = await page.evaluate(() => globalThis.axe.run());
        for (const one of violations.filter(({ impact }) => impact === "serious" || impact === "critical")) {
          faults.push(`${path} at ${width} ${colorScheme}: ${one.id}: ${one.nodes[0].html.slice(0, 200)}`);
        }
        const name = path.replace(/[^a-z0-9]+/gi, "-") || "overview";
        if (shots) await page.screenshot({ path: `${shots}/${name}-${width}-${colorScheme}.png` });
      }
      await context.close();
    }
  }
}

try {
  if (mode === "looks") {
    await looks();
  } else {
    const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, locale: "en-GB" });
    const page = await open(context);
    for (const walk of [pages, search, replay, bulk, queue, hostile, keys, restart, viewer]) {
      try {
        await walk(page);
      } catch (error) {
        const text = await page.locator("body").innerText().catch(() => "");
        throw new Error(`${walk.name} at ${page.url()}: ${error.message}\n${text.slice(0, 2000)}`);
      }
    }
  }
} catch (error) {
  faults.push(error.message);
}
await browser.close();
console.log(JSON.stringify({ walks, faults }));
process.exit(0);
