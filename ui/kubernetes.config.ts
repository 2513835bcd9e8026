import { defineConfig } from "@playwright/test"
import tests from "./playwright.config"

/** Against a server on a real Kubernetes, which tests/cluster/test_platform_browser.py starts. */
export default defineConfig({
  ...tests,
  testMatch: "kubernetes.ts",
  globalSetup: undefined,
  outputDir: process.env.MUSTER_SCREENSHOTS ?? "test-results",
  timeout: 1_200_000,
  expect: { timeout: 120_000 },
})
