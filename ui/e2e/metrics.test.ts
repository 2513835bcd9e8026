/** Metrics by mouse: live curves of a job, of a run and its node, and a comparison. */
import { readFile } from "node:fs/promises"
import { expect } from "@playwright/test"
import { expectAccessible, fresh, posted, test } from "./people"

const url = (path = "") => `${process.env.MUSTER_URL}${path}`
const SHOTS = process.env.METRIC_SHOTS

/** Prints a loss that falls, an accuracy that rises, and one value that is no number. */
const program = (start: number, steps: number, pause: number) => `python3 -u -c '
import math, time
for i in range(${steps}):
    loss = ${start} * math.exp(-i / 40) + 0.1 * math.sin(i * 1.7) + 0.15
    print(f"step {i} loss={loss if i != 33 else math.nan:.4f} accuracy: {1 - loss / ${start + 1}:.4f} lr={0.1 * 0.97 ** i:.3e}")
    time.sleep(${pause})
'`

const manifest = (name: string, command: string) => `apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: ${name}}
spec:
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      restartPolicy: Never
      template:
        spec:
          containers:
            - name: pytorch
              image: python:3.11
              command: [sh, -c, ${JSON.stringify(command)}]
`

test("metrics are live curves, and are compared", { tag: "@smoke" }, async ({ page }) => {
  test.setTimeout(180_000)
  const name = fresh("curve").replace(" ", "-")
  const shot = async (what: string) => SHOTS && page.screenshot({ path: `${SHOTS}/${what}.png`, fullPage: true })
  await posted(page, "jobs", { manifest: manifest(name, program(2, 120, 0.05)) })
  const workflow = fresh("curves")
  const nodes = [{ name: "train", image: "python:3.11", command: program(3, 150, 0) }]
  await posted(page, "workflows", { name: workflow, version: { document: { format: 1, nodes, edges: [] } } })
  const run = await posted(page, "runs", { workflow, name: `${name}-run` })

  await page.goto(url(`/jobs/user-ann/pytorchjob/${name}`))
  await page.getByRole("tab", { name: "Metrics" }).click()
  await expect(page.getByRole("img", { name: "loss" })).toBeVisible({ timeout: 60_000 })
  await expect(page.getByText("Live", { exact: true })).toBeVisible()
  await expect(page.getByText("1 value is not a finite number").first()).toBeVisible({ timeout: 60_000 })
  await expect(page.getByText("Live", { exact: true })).toBeHidden({ timeout: 60_000 })
  const box = await page.getByRole("img", { name: "loss" }).boundingBox()
  if (!box) throw new Error("the chart has no place")
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2)
  const caption = page.locator("figure", { has: page.getByRole("img", { name: "accuracy" }) }).locator("figcaption")
  await expect(caption, "all charts share the cursor").toContainText(/accuracy\s*\d+/)
  await expectAccessible(page)
  await shot("job")
  await page.getByLabel("Log scale").check()
  await page.getByLabel("Smoothing").fill("0")
  await page.getByRole("button", { name: "Relative time" }).click()
  await shot("job-log")
  await page.getByLabel("Filter metrics").fill("acc")
  await expect(page.getByRole("img", { name: "loss" })).toBeHidden()

  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("link", { name: "Download CSV" }).click(),
  ])
  const rows = (await readFile(await download.path(), "utf8")).trim().split("\n")
  expect(rows[0]).toBe("of,source,tag,step,time,value")
  expect(rows).toHaveLength(1 + 3 * 120)

  await page.locator("summary", { hasText: "Pattern of log lines" }).click()
  await page.getByLabel("Pattern of log lines").fill("(")
  await page.getByRole("button", { name: "Apply" }).click()
  await expect(page.getByText(/missing closing/)).toBeVisible()
  await page.getByLabel("Filter metrics").fill("")
  await page.getByLabel("Pattern of log lines").fill("step (?P<step>\\d+) loss=(?P<mine>\\S+)")
  await page.getByRole("button", { name: "Apply" }).click()
  await expect(page.getByRole("img", { name: "mine" })).toBeVisible()

  await page.goto(url(`/runs/${run.id}?view=metrics&node=train&tab=metrics`))
  await expect(page.getByRole("img", { name: "loss" })).toHaveCount(2)
  await shot("run")

  await page.goto(url("/jobs"))
  await page.getByRole("checkbox", { name: `Compare metrics of ${name}` }).check()
  await page.getByRole("navigation").getByRole("link", { name: "Runs" }).click()
  await page.getByRole("checkbox", { name: `Compare metrics of ${name}-run` }).check()
  await page.getByRole("link", { name: "Compare metrics of 2" }).click()
  const toggles = page.getByRole("group", { name: "Curves" })
  await expect(toggles.getByRole("button")).toHaveCount(2)
  await expect(page.getByRole("img", { name: "loss" })).toBeVisible()
  await shot("compare")
  await toggles.getByRole("button").first().click()
  await expect(page.locator("figure").first().getByRole("listitem")).toHaveCount(1)
  await expectAccessible(page)
  if (!SHOTS) return
  await toggles.getByRole("button").first().click()
  await page.evaluate(() => {
    localStorage.setItem("muster.theme", "dark")
    localStorage.setItem("muster.language", "zh")
  })
  await page.setViewportSize({ width: 390, height: 844 })
  await page.reload()
  await expect(page.getByRole("img", { name: "loss" })).toBeVisible()
  await shot("compare-phone-dark-zh")
})
