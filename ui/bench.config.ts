import { defineConfig } from "@playwright/test"
import tests from "./playwright.config"

/** How quick the pages are with a great deal in them: `npm run bench`. Prints numbers, and judges none. */
export default defineConfig({
  ...tests,
  testDir: "bench",
  testMatch: ["graph.ts", "log.ts"],
  timeout: 300_000,
  retries: 0,
})
