/** Everything that ran in one list, Workflows of other clients, and schedules. */
import { expect } from "@playwright/test"
import { expectAccessible, fresh, posted, test } from "./people"

const workflow = (command: string) => `apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {generateName: report-}
spec:
  entrypoint: main
  templates:
    - name: main
      dag:
        tasks:
          - {name: load, template: load}
          - {name: fit, template: fit, dependencies: [load]}
    - {name: load, container: {image: "python:3.11", command: [echo, loaded]}}
    - {name: fit, container: {image: "python:3.11", command: [sh, -c, "${command}"]}}
`

test("a schedule is created, started, paused, resumed and deleted @smoke", async ({ page }) => {
  const name = fresh("report").replace(" ", "-")
  await page.goto(`${process.env.MUSTER_URL}/schedules`)
  await page.getByRole("button", { name: "New schedule" }).first().click()
  await page.getByRole("menuitem", { name: "For a Workflow" }).click()
  await page.getByLabel("When").fill("61 9 * * *")
  await expect(page.getByText(/minute/).first()).toBeVisible()
  await page.getByRole("button", { name: "Weekdays at 9:00" }).click()
  await expect(page.getByText("Next runs")).toBeVisible()
  await page.getByLabel("Workflow", { exact: true }).fill(workflow("echo fitted"))
  await page.getByRole("button", { name: "Create schedule" }).click()
  await expect(page.getByText("The schedule has no name; enter one")).toBeVisible()
  await page.getByLabel("Name").fill(name)
  await expect(page.getByText("The schedule has no name; enter one")).toBeHidden()
  await expectAccessible(page)
  await page.getByRole("button", { name: "Create schedule" }).click()
  await expect(page.getByRole("heading", { name })).toBeVisible()
  await expect(page.getByRole("region", { name: "Next runs" }).getByRole("listitem")).toHaveCount(5)
  await page.getByRole("button", { name: "Run now" }).click()
  const row = page.getByRole("row", { name: new RegExp(name) })
  await expect(row).toContainText("Succeeded")
  await expectAccessible(page)
  await page.getByRole("button", { name: "Pause" }).click()
  await expect(page.getByText("No further runs")).toBeVisible()
  await page.getByRole("button", { name: "Resume" }).click()
  await expect(page.getByRole("region", { name: "Next runs" }).getByRole("listitem")).toHaveCount(5)
  await row.getByRole("link", { name: new RegExp(`^${name}-`) }).click()
  await expect(page.getByRole("heading", { level: 1 })).toContainText(name)
  await page.getByRole("link", { name, exact: true }).click()
  await page
    .getByRole("button", { name: "More" })
    .or(page.getByRole("button", { name: /Actions/ }))
    .first()
    .click()
  await page.getByRole("menuitem", { name: "Delete" }).click()
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click()
  await expect(page.getByRole("heading", { name: "Schedules" })).toBeVisible()
  await expect(page.getByRole("link", { name, exact: true })).toBeHidden()
})

test("what is typed into the form of a schedule outlives the page", async ({ page }) => {
  await page.goto(`${process.env.MUSTER_URL}/schedules/new`)
  await page.getByLabel("Name").fill("half-done")
  await page.getByLabel("When").fill("0 9 * * *")
  await page.waitForFunction(() => Object.values(localStorage).some((kept) => kept.includes("0 9 * * *")))
  page.on("dialog", (dialog) => void dialog.accept())
  await page.reload()
  await page.getByRole("button", { name: "Restore draft" }).click()
  await expect(page.getByLabel("Name")).toHaveValue("half-done")
  await expect(page.getByLabel("When")).toHaveValue("0 9 * * *")
})

test("a Workflow of another client is in the list of runs, and is inspected, retried and resubmitted", async ({
  page,
}) => {
  const name = fresh("digits").replace(" ", "-")
  await posted(page, "schedules", {
    name,
    schedules: ["@yearly"],
    manifest: workflow("echo about to fail; exit 3"),
  })
  const made = await posted(page, `schedules/user-ann/${name}/run`, {})
  await page.goto(`${process.env.MUSTER_URL}/runs`)
  await page.getByLabel("Source").selectOption("CronWorkflow")
  const row = page.getByRole("row", { name: new RegExp(made.name as string) })
  await expect(row).toContainText("Failed")
  await expect(row).toContainText(name)
  await expectAccessible(page)
  await page.emulateMedia({ colorScheme: "dark" })
  await expectAccessible(page)
  await page.emulateMedia({ colorScheme: "light" })
  await row.getByRole("link", { name: made.name, exact: true }).click()
  const graph = page.getByRole("region", { name: "Graph" })
  await expect(graph.getByText("load", { exact: true }).first()).toBeVisible()
  await graph.getByText("fit", { exact: true }).first().click()
  await expect(page.getByRole("log")).toContainText("about to fail")
  await expectAccessible(page)
  await page.getByRole("tab", { name: "Details" }).click()
  await expect(page.getByText("exit code 3").first()).toBeVisible()
  await page.getByRole("tab", { name: "Timeline" }).click()
  await expect(page.getByRole("button", { name: /fit/ }).first()).toBeVisible()
  await page.getByRole("button", { name: "Retry" }).click()
  await expect(page.getByRole("button", { name: "Retry" })).toBeVisible()
  await page.getByRole("button", { name: "Resubmit" }).click()
  await expect(page.getByRole("heading", { level: 1 })).not.toHaveText(made.name as string)
  await expect(page.getByRole("heading", { level: 1 })).toContainText(name)
})

test("the command palette goes to pages and workflows by keyboard", async ({ page }) => {
  await page.goto(`${process.env.MUSTER_URL}/`)
  await expect(page.getByRole("navigation", { name: "Main navigation" })).toBeVisible()
  await page.keyboard.press("Control+k")
  const field = page.getByRole("combobox", { name: "Page, workflow or run" })
  await field.fill("sched")
  await expect(page.getByRole("option", { name: "Schedules" })).toHaveAttribute("aria-selected", "true")
  await expectAccessible(page)
  await field.press("Enter")
  await expect(page.getByRole("heading", { name: "Schedules", level: 1 })).toBeVisible()
  await page.getByRole("button", { name: /Go to…/ }).click()
  await field.fill("no such thing")
  await expect(page.getByText("Nothing found")).toBeVisible()
  await field.press("Escape")
  await expect(field).toBeHidden()
})

test("files of a node are shown as a table and as text", async ({ page }) => {
  const name = fresh("files").replace(" ", "-")
  const manifest = `apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {generateName: files-}
spec:
  entrypoint: main
  templates:
    - name: main
      container: {image: "python:3.11", command: [sh, -c, "echo a,b > /tmp/t.csv; echo 1,2 >> /tmp/t.csv; echo '{\\"loss\\": 3}' > /tmp/m.json"]}
      outputs:
        artifacts:
          - {name: table, path: /tmp/t.csv}
          - {name: metrics, path: /tmp/m.json}
`
  await posted(page, "schedules", { name, schedules: ["@yearly"], manifest })
  const made = await posted(page, `schedules/user-ann/${name}/run`, {})
  await page.goto(`${process.env.MUSTER_URL}/runs/argo/user-ann/${made.name}?node=${made.name}&tab=io`)
  await page.getByRole("button", { name: "Preview: table" }).click()
  await expect(page.getByRole("dialog").getByRole("columnheader", { name: "a" })).toBeVisible()
  await expect(page.getByRole("dialog").getByRole("cell", { name: "2" })).toBeVisible()
  await expectAccessible(page)
  await page.keyboard.press("Escape")
  await page.getByRole("button", { name: "Preview: metrics" }).click()
  await expect(page.getByRole("dialog").getByText('"loss": 3')).toBeVisible()
})

test("loops of a Workflow of another client open in place", async ({ page }) => {
  const name = fresh("loops").replace(" ", "-")
  const manifest = `apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {generateName: loops-}
spec:
  entrypoint: main
  templates:
  - name: main
    dag:
      tasks:
      - {name: fan, template: say, withSequence: {count: "3"}, arguments: {parameters: [{name: x, value: "{{item}}"}]}}
      - {name: end, template: say, depends: fan, arguments: {parameters: [{name: x, value: last}]}}
  - name: say
    inputs: {parameters: [{name: x}]}
    container: {image: python:3.11, command: [echo, "said {{inputs.parameters.x}}"]}
`
  await posted(page, "schedules", { name, schedules: ["@yearly"], manifest })
  const made = await posted(page, `schedules/user-ann/${name}/run`, {})
  await page.goto(`${process.env.MUSTER_URL}/runs/argo/user-ann/${made.name}`)
  const graph = page.getByRole("region", { name: "Graph" })
  await expect(graph.getByText(/3 of 3 done/)).toBeVisible({ timeout: 30_000 })
  await expect(graph.locator(".react-flow__node")).toHaveCount(2)
  await graph.getByRole("button", { name: "Show what is inside fan" }).click()
  await expect(graph.locator(".react-flow__node")).toHaveCount(5)
  await graph.getByText("1:1", { exact: true }).click()
  await expect(page.getByRole("log")).toContainText("said 1")
  await graph.getByText("fan", { exact: true }).click()
  await expect(page.getByRole("complementary", { name: "Details" })).toContainText("count 3")
  await expectAccessible(page)
})
