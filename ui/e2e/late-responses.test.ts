/** Events overtake responses, and pages are left before the next one is loaded. */
import { expect } from "@playwright/test"
import { holdResponses } from "./delays"
import { fresh, posted, STEPS, test } from "./people"

const FILES = `apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {generateName: files-}
spec:
  entrypoint: main
  templates:
    - name: main
      container: {image: "python:3.11", command: [sh, -c, "echo a,b > /tmp/t.csv"]}
      outputs: {artifacts: [{name: table, path: /tmp/t.csv}]}
`

/** A promise, and the function that fulfils it. */
function door(): [Promise<void>, () => void] {
  let open = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return [opened, open]
}

test("a late response does not replace what newer events have said", async ({ page }) => {
  const name = fresh("late").replace(" ", "-")
  const manifest = FILES.replace("echo a,b", "sleep 2; echo a,b")
  await posted(page, "schedules", { name, schedules: ["@yearly"], manifest })
  const made = await posted(page, `schedules/user-ann/${name}/run`, {})
  const [isOver, over] = door()
  await holdResponses(page, /\/argo-workflows\/[^/]+\/[^/]+$/, () => isOver)
  await page.goto(`${process.env.MUSTER_URL}/runs/argo/user-ann/${made.name}?node=${made.name}&tab=io`)
  await expect(page.getByRole("main").getByText("Succeeded").first()).toBeVisible()
  over()
  await page.waitForTimeout(1000) // the response would be shown by now
  await expect(page.getByRole("main").getByText("Running")).toHaveCount(0)
  await expect(page.getByRole("button", { name: "Preview: table" })).toBeVisible()
})

test("a node's first response may be older than the event of its end", async ({ page }) => {
  const name = fresh("late node").replaceAll(" ", "-")
  await posted(page, "schedules", {
    name,
    schedules: ["@yearly"],
    manifest: FILES.replace("echo a,b", "sleep 2; echo a,b"),
  })
  const made = await posted(page, `schedules/user-ann/${name}/run`, {})
  const [isOver, over] = door()
  let held = 0
  await holdResponses(page, /\/argo-workflows\/.*\/nodes\/[^/]+$/, async () => {
    held += 1
    if (held === 1) await isOver
  })
  await page.goto(`${process.env.MUSTER_URL}/runs/argo/user-ann/${made.name}?node=${made.name}&tab=io`)
  await expect(page.getByRole("main").getByText("Succeeded").first()).toBeVisible()
  over()
  const panel = page.getByRole("complementary", { name: "Details" })
  await expect(panel.getByText("Succeeded")).toBeVisible()
})

test("a page that is being left neither takes clicks nor changes the address", async ({ page }) => {
  const { workflow_id } = await posted(page, "workflows", { name: fresh("left"), version: { document: STEPS } })
  await page.goto(`${process.env.MUSTER_URL}/workflows/${workflow_id}/versions/1`)
  const graph = page.getByRole("region", { name: "Graph" })
  await expect(graph.getByText("prepare")).toBeVisible()
  const [isLoaded, load] = door()
  await page.route("**/assets/*.js", async (route) => {
    await isLoaded
    await route.continue()
  })
  await page.getByRole("link", { name: "New version" }).click({ noWaitAfter: true })
  await expect(page).toHaveURL(/new-version/)
  await graph
    .getByText("watch")
    .click({ force: true, noWaitAfter: true, timeout: 1000 })
    .catch(() => {})
  await expect(page).toHaveURL(/new-version/)
  load()
  await expect(page.getByRole("button", { name: "Save" }).first()).toBeVisible()
  await expect(page).toHaveURL(/new-version/)
})
