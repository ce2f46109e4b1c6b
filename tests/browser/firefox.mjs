// Drives Firefox over WebDriver BiDi. node firefox.mjs PUPPETEER_FOLDER FIREFOX PAGES_JSON -> [{url, ready, before, after, faults}]
// Each page must become ready and answer the first example that is a link.
import { createRequire } from "node:module";

const [, , folder, executablePath, pages] = process.argv;
const puppeteer = createRequire(`${folder}/`)("puppeteer-core");
const browser = await puppeteer.launch({ browser: "firefox", executablePath, headless: true });
const results = [];
for (const url of JSON.parse(pages)) {
  const page = await browser.newPage(), faults = [];
  page.on("pageerror", (error) => faults.push(String(error.message ?? error)));
  page.on("console", (message) => { if (message.type() === "error") faults.push(message.text()); });
  const look = () => page.evaluate(() => ({ state: document.documentElement.dataset.state, status: document.querySelector("#status").textContent, title: document.title }));
  const until = async (reached) => {
    for (let tries = 0; tries < 900; tries += 1) {
      const seen = await look();
      if (reached(seen)) return seen;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    return look();
  };
  await page.goto(url, { waitUntil: "domcontentloaded" });
  const ready = await until(({ state }) => state === "ready" || state === "failed");
  await page.evaluate(() => document.querySelector('.presets a[href^="?"]:not([href="?"])').click());
  const after = await until(({ title }) => title !== ready.title);
  results.push({ url, ready: ready.status, state: ready.state, before: ready.title, after: after.title, faults });
  await page.close();
}
await browser.close();
console.log(JSON.stringify(results));
