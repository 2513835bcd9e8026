import { defineConfig } from "@playwright/test"
import tests from "./playwright.config"

/** Speed of pages with a lot of content: `npm run bench`. Prints numbers without a verdict. */
export default defineConfig({
  ...tests,
  testDir: "bench",
  testMatch: ["graph.ts", "log.ts"],
  timeout: 300_000,
  retries: 0,
})
