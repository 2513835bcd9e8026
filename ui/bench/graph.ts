/** A graph of a thousand nodes: the time until it can be used, and how smoothly it moves. */
import { expect, type Page } from "@playwright/test"
import { painted } from "../e2e/far"
import { fresh, test } from "../e2e/people"
import { busy, csrf, frames, post, since, told, url } from "./measure"

const NODES = 1000

/** The shape of a pipeline that maps over a data set: a start, rows of ten nodes, an end. */
const names = Array.from({ length: NODES }, (_, index) => `step-${index}`)
const edges = [
  ...names.slice(1, 11).map((to) => ({ from: "step-0", to })),
  ...names
    .slice(11, -1)
    .flatMap((to, index) => [
      { from: `step-${index + 1}`, to },
      ...(index % 7 === 0 ? [{ from: `step-${Math.max(1, index)}`, to }] : []),
    ]),
  ...names.slice(-11, -1).map((from) => ({ from, to: `step-${NODES - 1}` })),
]
const graph = (command: string) => ({
  format: 1,
  nodes: names.map((name) => ({ name, image: "python:3.11", command })),
  edges,
})

/** Milliseconds from entering the address until a node responds to a click. */
async function opened(page: Page, address: string): Promise<string> {
  await page.goto("about:blank")
  const before = await busy(page)
  await page.goto(url(address), { waitUntil: "commit" })
  const seen = await page.waitForFunction(painted, null, { polling: "raf" })
  const { x, y, at } = (await seen.jsonValue()) as { x: number; y: number; at: number }
  await page.mouse.click(x, y)
  const chosen = () =>
    (/[?&]node=/.test(location.search) || document.querySelector("aside [data-field=command]")) && performance.now()
  const done = await page.waitForFunction(chosen, null, { polling: "raf" })
  const used = (await done.jsonValue()) as number
  return `drawn ${at.toFixed(0)} ms, interactive ${used.toFixed(0)} ms (work ${(await since(page, before)).toFixed(0)} ms)`
}

async function moved(page: Page): Promise<void> {
  const box = await page.locator(".react-flow__pane").boundingBox()
  if (!box) throw new Error("there is no graph")
  const middle = { x: box.x + box.width / 2, y: box.y + box.height / 2 }
  const pan = async () => {
    await page.mouse.move(box.x + 8, box.y + 8)
    await page.mouse.down()
    for (let step = 1; step <= 60; step++) await page.mouse.move(box.x + 8 + step * 6, box.y + 8 + (step % 30) * 8)
    await page.mouse.up()
  }
  told("pan, all in view", await frames(page, pan))
  told(
    "zoom in",
    await frames(page, async () => {
      await page.mouse.move(middle.x, middle.y)
      for (let step = 0; step < 40; step++) await page.mouse.wheel(0, -60)
    }),
  )
  told("pan, near", await frames(page, pan))
  told(
    "zoom out",
    await frames(page, async () => {
      await page.mouse.move(middle.x, middle.y)
      for (let step = 0; step < 40; step++) await page.mouse.wheel(0, 60)
    }),
  )
}

test("a version to look at", async ({ page }) => {
  const { workflow_id } = await post(page, "workflows", { name: fresh("bench"), version: { document: graph("true") } })
  const first = await opened(page, `/workflows/${workflow_id}/versions/1`)
  const again = await opened(page, `/workflows/${workflow_id}/versions/1`)
  console.log(`\nversion: ${first}; again ${again}`)
  await moved(page)
})

test("the editor", async ({ page }) => {
  const { workflow_id } = await post(page, "workflows", { name: fresh("bench"), version: { document: graph("true") } })
  const seen = await opened(page, `/workflows/${workflow_id}/new-version`)
  console.log(`\neditor: ${seen}`)
  await moved(page)
  await page.getByRole("button", { name: "Fit to screen" }).click()
  await page.waitForTimeout(500)
  const { x, y } = (await page.evaluate(painted)) as { x: number; y: number }
  const drag = await frames(page, async () => {
    await page.mouse.move(x, y)
    await page.mouse.down()
    for (let step = 1; step <= 60; step++) await page.mouse.move(x + step * 4, y + step * 3)
    await page.mouse.up()
  })
  told("drag a node", drag)
  const typing = await frames(page, () =>
    page.locator("[data-field=command]").pressSequentially("echo a few words to type", { delay: 0 }),
  )
  told("type a command", typing)
})

test("a run that goes", async ({ page }) => {
  const { workflow_id } = await post(page, "workflows", {
    name: fresh("bench"),
    version: { document: graph("sleep 0.2") },
  })
  const { id } = await post(page, "runs", { workflow: workflow_id, name: fresh("bench") })
  const seen = await opened(page, `/runs/${id}`)
  console.log(`\nrun: ${seen}, while it goes`)
  await moved(page)
  await page.request.post(url(`/api/v1/runs/${id}/stop`), { headers: { "X-CSRF-Token": await csrf(page) } })
  await expect(page.locator("main").getByText("Stopped").first()).toBeVisible({ timeout: 120_000 })
  const over = await opened(page, `/runs/${id}`)
  console.log(`run: ${over}, when it is over`)
  await moved(page)
})
