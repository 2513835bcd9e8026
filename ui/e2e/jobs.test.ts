import { expect, type Page } from "@playwright/test"
import { expectAccessible, test } from "./people"

const url = (path = "") => `${process.env.MUSTER_URL}${path}`
let made = 0
const named = (stem: string) => `${stem}-${Date.now().toString(36)}${made++}`

/** A job that runs in the sandbox on any machine; it needs no image. */
function manifest(name: string, command: string, more = "", policy = ""): string {
  const replica = `
      replicas: 1
      restartPolicy: Never
      template:
        spec:
          containers:
            - name: pytorch
              image: python:3.11
              command: [sh, -c, '${command}']${more}`
  return `apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: ${name}
spec:${policy}
  pytorchReplicaSpecs:
    Master:${replica}
    Worker:${replica}
`
}

async function submit(page: Page, text: string): Promise<void> {
  await page.goto(url("/jobs/new"))
  await page.getByLabel("Manifest").fill(text)
  await expect(page.getByText("No problems found.")).toBeVisible()
  await page.getByRole("button", { name: "Submit", exact: true }).click()
}

test("a job is submitted from a manifest, runs, and shows its replicas' logs side by side", { tag: "@smoke" }, async ({
  page,
}) => {
  test.setTimeout(120_000)
  const name = named("story")
  await page.goto(url("/jobs"))
  await page.getByRole("link", { name: "Submit job" }).first().click()
  const field = page.getByLabel("Manifest")

  const wrong = manifest(name, "true").replace("Worker:", "Wroker:")
  await field.fill(wrong)
  const line = wrong.split("\n").findIndex((each) => each.includes("Wroker")) + 1
  await expect(page.getByText("1 problem")).toBeVisible()
  await expect(page.locator("[data-mark=error]")).toHaveText(String(line))
  await expect(page.getByRole("button", { name: "Submit", exact: true })).toBeDisabled()
  await expectAccessible(page)
  await page.getByRole("button", { name: `Line ${line}` }).click()
  await expect(field).toBeFocused()

  await field.fill(manifest(name, "echo I am rank $RANK; for i in 1 2 3; do echo step $i; sleep 1; done"))
  await expect(page.getByText("No problems found.")).toBeVisible()
  await page.getByRole("button", { name: "Submit", exact: true }).click()
  await expect(page.getByRole("heading", { name })).toBeVisible()
  await expect(page.locator("header").getByText("Running")).toBeVisible({ timeout: 30_000 })
  await expectAccessible(page)

  await page.getByRole("tab", { name: "Logs" }).click()
  const master = page.getByRole("log", { name: `Log of ${name}-master-0` })
  const worker = page.getByRole("log", { name: `Log of ${name}-worker-0` })
  await expect(master).toContainText("I am rank 0")
  await expect(worker).toContainText("I am rank 1")
  await expect(worker).toContainText("step 3", { timeout: 30_000 })
  await page.getByLabel("Search all logs").fill("step 2")
  await expect(page.getByText("1 of 1")).toHaveCount(2)
  await expectAccessible(page)
  await page.getByRole("group", { name: "Replicas" }).getByRole("button", { name: "master-0" }).click()
  await expect(master).toHaveCount(0)
  await expect(page).toHaveURL(/pods=/)

  await expect(page.locator("header").getByText("Succeeded")).toBeVisible({ timeout: 30_000 })
  await page.getByRole("tab", { name: "Events" }).click()
  await expect(page.getByText(`Pod/${name}-master-0`).first()).toBeVisible()
  await expectAccessible(page)
  await page.getByRole("tab", { name: "YAML" }).click()
  await expect(page.getByRole("region", { name: "YAML" })).toContainText("kind: PyTorchJob")
  await expectAccessible(page)

  await page.goto(url(`/jobs?q=${name}`))
  const row = page.getByRole("row").filter({ hasText: name })
  await expect(row).toContainText("Succeeded")
  await expect(row).toContainText("ann")
  await expectAccessible(page)
  await row.getByRole("button", { name: `Actions: ${name}` }).click()
  await page.getByRole("menuitem", { name: "Delete" }).click()
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click()
  await expect(page.getByText(`Deleted “${name}”`)).toBeVisible()
  await page.goto(url(`/jobs?q=${name}`))
  await expect(page.getByText("No results")).toBeVisible()
})

test("a failed job says why at the top", async ({ page }) => {
  const name = named("broken")
  await submit(page, manifest(name, "echo no such data; exit 3"))
  await expect(page.locator("header").getByText("Failed")).toBeVisible({ timeout: 30_000 })
  const why = page.getByRole("region", { name: "Why it failed" })
  await expect(why).toContainText('container "pytorch" exited with code 3')
  await expect(page.getByText("Exit code 3").first()).toBeVisible()
  await expectAccessible(page)
  await page.getByRole("tab", { name: "Logs" }).click()
  await expect(page.getByRole("log").first()).toContainText("no such data")
})

test("a waiting gang says what it waits for, and is suspended and resumed", async ({ page }) => {
  test.setTimeout(90_000)
  const name = named("gang")
  const gpus = "\n              resources: {limits: {nvidia.com/gpu: 4096}}"
  await submit(page, manifest(name, "true", gpus, "\n  runPolicy: {schedulingPolicy: {minAvailable: 2}}"))
  const why = page.getByRole("region", { name: "Why it is waiting" })
  await expect(why).toContainText("The gang is waiting for resources", { timeout: 30_000 })
  await expect(why).toContainText("nvidia.com/gpu", { timeout: 30_000 })
  const group = page.getByRole("region", { name: "PodGroup" })
  await expect(group).toContainText(/Waiting (in queue|for resources)/)
  await expectAccessible(page)
  await page.getByRole("button", { name: "Suspend" }).click()
  await page.getByRole("dialog").getByRole("button", { name: "Suspend" }).click()
  await expect(page.locator("header").getByText("Suspended")).toBeVisible({ timeout: 30_000 })
  await expect(why).toContainText("The job is suspended")
  await page.getByRole("button", { name: "Resume" }).click()
  await expect(page.locator("header").getByText("Waiting")).toBeVisible({ timeout: 30_000 })
})

test("a dropped file is checked, host access is refused in Chinese, and examples are offered", async ({ page }) => {
  await page.goto(url("/jobs/new"))
  await page.evaluate(() => localStorage.setItem("muster.language", "zh"))
  await page.reload()
  const text = manifest(named("host"), "true").replaceAll("        spec:", "        spec:\n          hostNetwork: true")
  const data = await page.evaluateHandle((content) => {
    const transfer = new DataTransfer()
    transfer.items.add(new File([content], "job.yaml"))
    return transfer
  }, text)
  await page.getByLabel("清单").dispatchEvent("drop", { dataTransfer: data })
  await expect(page.getByText("2 个问题")).toBeVisible()
  await expect(page.getByText("hostNetwork 会让 Pod 直接进入宿主机").first()).toBeVisible()
  await expectAccessible(page)
  for (const kind of ["PyTorchJob", "TFJob", "JAXJob", "MPIJob", "PaddleJob", "PaddleJob PaddleCloud", "XGBoostJob"]) {
    await page.getByRole("group", { name: "从示例开始" }).getByRole("button", { name: kind, exact: true }).click()
    await expect(page.getByText("校验通过。")).toBeVisible()
  }
  await page.setViewportSize({ width: 390, height: 844 })
  const wide = await page.evaluate(() => document.documentElement.scrollWidth)
  expect(wide).toBeLessThanOrEqual(390)
  await page.evaluate(() => localStorage.setItem("muster.language", "en"))
})

test("other users' jobs are not shown", async ({ page, browser }) => {
  const name = named("own")
  await submit(page, manifest(name, "sleep 60"))
  await expect(page.getByRole("heading", { name })).toBeVisible()
  const place = page.url()
  const context = await browser.newContext()
  const other = await context.newPage()
  const { signIn } = await import("./people")
  await signIn(other, "bob")
  await other.goto(place)
  await expect(other.getByText("Not found")).toBeVisible()
  await other.goto(url(`/jobs?q=${name}`))
  await expect(other.getByText("No results")).toBeVisible()
  await context.close()
})

test("the form and the manifest of a job stay in step, and what the job uses is drawn", async ({ page }) => {
  test.setTimeout(120_000)
  await page.goto(url("/jobs/new"))
  const text = page.getByLabel("Manifest")
  const form = page.getByRole("region", { name: "Form" })
  await form.getByLabel("Kind").selectOption("PyTorchJob (kubeflow.org/v1)")
  await expect(text).toHaveValue(/kind: PyTorchJob/)
  const name = named("form")
  await form.getByLabel("Name").fill(name)
  await expect(text).toHaveValue(new RegExp(`name: ${name}`))
  await expect(text).toHaveValue(/^# One Master/) // a comment stays

  const worker = form.getByRole("group", { name: "Worker" })
  const master = form.getByRole("group", { name: "Master" })
  await worker.getByRole("checkbox").uncheck()
  await expect(text).not.toHaveValue(/Worker:/)
  await master.getByLabel("Command").fill("for i in $(seq 8); do timeout 1 sh -c 'while :; do :; done'; done")
  await master.getByLabel("Memory").fill("lots")
  await expect(master.getByText(/lots/)).toBeVisible() // the server's error, beside the field
  await expect(page.getByRole("button", { name: "Submit", exact: true })).toBeDisabled()
  await expectAccessible(page)
  await master.getByLabel("Memory").fill("64Mi")
  await master.getByRole("button", { name: "Add variable" }).click()
  await master.getByRole("combobox", { name: "Variable" }).fill("ANSWER")
  await master.getByRole("textbox", { name: "Value" }).fill("no")
  await expect(text).toHaveValue(/name: ANSWER\s+value: "no"/)

  await text.fill((await text.inputValue()).replace("python:3.11", "python:3.12"))
  await expect(master.getByLabel("Image")).toHaveValue("python:3.12")
  await text.fill(`${await text.inputValue()}---\n${await text.inputValue()}`)
  await expect(form.getByText("The manifest has several documents.")).toBeVisible()
  await text.fill((await text.inputValue()).split("---\n")[0] as string)

  await expect(page.getByText("No problems found.")).toBeVisible()
  await page.getByRole("button", { name: "Submit", exact: true }).click()
  await expect(page.getByRole("heading", { name })).toBeVisible()
  await page.getByRole("tab", { name: "CPU and memory" }).click()
  await expect(page.getByRole("img", { name: "CPU (cores)" })).toBeVisible({ timeout: 60_000 })
  await expect(page.getByText(`limit: ${name}-master-0`)).toBeVisible()
  await expectAccessible(page)
})

test("a draft of the form of a job is offered again", async ({ page }) => {
  await page.goto(url("/jobs/new"))
  await page.getByRole("region", { name: "Form" }).getByLabel("Kind").selectOption("JAXJob (kubeflow.org/v1)")
  await page.getByRole("region", { name: "Form" }).getByLabel("Name").fill("half-typed")
  await page.waitForFunction(() => Object.values(localStorage).some((kept) => kept.includes("half-typed")))
  page.on("dialog", (dialog) => void dialog.accept())
  await page.reload()
  await page.getByRole("button", { name: "Restore draft" }).click()
  await expect(page.getByRole("region", { name: "Form" }).getByLabel("Name")).toHaveValue("half-typed")
})
