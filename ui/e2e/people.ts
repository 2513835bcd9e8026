/** The users in tests. */
import AxeBuilder from "@axe-core/playwright"
import { test as base, expect, type Page } from "@playwright/test"
import { delayResponses } from "./delays"
import { client } from "./server"
import { PASSWORD } from "./setup"

export const api = () => client(process.env.MUSTER_URL as string, process.env.MUSTER_TOKEN as string)

/** `MUSTER_DELAY=1500` runs any test with responses that are late by up to so many milliseconds. */
const DELAY = Number(process.env.MUSTER_DELAY ?? 0)

/** `page` is signed in as ann. An error in the browser's console fails the test, and so does an address of nothing. */
export const test = base.extend<{ page: Page }>({
  page: async ({ page }, use) => {
    const complaints = listen(page)
    await signIn(page, "ann")
    await use(page)
    expect(complaints).toEqual([])
  },
})

export function listen(page: Page): string[] {
  const complaints: string[] = []
  page.on("pageerror", (error) => complaints.push(String(error)))
  page.on("console", (message) => {
    const ours = !/status of 4\d\d|ERR_NETWORK_CHANGED/.test(message.text())
    if (message.type() === "error" && ours) complaints.push(message.text())
  })
  page.on("framenavigated", (frame) => complaints.push(...withoutValue(frame.url())))
  page.on("request", (request) => complaints.push(...withoutValue(request.url())))
  return complaints
}

/** The address, if a part of it was made of a value that was not there yet. */
function withoutValue(address: string): string[] {
  if (!address.startsWith("http")) return []
  const { pathname } = new URL(address)
  return /\/\/|\/(undefined|null|NaN)(\/|$)/.test(pathname) ? [`an address without a value: ${address}`] : []
}

/** Signs in by the API; the page gets the session's cookies. */
export async function signIn(page: Page, name: string, origin = process.env.MUSTER_URL as string): Promise<void> {
  if (DELAY) await delayResponses(page, DELAY)
  const response = await page.request.post(`${origin}/api/v1/session`, { data: { name, password: PASSWORD } })
  expect(response.ok()).toBe(true)
}

/** Creates something by the API as the user of the page. */
export async function posted(page: Page, path: string, data: unknown): Promise<Record<string, string>> {
  const csrf = (await page.context().cookies()).find((cookie) => cookie.name === "muster_csrf")?.value as string
  const response = await page.request.post(`${process.env.MUSTER_URL}/api/v1/${path}`, {
    data,
    headers: { "X-CSRF-Token": csrf },
  })
  expect(response.ok(), await response.text()).toBe(true)
  return (await response.json()) as Record<string, string>
}

/** The serious findings of axe. */
export async function accessProblems(page: Page): Promise<string[]> {
  const { violations } = await new AxeBuilder({ page }).analyze()
  const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical")
  return serious.map(
    ({ id, nodes }) => `${id}: ${nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`).join("\n  ")}`,
  )
}

/** Fails on serious findings of axe. */
export async function expectAccessible(page: Page): Promise<void> {
  expect(await accessProblems(page)).toEqual([])
}

let made = 0

/** A name that is not in use. */
export function fresh(stem: string): string {
  made += 1
  return `${stem} ${Date.now().toString(36)}${made}`
}

export const STEPS = {
  format: 1,
  parameters: [{ name: "greeting", default: "hello", description: "what to say" }],
  nodes: [
    {
      name: "prepare",
      image: "python:3.11",
      command: "echo $greeting > /tmp/said",
      inputs: [{ name: "greeting", from: { parameter: "greeting" } }],
      outputs: [{ name: "said", path: "/tmp/said" }],
      position: { x: 200, y: 0 },
    },
    {
      name: "train",
      kind: "training",
      image: "pytorch/pytorch:2.4",
      command: "python train.py $said",
      training: { kind: "PyTorchJob", roles: [{ name: "Master" }, { name: "Worker", replicas: 3 }] },
      inputs: [{ name: "said", from: { node: "prepare", output: "said" } }],
      position: { x: 40, y: 130 },
    },
    { name: "watch", image: "python:3.11", command: "sleep 1", retries: 2, position: { x: 360, y: 130 } },
    { name: "report", image: "python:3.11", command: "echo done", position: { x: 200, y: 260 } },
  ],
  edges: [
    { from: "prepare", to: "train" },
    { from: "prepare", to: "watch" },
    { from: "train", to: "report" },
    { from: "watch", to: "report" },
  ],
}
