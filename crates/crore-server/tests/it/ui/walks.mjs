// An operator's work in the Web UI. Asks for a `restart` of the server.

import { api, ask, browser, check, end, open, run, url } from "./browser.mjs";

const PAGES = ["", "jobs", "jobs?state=dead", "jobs?q=statee:x", "queues", "queues/mail", "operations", "jobs/1",
  "jobs/1?tab=history", "jobs/1?tab=related", "jobs/1?tab=log", "jobs/1?tab=result", "jobs/1/replay", "jobs/1/delete",
  "jobs/999999", "workers", "schedules", "schedules-new", "handlers", "limits", "limits-new", "errors", "groups", "system",
  "system/tokens", "system/audit", "login"];

async function pages(page) {
  for (const path of PAGES) {
    await page.goto(`${url}/ui/${path}`);
    check((await page.locator("main").innerText()).trim().length > 0, `${path} is blank`);
  }
  await page.goto(url);
  check(page.url() === `${url}/ui/`, "the root leads to the pages");
}

/** A wrong filter is explained at its character, and an unknown thing has a page that leads back. */
async function badInput(page) {
  await page.goto(`${url}/ui/jobs?q=kind:mail+statee:x`);
  const marked = await page.locator("pre.caret").innerText();
  check(marked === `kind:mail statee:x\n${" ".repeat(10)}^`, `the mark: ${marked}`);
  check(/statee/.test(await page.locator(".problem p").first().innerText()), "the unknown field");
  check(await page.locator("input[name=q][value='kind:mail statee:x']").isVisible(), "the filter can be mended");
  for (const path of ["jobs/999999", "jobs/x", "schedules/nosuch", "limits/nosuch", "handlers/nosuch", "workers/nosuch",
    "errors/nosuch", "groups/999999", "operations/999999", "nosuch", "jobs/act?act=nosuch"]) {
    const response = await page.goto(`${url}/ui/${path}`);
    check([400, 404].includes(response.status()), `${path}: ${response.status()}`);
    const text = await page.locator("main").innerText();
    check(text.trim().length > 20 && !/panicked|stack/i.test(text), `${path} says what happened: ${text}`);
    check(await page.getByRole("link", { name: "To the overview" }).isVisible(), `${path} leads on`);
  }
}

/** "Where is the job of customer 42?" */
async function search(page) {
  await page.goto(`${url}/ui/`);
  await page.keyboard.press("/");
  await page.keyboard.type("payload.customer=42 kind:mail");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/ui\/jobs\/\d+$/);
  check(await page.getByText("mailbox `ada` is full").isVisible(), "the error of the job");
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
}

/** Somebody else changes the job while its form is open: the page shows both versions, and keeps what was typed. */
async function changedMeanwhile(page) {
  const { jobs } = await api("GET", "jobs?queue=mail&state=ready&limit=1");
  await page.goto(`${url}/ui/jobs/${jobs[0].id}/edit`);
  await page.locator("input[name=priority]").fill("3");
  await api("PATCH", `jobs/${jobs[0].id}`, { priority: 7 });
  await page.getByRole("button", { name: "Save" }).click();
  const warning = await page.getByRole("alert").innerText();
  check(/\b0\b/.test(warning) && /\b7\b/.test(warning), `both versions: ${warning}`);
  check((await page.locator("input[name=priority]").inputValue()) === "3", "what was typed");
  await page.getByRole("button", { name: "Save" }).click();
  await page.waitForURL(/\/ui\/jobs\/\d+/);
  const { priority } = await api("GET", `jobs/${jobs[0].id}`);
  check(priority === 3, `the priority is ${priority}`);
}

/** A queue is paused and resumed, and says why its jobs wait. */
async function queue(page) {
  await page.goto(`${url}/ui/queues`);
  await page.getByRole("link", { name: "mail", exact: true }).click();
  await page.getByRole("button", { name: "Pause" }).click();
  check(await page.getByText(/Waiting until the queue is resumed: 2\d jobs/).isVisible(), "why jobs wait");
  await page.getByRole("button", { name: "Resume" }).click();
  check(await page.getByText(/Ready and waiting for a worker: 2\d jobs/).isVisible(), "the queue is open");
}

/** Names, payloads, labels, workers and errors are shown as text, on every page that shows them. */
async function hostile(page) {
  const { jobs } = await api("GET", "jobs?q=kind:%3C*");
  const { groups } = await api("GET", "errors");
  const error = groups.find((group) => group.message.includes("<script>"));
  const queue = encodeURIComponent(jobs[0].queue);
  const id = jobs[0].id;
  for (const path of ["", "jobs", `jobs/${id}`, `jobs/${id}?tab=history`, `jobs/${id}/replay`, `jobs/${id}/delete`,
    "queues", `queues/${queue}`, `queues/${queue}/drain`, "errors", `errors/${error.fingerprint}`,
    `jobs/act?act=retry&state=dead&q=error=${error.fingerprint}`]) {
    await page.goto(`${url}/ui/${path}`);
    check((await page.title()) !== "owned", `a script ran on ${path}`);
    const fields = await page.locator("main").locator("input, textarea").evaluateAll((all) => all.map((one) => one.value));
    const text = (await page.locator("main").innerText()) + fields.join(" ");
    check(text.includes("<script>"), `the name is shown as text on ${path}`);
    check((await page.locator("main img, main script").count()) === 0, `markup of a job on ${path}`);
    check((await page.content()).length < 1_500_000, `a bounded page: ${path}`);
  }
  await page.goto(`${url}/ui/jobs/${id}`);
  check(await page.getByText("U+202E").first().isVisible(), "marks of direction are visible");
  check(await page.getByText("␀").first().isVisible(), "a NUL is visible");
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
  await page.waitForFunction(() => !document.querySelector("dialog[open]") && document.activeElement === document.body);
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/ui\/jobs\/\d+$/);
}

/** The server restarts, and the page comes back by itself. */
async function restart(page) {
  await page.goto(`${url}/ui/queues/mail`);
  await page.locator("button.live:not(.lost)").waitFor();
  const restarted = ask("restart");
  await page.locator("button.live.lost").waitFor();
  await restarted;
  await page.locator("button.live:not(.lost)").waitFor();
  // The forms of the page work with the server that is new.
  await page.waitForFunction(async () => {
    const fresh = await (await fetch(location.href)).text();
    return fresh.includes(document.querySelector("input[name=csrf]")?.getAttribute("value") ?? "-");
  });
  await page.getByRole("button", { name: "Pause" }).click();
  check(await page.getByText("The queue is paused.").isVisible(), "the action after a restart");
}

/** Logs in with a token on the page that asks for it. */
async function logIn(page, token) {
  await page.waitForURL(/\/ui\/login/);
  await page.locator("input[name=token]").fill(token);
  await page.getByRole("button", { name: "Log in" }).click();
}

let admin = "";

async function viewer(page) {
  const scopes = ["push", "work", "read", "operate", "define", "admin"];
  admin = (await api("POST", "tokens", { name: "admin", scopes })).token;
  const { token } = await api("POST", "tokens", { name: "viewer", scopes: ["read"] }, admin);
  await page.goto(`${url}/ui/jobs/1`);
  await logIn(page, token);
  await page.waitForURL(/\/ui\/jobs\/1$/);
  check((await page.locator("main form").count()) === 0, "a viewer sees a form");
  const response = await page.request.post(`${url}/ui/queues/mail/resume`, { form: {} });
  check(response.status() === 403, `a viewer got ${response.status()}`);
  await page.goto(`${url}/ui/jobs/act?act=delete&state=dead`);
  check(await page.getByText("403").isVisible(), "a viewer cannot open the page of an action");
  await page.goto(`${url}/ui/jobs`);
  await page.locator("header details.menu").last().click();
  await page.getByRole("button", { name: "Log out" }).click();
  await page.waitForURL(/\/ui\/login/);
}

/** A login ends with its token: an open page asks for another one by itself, and leads back. */
async function revoked(page) {
  const { token } = await api("POST", "tokens", { name: "operator", scopes: ["read", "operate"] }, admin);
  await page.goto(`${url}/ui/queues/mail`);
  await logIn(page, token);
  await page.waitForURL(/\/ui\/queues\/mail$/);
  await page.locator("button.live:not(.lost)").waitFor();
  await api("DELETE", "tokens/operator", undefined, admin);
  await logIn(page, admin);
  await page.waitForURL(/\/ui\/queues\/mail$/);
}

const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, locale: "en-GB" });
const page = await open(context);
await end({ walks: await run([pages, badInput, search, replay, changedMeanwhile, queue, hostile, keys, restart, viewer,
  revoked], page) });
