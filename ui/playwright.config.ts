import { existsSync } from "node:fs"
import { defineConfig } from "@playwright/test"

const chromium = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync)

/** Tests in Debian's Chromium against a real server. */
export default defineConfig({
  testDir: "e2e",
  testMatch: "*.test.ts",
  globalSetup: "./e2e/setup.ts",
  outputDir: "test-results",
  workers: 1,
  retries: 0,
  timeout: 120_000,
  expect: { timeout: 30_000 }, // the first request of a kind loads its part of the server
  reporter: [["list"]],
  use: {
    viewport: { width: 1440, height: 900 },
    locale: "en-GB",
    actionTimeout: 30_000,
    screenshot: "only-on-failure",
    launchOptions: {
      executablePath: process.env.CHROMIUM ?? chromium,
      args: ["--no-sandbox", "--disable-dev-shm-usage"],
    },
  },
})
