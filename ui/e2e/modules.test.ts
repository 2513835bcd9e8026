import { type Browser, test as base, expect, type Page } from "@playwright/test"
import { api, expectAccessible, listen, signIn } from "./people"
import { FILES, newRepository, README, UNWANTED } from "./repositories"
import { PASSWORD } from "./setup"

const url = (path = "") => `${process.env.MUSTER_URL}${path}`
const node = (page: Page, name: string) => page.locator(".react-flow__node").filter({ hasText: name })

interface Story {
  /** Writes modules. */
  nia: Page
  /** Leads Nia's team. */
  leo: Page
  /** The prefix of the names of modules. */
  stem: string
}

let told = 0

const test = base.extend<{ story: Story }>({
  story: async ({ browser }, use) => {
    told += 1
    const stem = `m${Date.now().toString(36)}${told}`
    const server = api()
    await server("POST", "categories", { name: `${stem} texts`, description: "Texts" })
    await server("POST", "teams", { name: `${stem}-team` })
    for (const [name, role] of [
      ["nia", "member"],
      ["leo", "leader"],
    ] as const) {
      await server("POST", "users", { name: `${stem}-${name}`, password: PASSWORD })
      await server("PUT", `teams/${stem}-team/members/${stem}-${name}`, { role })
    }
    const [nia, leo] = [await person(browser, `${stem}-nia`), await person(browser, `${stem}-leo`)]
    await use({ nia: nia.page, leo: leo.page, stem })
    expect([...nia.complaints, ...leo.complaints]).toEqual([])
    await nia.page.context().close()
    await leo.page.context().close()
  },
})

async function person(browser: Browser, name: string): Promise<{ page: Page; complaints: string[] }> {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, locale: "en-GB" })
  const page = await context.newPage()
  const complaints = listen(page)
  await signIn(page, name)
  return { page, complaints }
}

async function fillIn(page: Page, stem: string, name: string, repository: string): Promise<void> {
  await page.getByLabel("Category").selectOption({ label: `${stem} texts` })
  await page.getByLabel("Module name").fill(name)
  await page.getByLabel("Description").first().fill("Hashes texts")
  await page.getByLabel("Git URL").fill(repository)
}

test("a module is built, reviewed by someone else, and used by everyone", async ({ story: { nia, leo, stem } }) => {
  base.setTimeout(360_000)
  const name = `${stem}-hash`
  const repository = newRepository(name, { ...FILES, "README.md": README + UNWANTED })

  await nia.goto(url("/modules"))
  await nia.getByRole("link", { name: "Create module" }).first().click()
  await expectAccessible(nia)
  await nia.getByRole("button", { name: "Create and build" }).click()
  await expect(nia.getByText("Required").first()).toBeVisible()
  await expect(nia.getByLabel("Category")).toBeFocused()
  await fillIn(nia, stem, "Hash It", repository.path)
  await expect(nia.getByText("Use 1 to 63 lowercase letters").first()).toBeVisible()
  await nia.getByLabel("Module name").fill(name)
  await nia.getByRole("button", { name: "Add input" }).click()
  await nia.getByLabel("Name", { exact: true }).fill("text")
  await nia.getByRole("button", { name: "Add output" }).click()
  await nia.getByLabel("Name", { exact: true }).nth(1).fill("digest")
  await nia.getByLabel("Path", { exact: true }).fill("digest.txt")
  await nia.getByRole("button", { name: "Add variable" }).click()
  await nia.getByLabel("Variable").fill("ACCESS_KEY")
  await nia.getByLabel("Value").fill("hunter2")
  await nia.getByLabel("Secret").check()
  await nia.getByRole("button", { name: "Create and build" }).click()
  await expect(nia.getByText("Use an absolute path")).toBeVisible()
  await expectAccessible(nia)
  await nia.getByLabel("Path", { exact: true }).fill("/tmp/workflow_space/digest.txt")
  await nia.getByRole("button", { name: "Create and build" }).click()

  await expect(nia.getByRole("heading", { name })).toBeVisible()
  await expect(nia.getByRole("log")).toContainText("the source is valid", { timeout: 60_000 })
  await expect(nia.getByRole("button", { name: "Request publication" })).toBeVisible({ timeout: 60_000 })
  await nia.getByRole("tab", { name: "README" }).click()
  await expect(nia.getByRole("heading", { name: "Hash a text" })).toBeVisible()
  await expect(nia.getByRole("article").getByRole("table")).toContainText("64 hexadecimal digits")
  await expect(nia.getByRole("article")).toContainText("a picture")
  await expect(nia.getByRole("article").locator("img")).toHaveCount(0)
  await expect(nia.getByRole("article")).not.toContainText("stolen")
  await expectAccessible(nia)
  await nia.getByRole("tab", { name: "Parameters" }).click()
  await expect(nia.getByText("/tmp/workflow_space/digest.txt")).toBeVisible()
  await expectAccessible(nia)

  // No one else has it yet; the author can request publication, but not decide.
  await leo.goto(url("/workflows/new"))
  await expect(leo.getByRole("button", { name: /Plain node/ })).toBeVisible()
  await leo.getByLabel("Search modules").fill(name)
  await expect(leo.getByText("No modules here yet")).toBeVisible()
  await nia.getByRole("button", { name: "Request publication" }).click()
  await nia.getByLabel("Message to the reviewer").fill("We use it every day")
  await expectAccessible(nia)
  await nia.getByRole("dialog").getByRole("button", { name: "Request publication" }).click()
  await expect(nia.getByText("is waiting for review", { exact: false }).first()).toBeVisible()
  await nia.getByRole("link", { name: "View review" }).click()
  await expect(nia.getByText("You cannot review your own module")).toBeVisible()
  await expect(nia.getByRole("button", { name: "Approve" })).toHaveCount(0)

  // The review is rejected with a reason.
  await leo.goto(url("/"))
  await leo.getByRole("link", { name: `${name} v1` }).click()
  await expect(leo.getByText("We use it every day")).toBeVisible()
  await expect(leo.getByText("This module has not been published before")).toBeVisible()
  await expectAccessible(leo)
  await leo.getByRole("tab", { name: "Build log" }).click()
  await expect(leo.getByRole("log")).toContainText("commit ")
  await leo.getByRole("tab", { name: "Source" }).click()
  await expect(leo.getByText("Select a file to read it.")).toBeVisible()
  await leo.getByRole("button", { name: "main.py" }).click()
  await expect(leo.getByRole("region", { name: "Source" })).toContainText("hashlib.sha256")
  await expectAccessible(leo)
  await leo.getByRole("button", { name: "Reject" }).click()
  await leo.getByRole("dialog").getByRole("button", { name: "Reject" }).click()
  await expect(leo.getByRole("dialog")).toContainText("The reason is missing")
  await leo.getByLabel("Reason").fill("The readme says nothing of the limits")
  await leo.getByRole("dialog").getByRole("button", { name: "Reject" }).click()
  await expect(leo.locator("main").getByText("Rejected").first()).toBeVisible()

  // Nia sees it on her start page, fixes it in a new version and requests publication again.
  await nia.goto(url("/"))
  await expect(nia.getByRole("listitem").filter({ hasText: name })).toContainText("The review rejected this module.")
  await nia.goto(url(`/modules/${name}`))
  await expect(nia.getByText("The readme says nothing of the limits").first()).toBeVisible()
  await nia.getByRole("tab", { name: "Versions" }).click()
  await expect(nia.getByRole("link", { name: `rejected by ${stem}-leo` })).toBeVisible()
  repository.commit({ "README.md": `${README}\n## Limits\n\nTexts of up to 1 MB.\n` })
  await nia.getByRole("link", { name: "New version" }).click()
  await expect(nia.getByLabel("Git URL")).toHaveValue(repository.path)
  await nia.getByLabel("Description").nth(1).fill("what to hash")
  await nia.getByRole("button", { name: "Save" }).click()
  await expect(nia.getByRole("button", { name: "Request publication" })).toBeVisible({ timeout: 60_000 })
  await nia.getByRole("button", { name: "Request publication" }).click()
  await nia.getByRole("dialog").getByRole("button", { name: "Request publication" }).click()
  await expect(nia.getByRole("button", { name: "Withdraw" })).toBeVisible()

  await leo.goto(url("/reviews"))
  await expectAccessible(leo)
  await leo.getByRole("link", { name: `${name} v2` }).click()
  await leo.getByRole("tab", { name: "README" }).click()
  await expect(leo.getByText("Texts of up to 1 MB.")).toBeVisible()
  await leo.getByRole("button", { name: "Approve" }).click()
  await leo.getByRole("dialog").getByRole("button", { name: "Approve" }).click()
  await expect(leo.locator("main").getByText("Approved").first()).toBeVisible()
  await expect(leo.getByRole("button", { name: "Approve" })).toHaveCount(0)

  // A third version is compared with the published one.
  await nia.reload()
  await expect(nia.locator("header").getByText("Published")).toBeVisible()
  await nia.getByRole("button", { name: "More" }).click()
  await nia.getByRole("menuitem", { name: "Rebuild" }).click()
  repository.commit({ "README.md": `${README}\n## Limits\n\nTexts of any length.\n` })
  await nia.getByRole("dialog").getByRole("button", { name: "Rebuild" }).click()
  await expect(nia.getByRole("button", { name: "Request publication" })).toBeVisible({ timeout: 60_000 })
  await nia.getByRole("button", { name: "Request publication" }).click()
  await nia.getByRole("dialog").getByRole("button", { name: "Request publication" }).click()
  await nia.getByRole("link", { name: "View review" }).click()
  await expect(nia.getByText("Compared with v2, the published version")).toBeVisible()
  await expect(nia.getByText("Texts of any length.")).toBeVisible()
  await nia.getByRole("tab", { name: "Source" }).click()
  await expect(nia.getByText("Compared with version 2")).toBeVisible()
  const files = nia.getByRole("navigation", { name: "Files" })
  await expect(files.getByRole("button")).toHaveCount(1)
  await expect(files.getByRole("button", { name: "README.md" })).toHaveAttribute("aria-current", "true")
  const source = nia.getByRole("region", { name: "Source" })
  await expect(source).toContainText("Texts of up to 1 MB.")
  await expect(source).toContainText("Texts of any length.")
  await expectAccessible(nia)
  await source.getByRole("button", { name: "Whole file" }).click()
  await expect(source).not.toContainText("Texts of up to 1 MB.")
  await nia.getByLabel(/^Only changed files/).uncheck()
  await expect(files.getByRole("button", { name: "main.py" })).toBeVisible()
  await nia.getByRole("button", { name: "Withdraw" }).click()
  await nia.getByRole("dialog").getByRole("button", { name: "Withdraw" }).click()
  await expect(nia.locator("main").getByText("Withdrawn").first()).toBeVisible()

  // Everyone finds it in the catalogue and in the editor.
  await leo.goto(url("/modules"))
  await leo.getByRole("button", { name: "Published" }).click()
  await leo.getByRole("searchbox", { name: "Search modules" }).fill(name)
  await expect(leo.getByRole("list", { name: "Modules" }).getByRole("listitem")).toHaveCount(1)
  await expect(leo).toHaveURL(/show=published/)
  await expectAccessible(leo)
  await leo.getByRole("link", { name }).click()
  await leo.getByRole("combobox", { name: "Version" }).selectOption({ label: "v2 · Published" })
  await leo.getByRole("link", { name: "Use in a workflow" }).click()
  await expect(node(leo, name)).toBeVisible()
  await leo.getByLabel("Search modules").fill(name)
  await expect(leo.getByRole("button", { name: new RegExp(name) }).first()).toBeVisible()

  await nia.goto(url(`/modules/${name}?version=2`))
  await nia.getByRole("button", { name: "More" }).click()
  await nia.getByRole("menuitem", { name: "Deprecate" }).click()
  await nia.getByRole("dialog").getByRole("button", { name: "Deprecate" }).click()
  await expect(nia.getByText("This version is deprecated", { exact: false })).toBeVisible()
  await nia.getByRole("button", { name: "Publish again" }).click()
  await expect(nia.locator("header").getByText("Published")).toBeVisible()
})

test("a failed build says why, and is rebuilt after a fix", async ({ story: { nia, stem } }) => {
  const name = `${stem}-broken`
  const repository = newRepository(name, { ...FILES, Dockerfile: "FROM python:3.11-slim\nCMD python3 main.py\n" })
  await nia.goto(url("/modules/new"))
  await fillIn(nia, stem, name, repository.path)
  await nia.getByRole("button", { name: "Create and build" }).click()
  await expect(nia.getByText("The build failed")).toBeVisible({ timeout: 60_000 })
  await expect(nia.getByRole("log")).toContainText("error: Dockerfile")
  await nia.getByLabel("Search log").fill("entrypoint")
  await expect(nia.getByText("1 of")).toBeVisible()
  await expectAccessible(nia)
  repository.commit(FILES)
  await nia.locator("main").getByRole("button", { name: "Rebuild" }).click()
  await expect(nia.getByRole("button", { name: "Request publication" })).toBeVisible({ timeout: 60_000 })
  await nia.getByRole("tab", { name: "Build log" }).click()
  await expect(nia.getByRole("log")).toContainText("the build starts again")
  await expect(nia.getByRole("log")).toContainText("the source is valid")
  await nia.getByRole("button", { name: "More" }).click()
  await nia.getByRole("menuitem", { name: "Delete" }).click()
  await nia.getByRole("dialog").getByRole("button", { name: "Delete" }).click()
  await expect(nia.getByRole("heading", { name: "Modules" })).toBeVisible()
  await nia.goto(url(`/modules/${name}`))
  await expect(nia.getByRole("alert")).toContainText("Module not found")
})

test("the module form in Chinese, and on a phone", async ({ story: { nia, stem } }) => {
  const name = `${stem}-phone`
  const repository = newRepository(name)
  await nia.addInitScript(() => localStorage.setItem("muster.language", "zh"))
  await nia.setViewportSize({ width: 390, height: 800 })
  await nia.goto(url("/modules/new"))
  await nia.getByLabel("功能分类").selectOption({ label: `${stem} texts` })
  await nia.getByLabel("模块名称").fill(name)
  await nia.getByLabel("git 地址").fill("ftp://example.com/x.git")
  await nia.getByRole("button", { name: "提交" }).click()
  await expect(nia.getByText("该 git 地址无法使用")).toBeVisible()
  await expectFits(nia)
  await nia.getByLabel("git 地址").fill(repository.path)
  await nia.getByRole("button", { name: "提交" }).click()
  await expect(nia.getByRole("button", { name: "申请发布" })).toBeVisible({ timeout: 60_000 })
  for (const tab of ["说明文档", "参数", "版本", "构建日志"]) {
    await nia.getByRole("tab", { name: tab }).click()
    await expectFits(nia)
  }
  await nia.goto(url("/modules?show=mine"))
  await expect(nia.getByRole("link", { name })).toBeVisible()
  await expectFits(nia)
  await expectAccessible(nia)
  await nia.goto(url("/reviews"))
  await expect(nia.getByText("还没有审核记录")).toBeVisible()
  await expectFits(nia)
  await expectAccessible(nia)
})

/** Nothing is wider than the window. */
async function expectFits(page: Page): Promise<void> {
  const wide = await page.evaluate(() => {
    const main = document.querySelector("main") as HTMLElement
    return main.scrollWidth - main.clientWidth
  })
  expect(wide).toBe(0)
}
