/** A log of 100 MB with a million lines: the time to load, search and scroll it, and the memory it needs. */
import { expect, type Page } from "@playwright/test"
import { fresh, test } from "../e2e/people"
import { busy, frames, post, since, told, url } from "./measure"

const LINES = 1_000_000

async function heap(page: Page): Promise<number> {
  const session = await page.context().newCDPSession(page)
  const { usedSize } = await session.send("Runtime.getHeapUsage")
  await session.detach()
  return usedSize / 1e6
}

test("a log of 100 MB", async ({ page }) => {
  const command = `seq -f 'line %.0f of a log that is as long as those of real trainings are, with loss and accuracy in every one' ${LINES}`
  const document = { format: 1, nodes: [{ name: "write", image: "python:3.11", command }] }
  const { workflow_id } = await post(page, "workflows", { name: fresh("bench"), version: { document } })
  const { id } = await post(page, "runs", { workflow: workflow_id, name: fresh("bench") })
  const log = page.getByRole("log")
  const opened = async (what: string) => {
    const began = Date.now()
    const before = await busy(page)
    await page.goto(url(`/runs/${id}?node=write&tab=log`))
    const whole = expect(page.getByRole("status").filter({ hasText: `${LINES} lines` })).toBeVisible({
      timeout: 200_000,
    })
    await expect(log.locator("[data-line]").first()).toBeVisible({ timeout: 60_000 })
    const first = Date.now() - began
    const smooth = await frames(page, () => whole)
    console.log(`${what}: first lines after ${first} ms, all after ${Date.now() - began} ms`)
    told("meanwhile", smooth)
    await expect(log.locator(`[data-line="${LINES}"]`)).toBeVisible()
    console.log(
      `  main thread ${(await since(page, before)).toFixed(0)} ms of work, ${(await heap(page)).toFixed(0)} MB of heap`,
    )
  }
  await opened("\nfollowed while it is written")
  await expect(page.getByRole("complementary").getByText("Succeeded").first()).toBeVisible({ timeout: 120_000 })
  await opened("opened when it is over")

  await page.getByLabel("Follow").uncheck()
  const search = async (text: string, found: string) => {
    const began = Date.now()
    await page.getByLabel("Search log").fill(text)
    await expect(page.getByText(found, { exact: true })).toBeVisible({ timeout: 60_000 })
    console.log(`search for "${text}": ${found} after ${Date.now() - began} ms`)
  }
  await search("line 999999 of", "1 of 1")
  await search("line 12345", "1 of 11")
  await page.getByLabel("Search log").fill("")

  const box = await log.boundingBox()
  if (!box) throw new Error("there is no log")
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2)
  await log.evaluate((element) => (element.scrollTop = element.scrollHeight / 2))
  await expect(log.locator("[data-line]", { hasText: /line \d+/ }).first()).toBeVisible()
  told(
    "scroll by wheel",
    await frames(page, async () => {
      for (let step = 0; step < 60; step++) await page.mouse.wheel(0, 120)
    }),
  )
  told(
    "pull the scroll bar",
    await frames(page, () =>
      log.evaluate(async (element) => {
        for (let step = 0; step <= 60; step++) {
          element.scrollTop = (element.scrollHeight * step) / 60
          await new Promise(requestAnimationFrame)
        }
      }),
    ),
  )
  console.log(`  ${(await heap(page)).toFixed(0)} MB of heap`)
})
