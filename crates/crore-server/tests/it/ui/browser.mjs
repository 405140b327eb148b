// A real browser for the tests of the Web UI.
//
// node SCRIPT HOME URL …: HOME has the npm packages, URL is the address of the server. A script ends with `end`, which
// prints one line of JSON with the faults: errors of the console, dialogs, and requests to other hosts.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";

export const [home, url, ...args] = process.argv.slice(2);
export const require = createRequire(`${home}/node_modules/`);
const { chromium } = require("playwright-core");

/** What must not happen. */
export const faults = [];

export const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });

const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** Prints a request to the test that started the script, and waits for its answer in a line. */
export async function ask(request) {
  console.log(request);
  return await answers.next();
}

/** A page whose errors and foreign requests are faults. */
export async function open(context) {
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  page.on("pageerror", (error) => faults.push(`${page.url()}: ${error.message}`));
  page.on("dialog", (dialog) => { faults.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on("request", (request) => {
    if (!request.url().startsWith(url)) faults.push(`request to ${request.url()}`);
  });
  page.on("console", (message) => {
    // A page for an error has the status of the error, and a server that is away refuses connections.
    const isExpected = /status of (400|401|403|404)|ERR_(CONNECTION|INCOMPLETE|EMPTY|NETWORK)/.test(message.text());
    if (message.type() === "error" && !isExpected) faults.push(`${page.url()}: ${message.text()}`);
  });
  return page;
}

export function check(condition, what) {
  if (!condition) throw new Error(what);
}

/** Calls the HTTP API, with a token if there is one. */
export async function api(method, path, body, token) {
  const authorization = token ? { authorization: `Bearer ${token}` } : {};
  const response = await fetch(`${url}/v1/${path}`, {
    method, headers: { "content-type": "application/json", ...authorization }, body: body && JSON.stringify(body),
  });
  const text = await response.text();
  check(response.ok, `${method} ${path}: ${response.status} ${text}`);
  return text === "" ? null : JSON.parse(text);
}

/** Runs steps by their names on a page, and returns the names of those that were completed. */
export async function run(steps, page) {
  const done = [];
  for (const step of steps) {
    try {
      await step(page);
      done.push(step.name);
    } catch (error) {
      const text = await page.locator("body").innerText().catch(() => "");
      faults.push(`${step.name} at ${page.url()}: ${error.message}\n${text.slice(0, 2000)}`);
      break;
    }
  }
  return done;
}

/** Ends the script with its result. */
export async function end(result) {
  await browser.close();
  console.log(JSON.stringify({ ...result, faults }));
  process.exit(0);
}
