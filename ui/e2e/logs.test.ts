import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, type Page } from "@playwright/test"
import { api, expectAccessible, fresh, posted, test } from "./people"

const url = (path = "") => `${process.env.MUSTER_URL}${path}`
const LINES = 200_000 // of a hundred bytes each

/** Coloured, very long and overwritten lines, many plain ones, and a last one that waits for a file. */
const command = (go: string) => `
printf '\\033[1;31mred and bold\\033[0m then plain\\n'
head -c 60000 /dev/zero | tr '\\0' x; echo ' its end'
printf 'loading 10%%\\rloading 50%%\\rloading 100%%\\n'
seq -f 'line %.0f of a log that is as long as those of real trainings are, with loss and accuracy in every one' ${LINES}
until test -e ${go}; do sleep 0.1; done
echo the very last words
`

async function logOf(page: Page, go: string, root: string): Promise<{ run: string }> {
  const document = {
    format: 1,
    nodes: [{ name: "write", image: "python:3.11", command: command(go), storage: [{ root }] }],
  }
  const { workflow_id } = await posted(page, "workflows", { name: fresh("log"), version: { document } })
  const { id } = await posted(page, "runs", { workflow: workflow_id, name: fresh("log") })
  return { run: id as string }
}

test("a log of many megabytes is followed, searched and scrolled", async ({ page }) => {
  test.setTimeout(240_000)
  const folder = await mkdtemp(join(tmpdir(), "muster-log-"))
  const root = fresh("log").replaceAll(" ", "-")
  await api()("POST", "storage", { name: root, path: folder })
  const { run } = await logOf(page, join(folder, "go"), root)
  await page.goto(url(`/runs/${run}?node=write&tab=log`))
  const log = page.getByRole("log")
  const line = (number: number) => log.locator(`[data-line="${number}"]`)
  const all = LINES + 3

  // The log is followed while it is written; lines out of view are not in the document.
  await expect(page.getByRole("status").filter({ hasText: `${all} lines` })).toBeVisible({ timeout: 120_000 })
  await expect(line(all)).toContainText(`line ${LINES} of`)
  await expect(line(all)).toBeInViewport()
  expect(await log.locator("[data-line]").count()).toBeLessThan(200)

  // Scroll to the middle.
  await page.getByLabel("Follow").uncheck()
  await log.evaluate((element) => (element.scrollTop = element.scrollHeight / 2))
  await expect(log.locator("[data-line]", { hasText: /line 100\d\d\d of/ }).first()).toBeVisible()

  // The search jumps to the match, and to the next one.
  await page.getByLabel("Search log").fill("line 12345 OF")
  await expect(page.getByText("1 of 1")).toBeVisible({ timeout: 30_000 })
  await expect(line(12_348)).toBeInViewport()
  await page.getByLabel("Search log").fill("line 7777")
  await expect(page.getByText("1 of 11")).toBeVisible({ timeout: 30_000 })
  await page.getByRole("button", { name: "Next match" }).click()
  await expect(line(77_773)).toBeInViewport()
  await page.getByLabel("Search log").fill("")

  // Colours, overwritten text, and a line that is cut off in its row.
  await log.evaluate((element) => (element.scrollTop = 0))
  await expect(line(1).getByText("red and bold")).toHaveCSS("font-weight", "700")
  await expect(line(1)).toHaveText("1red and bold then plain")
  await expect(line(3)).toHaveText("3loading 100%")
  await line(2).scrollIntoViewIfNeeded()
  await line(2).getByRole("button", { name: "show whole line" }).click()
  await expect(page.getByRole("dialog")).toContainText("its end")
  await expectAccessible(page)
  await page.keyboard.press("Escape")

  // Following shows new lines and the end.
  await page.getByLabel("Follow").check()
  await expect(line(all)).toBeInViewport()
  await writeFile(join(folder, "go"), "")
  await expect(line(all + 1)).toContainText("the very last words", { timeout: 60_000 })
  await expect(line(all + 1)).toBeInViewport()
  await expect(page.getByRole("complementary").getByText("Succeeded").first()).toBeVisible({ timeout: 60_000 })

  // A finished log is loaded in one piece.
  await page.reload()
  await expect(line(all + 1)).toContainText("the very last words", { timeout: 60_000 })

  // Lines wrap and have times, and the log fills the screen.
  await page.getByRole("button", { name: "Wrap lines" }).click()
  await expect(line(all + 1)).toBeInViewport({ ratio: 1 })
  await page.getByRole("button", { name: "Show timestamps" }).click()
  await expect(line(all + 1)).toContainText(/20\d\d-\d\d-\d\dT.* the very last words/, { timeout: 60_000 })
  await page.getByRole("button", { name: "Full screen" }).click()
  await expect(line(all + 1)).toBeInViewport({ ratio: 1 })
  await expectAccessible(page)
  await page.keyboard.press("Escape")
  await expect(page.getByRole("heading", { name: "write" })).toBeVisible()
  await rm(folder, { recursive: true, force: true })
})
