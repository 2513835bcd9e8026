/** Responses that arrive late, after events about newer states: what a busy server or a slow network does. */
import type { Page } from "@playwright/test"

const PATHS = "**/{api,apis}/**"

/** Each response to a GET is late by a random time of up to `most` milliseconds. Events are not. */
export async function delayResponses(page: Page, most: number): Promise<void> {
  await holdResponses(page, PATHS, () => sleep(Math.random() * most))
}

/** Holds the responses to GETs of these addresses, which the server has already made, until `wait` is over. */
export async function holdResponses(page: Page, addresses: string | RegExp, wait: () => Promise<void>): Promise<void> {
  await page.route(addresses, async (route) => {
    const request = route.request()
    if (request.method() !== "GET" || request.resourceType() === "eventsource") return route.fallback()
    try {
      const response = await route.fetch()
      await wait()
      await route.fulfill({ response })
    } catch {
      await route.abort().catch(() => {}) // the page has cancelled it, or is closed
    }
  })
}

export function sleep(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds))
}
