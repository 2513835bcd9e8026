import { readFile } from "node:fs/promises"
import { expect, type Page } from "@playwright/test"
import { painted } from "./far"
import { api, expectAccessible, fresh, STEPS, test } from "./people"

const url = (path = "") => `${process.env.MUSTER_URL}${path}`
const node = (page: Page, name: string) => page.locator(".react-flow__node").filter({ hasText: name })

async function stored(page: Page, name: string, document: unknown = STEPS): Promise<string> {
  const csrf = (await page.context().cookies()).find((cookie) => cookie.name === "muster_csrf")?.value as string
  const response = await page.request.post(url("/api/v1/workflows"), {
    data: { name, description: "a story", version: { document } },
    headers: { "X-CSRF-Token": csrf },
  })
  expect(response.status(), await response.text()).toBe(201)
  return ((await response.json()) as { workflow_id: string }).workflow_id
}

async function connect(page: Page, from: string, to: string): Promise<void> {
  const start = await node(page, from).locator(".react-flow__handle-bottom").boundingBox()
  const end = await node(page, to).locator(".react-flow__handle-top").boundingBox()
  if (!start || !end) throw new Error("there is no such node")
  await page.mouse.move(start.x + start.width / 2, start.y + start.height / 2)
  await page.mouse.down()
  await page.mouse.move(end.x, end.y + 20, { steps: 8 })
  await page.mouse.move(end.x + end.width / 2, end.y + end.height / 2, { steps: 4 })
  await page.mouse.up()
}

test("a workflow is drawn with the mouse, checked, saved and run", { tag: "@smoke" }, async ({ page }) => {
  test.setTimeout(180_000)
  const name = fresh("drawn")
  await page.goto(url("/workflows"))
  await page.getByRole("link", { name: "Create workflow" }).first().click()
  await page.getByLabel("Workflow name").fill(name)
  await page.getByRole("button", { name: "Add parameter" }).click()
  await page.getByLabel("Name", { exact: true }).fill("who")

  const canvas = page.getByTestId("canvas")
  const piece = page.getByRole("button", { name: /Plain node/ })
  await piece.dragTo(canvas, { targetPosition: { x: 350, y: 120 } })
  await expect(node(page, "step")).toBeVisible()
  await page.getByLabel("Task name").fill("make")
  await expect(page.getByRole("region", { name: "Problems" })).toContainText("has no command")
  await page.getByLabel("Command").first().fill("echo $who > /tmp/made")
  await page.getByLabel("Image").fill("python:3.11")
  await page.getByRole("button", { name: "Add input" }).click()
  await page.getByLabel("Name", { exact: true }).fill("who")
  await page.getByLabel("Source").selectOption({ label: "who" })
  await page.getByRole("button", { name: "Add output" }).click()
  await page.getByLabel("Name", { exact: true }).nth(1).fill("made")
  await page.getByLabel("Path").fill("/tmp/made")

  await piece.dragTo(canvas, { targetPosition: { x: 350, y: 330 } })
  await page.getByLabel("Task name").fill("use")
  await page.getByLabel("Command").first().fill("echo $made")
  await page.getByLabel("Image").fill("python:3.11")
  await page.getByRole("button", { name: "Add input" }).click()
  await page.getByLabel("Name", { exact: true }).fill("made")
  await expect(page.getByLabel("Source").getByRole("option", { name: /make\.made/ })).toHaveCount(0)
  await connect(page, "make", "use")
  await expect(page.locator(".react-flow__edge")).toHaveCount(1)
  await node(page, "use").click()
  await page.getByLabel("Source").selectOption({ label: "make.made (Text)" })
  await expect(page.getByText("No problems")).toBeVisible()
  await expectAccessible(page)

  await page.getByRole("button", { name: "Save" }).click()
  await expect(page.getByRole("heading", { name: `${name} · v1` })).toBeVisible()
  await expect(node(page, "make")).toBeVisible()
  const whole = await api()<{ document: { nodes: unknown[]; edges: unknown[] } }>(
    "GET",
    `workflows/${encodeURIComponent(name)}/versions/1`,
  )
  expect(whole.document.edges).toEqual([{ from: "make", to: "use" }])
  expect(whole.document.nodes).toMatchObject([
    { name: "make", inputs: [{ name: "who", from: { parameter: "who" } }] },
    { name: "use", inputs: [{ name: "made", from: { node: "make", output: "made" } }] },
  ])

  await page.getByRole("link", { name: "Run", exact: true }).click()
  await page.getByLabel("who").fill("muster")
  await page.getByRole("button", { name: "Create" }).click()
  await expect(node(page, "use").locator("[data-state=succeeded]")).toBeVisible({ timeout: 90_000 })
  await node(page, "use").click()
  await page.getByRole("tab", { name: "Log" }).click()
  await expect(page.getByRole("log")).toContainText("muster")
})

test("a problem leads to its field", async ({ page }) => {
  await page.goto(url("/workflows/new"))
  await page.getByRole("button", { name: /Plain node/ }).click()
  await page.keyboard.press("Escape")
  await page.getByRole("button", { name: /has no image/ }).click()
  await expect(page.getByLabel("Image")).toBeFocused()
})

test("keys undo, copy, arrange and delete nodes", async ({ page }) => {
  const id = await stored(page, fresh("keys"))
  await page.goto(url(`/workflows/${id}/new-version`))
  await expect(page.locator(".react-flow__node")).toHaveCount(4)
  await node(page, "prepare").click()
  await page.locator("h1").click()
  await page.keyboard.press("Control+d")
  await expect(page.locator(".react-flow__node")).toHaveCount(5)
  await expect(node(page, "prepare-2")).toBeVisible()
  await page.keyboard.press("Control+z")
  await expect(page.locator(".react-flow__node")).toHaveCount(4)
  await page.keyboard.press("Control+Shift+z")
  await expect(page.locator(".react-flow__node")).toHaveCount(5)
  await node(page, "prepare-2").click()
  await page.keyboard.press("Delete")
  await expect(page.locator(".react-flow__node")).toHaveCount(4)
  await page.keyboard.press("Control+a")
  await expect(page.getByText("4 nodes selected")).toBeVisible()
  await page.keyboard.press("Control+c")
  await page.keyboard.press("Control+v")
  await expect(page.locator(".react-flow__node")).toHaveCount(8)
  const before = await node(page, "report-2").getAttribute("style")
  await page.getByRole("button", { name: "Auto layout" }).click()
  await expect(node(page, "report-2")).not.toHaveAttribute("style", before as string)
  await page.getByRole("button", { name: "Undo" }).click()
  await page.getByRole("button", { name: "Undo" }).click()
  await expect(page.locator(".react-flow__node")).toHaveCount(4)
})

test("asks before a page with unsaved changes is left", async ({ page }) => {
  await page.goto(url("/workflows/new"))
  await page.getByRole("button", { name: /Training node/ }).click()
  await page.getByRole("link", { name: "Home" }).click()
  await expect(page.getByRole("dialog")).toContainText("Leave without saving?")
  await page.getByRole("button", { name: "Stay on page" }).click()
  await expect(node(page, "train")).toBeVisible()
  await page.getByRole("link", { name: "Home" }).click()
  await page.getByRole("button", { name: "Leave" }).click()
  await expect(page.getByRole("heading", { name: "Hello, ann" })).toBeVisible()
})

test("versions are viewed, compared, copied, exported and imported", { tag: "@smoke" }, async ({ page }) => {
  const name = fresh("versions")
  const id = await stored(page, name)
  await page.goto(url(`/workflows/${id}/versions/1`))
  await node(page, "train").click()
  await expect(page.getByLabel("Job kind")).toHaveValue("PyTorchJob")
  await expect(page.getByLabel("Command").first()).toBeDisabled()
  await expect(page).toHaveURL(/node=train/)
  await expectAccessible(page)

  await page.getByRole("link", { name: "New version" }).click()
  await expect(page.getByRole("heading", { name: `New version of ${name}` })).toBeVisible()
  await node(page, "watch").click()
  await page.getByLabel("Command").first().fill("sleep 2")
  await page.getByRole("button", { name: "Save" }).click()
  await expect(page.getByRole("heading", { name: `${name} · v2` })).toBeVisible()

  await page.goto(url(`/workflows/${id}`))
  await expectAccessible(page)
  await page.getByRole("link", { name: "Compare" }).click()
  await expect(page.getByText("1 change")).toBeVisible()
  await expect(page.getByText("watch › Command")).toBeVisible()
  await expect(page.getByText("sleep 2")).toBeVisible()
  await expectAccessible(page)

  await page.goto(url(`/workflows/${id}/versions/1/copy?into=new`))
  await expect(page.getByLabel("Workflow name")).toHaveValue(`${name} copy`)
  await page.getByRole("button", { name: "Save" }).click()
  await expect(page.getByRole("heading", { name: `${name} copy · v1` })).toBeVisible()

  const coming = page.waitForEvent("download")
  await page.getByRole("link", { name: "Export YAML" }).click()
  const manifest = await readFile(await (await coming).path(), "utf8")
  expect(manifest).toContain("kind: Workflow")
})

test("a manifest becomes a graph", async ({ page }) => {
  const name = fresh("imported")
  const steps = {
    ...STEPS,
    nodes: STEPS.nodes.filter(({ kind }) => kind !== "training"),
    edges: [{ from: "prepare", to: "report" }],
  }
  const id = await stored(page, fresh("source"), steps)
  const manifest = await (await page.request.get(url(`/api/v1/workflows/${id}/versions/1/manifest`))).text()
  await page.goto(url("/workflows"))
  await page.getByRole("link", { name: "Import YAML" }).first().click()
  await page.getByLabel("Workflow name").fill(name)
  await page.getByLabel("Argo Workflow in YAML").fill("kind: Pod")
  await expect(
    page.getByText("correct the", { exact: false }).or(page.getByText("paste one object")).first(),
  ).toBeVisible()
  await page.getByLabel("Argo Workflow in YAML").fill(manifest)
  await page.getByRole("button", { name: "Open on canvas" }).click()
  await expect(page.locator(".react-flow__node")).toHaveCount(3)
  await page.getByRole("button", { name: "Save" }).click()
  await expect(page.getByRole("heading", { name: `${name} · v1` })).toBeVisible()
})

test("filters and sort order of lists are in the address", async ({ page }) => {
  const name = fresh("listed")
  await stored(page, name)
  await page.goto(url("/workflows"))
  await page.getByRole("searchbox", { name: "Search workflows" }).fill(name)
  await expect(page.locator("tbody tr")).toHaveCount(1)
  await expect(page).toHaveURL(/q=listed/)
  await page.getByRole("button", { name: "Name" }).click()
  await expect(page.getByRole("columnheader", { name: "Name" })).toHaveAttribute("aria-sort", "ascending")
  await page.reload()
  await expect(page.locator("tbody tr")).toHaveCount(1)
  await expectAccessible(page)
})

test("a thousand nodes are painted when zoomed out, and are elements when zoomed in", async ({ page }) => {
  const names = Array.from({ length: 1000 }, (_, index) => `step-${index}`)
  const nodes = names.map((name) => ({ name, image: "python:3.11", command: "true" }))
  const edges = names.slice(10).map((to, index) => ({ from: names[index], to }))
  const id = await stored(page, fresh("thousand"), { format: 1, nodes, edges })
  await page.goto(url(`/workflows/${id}/versions/1`))
  const { x, y } = (await (await page.waitForFunction(painted)).jsonValue()) as { x: number; y: number }
  await expect(page.locator(".react-flow__node")).toHaveCount(0)
  await page.mouse.click(x, y)
  await expect(page).toHaveURL(/node=step-\d+/)
  const chosen = /node=(step-\d+)/.exec(page.url())?.[1] as string
  await page.mouse.move(x, y)
  await expect(async () => {
    await page.mouse.wheel(0, -400)
    await expect(page.locator(".react-flow__node", { hasText: chosen }).first()).toBeVisible({ timeout: 500 })
  }).toPass()
  await expect(page.locator(".react-flow__node.selected")).toHaveCount(1)
  expect(await page.locator(".react-flow__node").count()).toBeLessThan(200)
  await page.getByRole("button", { name: "Fit to screen" }).click()
  await expect(page.locator(".react-flow__node")).toHaveCount(0)

  await page.goto(url(`/workflows/${id}/new-version`))
  const place = (await (await page.waitForFunction(painted)).jsonValue()) as { x: number; y: number }
  await page.mouse.move(place.x, place.y)
  await page.mouse.down()
  await page.mouse.move(place.x + 90, place.y + 20, { steps: 5 })
  await page.mouse.up()
  await expect(page.getByRole("button", { name: "Undo" })).toBeEnabled()
})
