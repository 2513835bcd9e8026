import { defineConfig } from "@playwright/test"
import tests from "./playwright.config"

/** Every page, to be looked at: `make screenshots`. */
export default defineConfig({ ...tests, testMatch: "screenshots.ts", timeout: 600_000 })
