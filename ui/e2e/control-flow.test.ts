import { expect, type Page } from "@playwright/test"
import { expectAccessible, fresh, posted, test } from "./people"

const url = (path = "") => `${process.env.MUSTER_URL}${path}`
const card = (page: Page, name: string) => page.locator(".react-flow__node").filter({ hasText: name })
const state = (page: Page, name: string, is: string) => card(page, name).locator(`[data-state=${is}]`)

const place = (x: number, y: number) => ({ position: { x, y } })
const out = [{ name: "out", path: "/tmp/out" }]

test("conditions and loops are composed in the form, without expressions", async ({ page }) => {
  test.setTimeout(240_000)
  const document = {
    format: 1,
    parameters: [{ name: "mode", default: "full" }],
    nodes: [
      { name: "measure", image: "python:3.11", command: "echo 0.95 > /tmp/out", outputs: out, ...place(0, 0) },
      { name: "train", image: "python:3.11", command: "echo $lr", ...place(0, 140) },
    ],
    edges: [{ from: "measure", to: "train" }],
  }
  const { workflow_id } = await posted(page, "workflows", { name: fresh("flow"), version: { document } })
  await page.goto(url(`/workflows/${workflow_id}`))
  await page.getByRole("link", { name: "New version" }).click()
  await expect(page.getByRole("heading", { name: "New version of" })).toBeVisible()
  await card(page, "train").click()
  await page.getByRole("textbox", { name: "Timeout" }).fill("soon")
  await expect(page.getByText(/"soon" is not a timeout/).first()).toBeVisible()
  await page.getByRole("textbox", { name: "Timeout" }).fill("30m")
  await page.getByRole("button", { name: "Add comparison" }).click()
  await page.getByLabel("Left value").selectOption({ label: "measure.out (Text)" })
  await page.getByLabel("Operator").selectOption(">=")
  await page.getByLabel("Right value: Value").fill("0.9")
  await page.getByRole("button", { name: "Add comparison" }).click()
  await page.getByLabel("Left value").nth(1).selectOption({ label: "mode" })
  await page.getByLabel("Right value: Value").nth(1).fill("it's {{=1}} full")
  await page.getByLabel("Run if").selectOption("any")
  await page.getByLabel("Loop", { exact: true }).selectOption("items")
  await page.getByLabel("Items").fill("0.1\n0.01\n")
  await page.getByLabel("Variable of the item").fill("lr")
  await expect(card(page, "train").getByRole("img", { name: "Loop over 0.1, 0.01" })).toBeVisible()
  await expect(card(page, "train").getByRole("img", { name: /^Only if measure.out ≥ "0.9" ∨ mode = / })).toBeVisible()
  // A reference follows the node that it refers to.
  await card(page, "measure").click()
  await page.getByLabel("Task name").fill("evaluate")
  await expect(card(page, "train").getByRole("img", { name: /^Only if evaluate.out/ })).toBeVisible()
  await expectAccessible(page)
  await page.getByRole("button", { name: "Save" }).click()
  await expect(page.getByRole("heading", { name: /· v2$/ })).toBeVisible()
  const { document: saved } = await (await page.request.get(url(`/api/v1/workflows/${workflow_id}/versions/2`))).json()
  expect(saved.nodes[1]).toMatchObject({
    timeout: "30m",
    condition: {
      match: "any",
      comparisons: [
        { left: { from: { node: "evaluate", output: "out" } }, operator: ">=", right: { value: "0.9" } },
        { left: { from: { parameter: "mode" } }, right: { value: "it's {{=1}} full" } },
      ],
    },
    loop: { items: ["0.1", "0.01"], variable: "lr" },
  })
})

test("a run shows why nodes were skipped, and the iterations of a loop below it", async ({ page }) => {
  test.setTimeout(300_000)
  const compared = (operator: string) => ({
    comparisons: [{ left: { from: { node: "measure", output: "out" } }, operator, right: { value: "0.9" } }],
  })
  const plain = { image: "python:3.11" }
  const document = {
    format: 1,
    nodes: [
      { ...plain, name: "measure", command: "echo 0.85 > /tmp/out", outputs: out, ...place(0, 0) },
      { ...plain, name: "deploy", command: "echo deployed", condition: compared(">="), ...place(-150, 140) },
      {
        ...plain,
        name: "sweep",
        command: 'echo "with $item"; test "$item" != "b {{x}}" || exit 3; echo "$item" > /tmp/out',
        outputs: out,
        loop: { items: ["a", "b {{x}}", "c"] },
        condition: compared("<"),
        ...place(150, 140),
      },
      { ...plain, name: "late", command: "sleep 300", timeout: "2s", ...place(450, 140) },
    ],
    edges: ["deploy", "sweep", "late"].map((to) => ({ from: "measure", to })),
  }
  const { workflow_id } = await posted(page, "workflows", { name: fresh("flow"), version: { document } })
  const { id } = await posted(page, "runs", { workflow: workflow_id, name: fresh("flow") })
  await page.goto(url(`/runs/${id}?node=deploy`))
  await expect(state(page, "deploy", "skipped")).toBeVisible({ timeout: 120_000 })
  const details = page.getByRole("complementary", { name: "Details" })
  await expect(details).toContainText("Skipped because its condition was not met")
  await expect(details).toContainText('measure.out"0.85"≥"0.9"does not hold')

  await expect(state(page, "late", "failed")).toBeVisible({ timeout: 120_000 })
  await card(page, "late").click()
  await expect(details).toContainText("Ran longer than its timeout of 2 seconds")

  await expect(state(page, "sweep", "failed")).toBeVisible({ timeout: 120_000 })
  await expect(card(page, "sweep")).toContainText("3 of 3 done · 1 failed")
  await card(page, "sweep").click()
  await expect(details).toContainText("Succeeded: 2")
  await expectAccessible(page)
  await page.getByRole("button", { name: "Show what is inside sweep" }).click()
  await expect(state(page, "1:1", "failed")).toBeVisible()
  await details.getByRole("button", { name: "0:0" }).click()
  await expect(details.getByRole("heading", { name: "sweep(0:0)" })).toBeVisible()
  await page.getByRole("tab", { name: "Log" }).click()
  await expect(page.getByRole("log")).toContainText("with a", { timeout: 30_000 })
  await page.getByRole("tab", { name: "Inputs and outputs" }).click()
  await expect(details).toContainText("item")

  await page.getByRole("button", { name: "Retry", exact: true }).click()
  await expect(page.getByText("retried 1 time")).toBeVisible({ timeout: 60_000 })
})
