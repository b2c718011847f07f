// Leads a browser over one page by the steps that come as JSON on stdin, and prints what it saw.
//
//   {"fill": [selector, text]}   {"click": selector}   {"run": code}   {"shot": path, "dark": bool}
//   {"tick": ms}    let that much time of the page pass: its timers are ours
//   {"until": [selector, text]}  wait for a text
//   {"read": name}  tables by id (rows of texts), figures by name, the state, and by path the last
//                   JSON document that the page was given: of one moment, as no timer runs by itself
"use strict";

async function main() {
  const asked = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
  const { chromium } = require(asked.driver);
  const browser = await chromium.launch({
    executablePath: asked.program,
    args: ["--no-sandbox", "--disable-gpu"],
    env: { ...process.env, LD_LIBRARY_PATH: asked.libraries },
  });
  try {
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
    page.setDefaultTimeout(20000);
    const seen = { reads: {}, violations: [], errors: [], dialogs: 0, requests: [] };
    const documents = {};
    page.on("pageerror", (error) => seen.errors.push(String(error)));
    page.on("dialog", (dialog) => { seen.dialogs += 1; dialog.dismiss(); });
    page.on("console", (line) => { if (line.type() === "error") seen.errors.push(line.text()); });
    page.on("request", (request) => seen.requests.push(request.url()));
    page.on("response", async (response) => {
      const path = new URL(response.url()).pathname;
      if (path.startsWith("/api/")) {
        const reading = (documents[path] = response.json().catch(() => null));
        await reading;
      }
    });
    await page.exposeFunction("violated", (what) => seen.violations.push(what));
    await page.addInitScript(() => {
      document.addEventListener("securitypolicyviolation", (event) =>
        window.violated(`${event.effectiveDirective} ${event.blockedURI}`));
    });
    await page.clock.install();
    const response = await page.goto(asked.url);
    seen.policy = response.headers()["content-security-policy"];
    for (const step of asked.steps) await take(page, step, seen, documents);
    console.log(JSON.stringify(seen));
  } finally {
    await browser.close();
  }
}

async function take(page, step, seen, documents) {
  if (step.fill) await page.fill(...step.fill);
  if (step.click) await page.click(step.click);
  if (step.run) await page.evaluate(`(${step.run})()`);
  if (step.tick) await page.clock.runFor(step.tick);
  if (step.until) {
    const [selector, text] = step.until;
    await page.locator(selector).filter({ hasText: text }).first().waitFor();
  }
  await page.waitForLoadState("networkidle");
  if (step.shot) {
    await page.emulateMedia({ colorScheme: step.dark ? "dark" : "light" });
    await page.screenshot({ path: step.shot, fullPage: true });
  }
  if (step.read) seen.reads[step.read] = await read(page, documents);
}

async function read(page, documents) {
  const shown = await page.evaluate(() => ({
    tables: Object.fromEntries([...document.querySelectorAll("table")].map((table) => [table.id,
      [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent))])),
    heads: Object.fromEntries([...document.querySelectorAll("table")].map((table) => [table.id,
      [...table.tHead.rows[0].cells].map((cell) => `${cell.scope} ${cell.textContent}`)])),
    figures: Object.fromEntries([...document.querySelectorAll("dl div")].map(
      (one) => [one.querySelector("dt").textContent, one.querySelector("dd").textContent])),
    state: document.getElementById("state").textContent,
    headings: [...document.querySelectorAll("h1, h2, h3")].map((one) => one.tagName),
    tags: [...document.querySelectorAll("main *")].map((one) => one.tagName),
    pagers: Object.fromEntries([...document.querySelectorAll(".pager")].map((one) => [one.id,
      one.textContent])),
  }));
  const known = await Promise.all(Object.entries(documents).map(async ([path, one]) => [path, await one]));
  return { ...shown, documents: Object.fromEntries(known) };
}

main().catch((error) => { console.error(error); process.exit(1); });
