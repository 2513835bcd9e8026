/** A crash of the server and an expired login in the middle of each form: nothing that was typed is lost. */
import { type BrowserContext, expect, type Page } from "@playwright/test"
import { listen, signIn, test } from "./people"
import { client, type Server, startServer } from "./server"
import { PASSWORD } from "./setup"

interface Form {
  path: string
  /** The buttons that open it. */
  open?: string[]
  /** What is typed, by label. */
  typed: Record<string, string>
  /** What is not stored in the browser, and has to be typed again after the login has expired. */
  secret?: Record<string, string>
  /** A button that sends the form as it is filled in here. */
  submit?: string
  /** What was typed is offered after the login has expired, not filled in at once. */
  offers?: boolean
}

const FORMS: Record<string, Form> = {
  canvas: {
    path: "/workflows/new",
    typed: { "Workflow name": "my flow", "What changed in this version": "all of it" },
    submit: "Save",
    offers: true,
  },
  job: { path: "/jobs/new", typed: { Manifest: "kind: PyTorchJob\n# typed" }, offers: true },
  schedule: {
    path: "/schedules/new",
    typed: { Name: "nightly", When: "0 3 * * *", Workflow: "kind: Workflow\n# typed" },
    submit: "Create schedule",
    offers: true,
  },
  module: {
    path: "/modules/new",
    typed: { "Module name": "counter", "Git URL": "https://git.example.com/counter.git", "Branch or tag": "main" },
    offers: true,
  },
  run: { path: "/runs/new", typed: { "Run name": "my run" }, offers: true },
  webhook: {
    path: "/account?tab=notifications",
    open: ["Add webhook"],
    typed: { Name: "chat" },
    secret: { URL: "https://hooks.example.com/typed", Secret: "typed-secret" },
    submit: "Save",
  },
  notebook: { path: "/notebooks/new", typed: { Name: "lab", CPU: "3", Memory: "5Gi" }, submit: "Create" },
  TensorBoard: {
    path: "/tensorboards",
    open: ["New TensorBoard"],
    typed: { Name: "curves", "Folder or URL": "s3://typed/logs" },
    submit: "Create",
  },
  volume: { path: "/volumes", open: ["New volume"], typed: { Name: "data", Size: "7Gi" }, submit: "Create" },
  "dispatched job": {
    path: "/dispatch",
    open: ["Submit job", "Add variable"],
    typed: { Name: "typed-job", Image: "busybox", Command: "echo typed", Variable: "A", Value: "b" },
    submit: "Submit",
  },
  "pipeline run": { path: "/pipelines/runs/new?recurring=true", typed: { Description: "typed", Every: "7" } },
  experiment: {
    path: "/pipelines/experiments",
    open: ["New experiment"],
    typed: { Name: "typed", Description: "why" },
    submit: "Create",
  },
  profile: { path: "/account", typed: { "Full name": "Ann Typed", Email: "ann@example.com" }, submit: "Save" },
  token: { path: "/account?tab=tokens", open: ["New token"], typed: { Purpose: "ci" }, submit: "Create" },
  storage: {
    path: "/admin?tab=storage",
    open: ["New storage root"],
    typed: { Name: "nfs", "Mount path": "/nfs/typed" },
    submit: "Create",
  },
}

const control = (page: Page, label: string) => {
  const place = page.getByRole("dialog").or(page.locator("main")).last()
  return place.getByLabel(label).filter({ visible: true }).first()
}

async function open(page: Page, address: string, form: Form): Promise<void> {
  await page.goto(address + form.path)
  for (const button of form.open ?? []) await page.getByRole("button", { name: button }).first().click()
}

async function expectTyped(page: Page, typed: Record<string, string>): Promise<void> {
  for (const [label, text] of Object.entries(typed)) await expect(control(page, label), label).toHaveValue(text)
}

test.describe("nothing that was typed is lost", () => {
  test.describe.configure({ mode: "serial" })
  let server: Server
  let context: BrowserContext
  const pages = new Map<string, Page>()

  test.beforeAll(async ({ browser }) => {
    server = await startServer()
    await client(server.url, server.token)("POST", "users", { name: "ann", password: PASSWORD, role: "admin" })
    context = await browser.newContext({ viewport: { width: 1440, height: 900 }, locale: "en-GB" })
  })
  test.afterAll(async () => {
    await context?.close()
    await server?.stop()
  })

  test("by a crash of the server", async () => {
    test.setTimeout(400_000)
    await signIn(await context.newPage(), "ann", server.url)
    for (const [name, form] of Object.entries(FORMS)) {
      const page = await context.newPage()
      pages.set(name, page)
      await test.step(`the ${name} form is filled in`, async () => {
        await open(page, server.url, form)
        for (const [label, text] of Object.entries({ ...form.typed, ...form.secret }))
          await control(page, label).fill(text)
      })
    }
    await server.kill()
    for (const [name, page] of pages)
      await test.step(`the ${name} form is kept while there is no server`, async () => {
        const { typed, secret, submit } = FORMS[name] as Form
        // What is on the page is loaded again when the user comes back to the tab.
        await page.bringToFront()
        await page.evaluate(() => window.dispatchEvent(new Event("visibilitychange")))
        if (submit) {
          await page.getByRole("button", { name: submit, exact: true }).last().click()
          await expect(page.getByText("The server is not responding").first()).toBeVisible()
        }
        await expectTyped(page, { ...typed, ...secret })
      })
    await server.start()
    for (const [name, page] of pages)
      await test.step(`the ${name} form is kept when the server is back`, async () => {
        const { typed, secret } = FORMS[name] as Form
        await page.bringToFront()
        await page.evaluate(() => window.dispatchEvent(new Event("visibilitychange")))
        await expectTyped(page, { ...typed, ...secret })
      })
    await test.step("and can be sent", async () => {
      const page = pages.get("volume") as Page
      await page.bringToFront()
      const complaints = listen(page)
      await page.getByRole("button", { name: "Create", exact: true }).last().click()
      await expect(page.getByRole("heading", { name: "data" })).toBeVisible()
      pages.delete("volume")
      expect(complaints).toEqual([])
    })
  })

  test("by an expired login", async () => {
    test.setTimeout(400_000)
    for (const [name, page] of pages)
      await test.step(name, async () => {
        const form = FORMS[name] as Form
        await page.bringToFront()
        await context.clearCookies()
        page.on("dialog", (dialog) => void dialog.accept()) // the browser asks before a page with changes is left
        const heading = page.getByRole("heading", { name: /Sign in/ })
        await expect(async () => {
          // Pages that load something every few seconds notice it by themselves.
          if (await heading.isVisible()) return
          if (form.submit)
            await page.getByRole("button", { name: form.submit, exact: true }).last().click({ timeout: 2000 })
          else await page.reload()
          await expect(heading).toBeVisible({ timeout: 10_000 })
        }).toPass()
        await signIn(page, "ann", server.url)
        await open(page, server.url, form.offers ? { ...form, open: [] } : { ...form, open: form.open?.slice(0, 1) })
        if (form.offers) await page.getByRole("button", { name: "Restore draft" }).click()
        await expectTyped(page, form.typed)
        for (const label of Object.keys(form.secret ?? {})) await expect(control(page, label)).toHaveValue("")
      })
  })
})
