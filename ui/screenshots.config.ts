import { defineConfig } from "@playwright/test"
import tests from "./playwright.config"

/** Screenshots of every page: `make screenshots`. */
export default defineConfig({ ...tests, testMatch: "screenshots.ts", timeout: 1_200_000 })
