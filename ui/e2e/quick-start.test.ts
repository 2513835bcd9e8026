/** The quick start of the handbook, step by step with the mouse, in Chinese as it was written. */
import { expect, type Page } from "@playwright/test"
import { api, expectAccessible, fresh, posted, test } from "./people"
import { newRepository } from "./repositories"

const url = (path = "") => `${process.env.MUSTER_URL}${path}`
const node = (page: Page, name: string) => page.locator(".react-flow__node").filter({ hasText: name })

test.use({ locale: "zh-CN" })

/** Creates a module and waits until it is built. */
async function moduleThere(page: Page, name: string): Promise<void> {
  const category = `${name} texts`
  await api()("POST", "categories", { name: category })
  await posted(page, "modules", {
    name,
    category,
    description: "计算文本的摘要",
    git_url: newRepository(name).path,
    git_ref: "main",
    inputs: [{ name: "text", description: "文本" }],
    outputs: [{ name: "digest", path: "/tmp/workflow_space/digest.txt", type: "text" }],
  })
  const state = async () =>
    (await (await page.request.get(url(`/api/v1/modules/${name}/versions/1`))).json()) as { state: string }
  await expect.poll(async () => (await state()).state, { timeout: 120_000 }).toBe("private")
}

async function connect(page: Page, from: string, to: string): Promise<void> {
  const start = await node(page, from).locator(".react-flow__handle-bottom").boundingBox()
  const end = await node(page, to).locator(".react-flow__handle-top").boundingBox()
  if (!start || !end) throw new Error("there is no such node")
  await page.mouse.move(start.x + start.width / 2, start.y + start.height / 2)
  await page.mouse.down()
  await page.mouse.move(end.x, end.y - 20, { steps: 8 })
  await page.mouse.move(end.x + end.width / 2, end.y + end.height / 2, { steps: 4 })
  await page.mouse.up()
}

test("快速开始", { tag: "@smoke" }, async ({ page }) => {
  test.setTimeout(300_000)
  const name = fresh("快速开始")
  const module = fresh("hash").replaceAll(" ", "-")
  await moduleThere(page, module)
  const side = page.getByRole("complementary", { name: /工作流节点|基本信息/ })

  await test.step("1. 工作流页面点击创建工作流", async () => {
    await page.goto(url("/"))
    await page.getByRole("link", { name: "工作流", exact: true }).click()
    await page.getByRole("link", { name: "创建工作流" }).first().click()
  })

  await test.step("2. 填写基本信息", async () => {
    await side.getByLabel("工作流名称").fill(name)
    await side.getByLabel("描述").first().fill("按手册一步一步创建")
  })

  const canvas = page.getByTestId("canvas")
  const plain = page.getByRole("button", { name: /普通节点/ })

  await test.step("3. 编辑初始输入参数和节点依赖关系", async () => {
    await side.getByRole("button", { name: "添加参数" }).click()
    await side.getByLabel("名称", { exact: true }).fill("greeting")
    await side.getByLabel("默认值").fill("hello")
    await plain.dragTo(canvas, { targetPosition: { x: 340, y: 60 } })
    await side.getByLabel("任务名称").fill("step1")
    await plain.dragTo(canvas, { targetPosition: { x: 340, y: 330 } })
    await side.getByLabel("任务名称").fill("step2")
  })

  await test.step("4. 添加模块节点", async () => {
    await page.getByRole("button", { name: "我的", exact: true }).click()
    await page.getByLabel("搜索模块").fill(module)
    await page.getByRole("button", { name: module }).dragTo(canvas, { targetPosition: { x: 340, y: 195 } })
    await side.getByLabel("任务名称").fill("digest")
    await connect(page, "step1", "digest")
    await expect(page.locator(".react-flow__edge")).toHaveCount(1)
    await connect(page, "digest", "step2")
    await expect(page.locator(".react-flow__edge")).toHaveCount(2)
  })

  await test.step("5. 编辑节点信息", async () => {
    await node(page, "step1").click()
    await side.getByLabel("执行命令").first().fill("echo $greeting, muster > /tmp/said.txt; cat /tmp/said.txt")
    await side.getByLabel("镜像地址").fill("python:3.11")
    await side.getByRole("button", { name: "添加输入参数" }).click()
    await side.getByLabel("名称", { exact: true }).fill("greeting")
    await side.getByLabel("取值来源").selectOption({ label: "greeting" })
    await side.getByRole("button", { name: "添加输出参数" }).click()
    await side.getByLabel("名称", { exact: true }).nth(1).fill("said")
    await side.getByLabel("输出文件路径").fill("/tmp/said.txt")

    await node(page, "digest").click()
    await side.getByLabel("取值来源").selectOption({ label: "step1.said (普通文本)" })

    await node(page, "step2").click()
    await side.getByLabel("执行命令").first().fill("echo the digest is $digest; test $MUSTER_NO_SUCH_THING")
    await side.getByLabel("镜像地址").fill("python:3.11")
    await side.getByLabel("重试次数").fill("1")
    await side.getByRole("button", { name: "添加输入参数" }).click()
    await side.getByLabel("名称", { exact: true }).fill("digest")
    await side.getByLabel("取值来源").selectOption({ label: "digest.digest (普通文本)" })
    await expect(page.getByRole("region", { name: "问题" }).getByText(/错误/)).toHaveCount(0)
    await expectAccessible(page)
  })

  await test.step("6. 保存工作流信息", async () => {
    await page.getByRole("button", { name: "保存" }).click()
    await expect(page.getByRole("heading", { name: `${name} · v1` })).toBeVisible()
  })

  await test.step("7. 保存的工作流可在工作流列表查看，点击运行按钮，跳转到创建运行实例界面", async () => {
    await page.getByRole("link", { name: "工作流", exact: true }).first().click()
    await expect(page.getByRole("row").filter({ hasText: name })).toBeVisible()
    await page.getByRole("link", { name: `运行 ${name}` }).click()
    await expect(page.getByRole("heading", { name: "创建运行实例" })).toBeVisible()
  })

  await test.step("8. 编辑运行实例名称后输入参数后，点击创建", async () => {
    await page.getByLabel("运行实例名称").fill(`${name} 一`)
    await page.getByLabel("greeting").fill("您好")
    await page.getByRole("button", { name: "创建", exact: true }).click()
    await expect(page.getByRole("heading", { name: `${name} 一` })).toBeVisible()
  })

  await test.step("9. 创建后可在运行实例列表点击查看运行实例", async () => {
    await page.getByRole("link", { name: "运行实例", exact: true }).first().click()
    await page.getByRole("link", { name: `${name} 一` }).click()
  })

  await test.step("10. 节点颜色表示该步骤的运行状态，节点名称后面括号里的数字表示重试次数", async () => {
    const painted = (name: string, state: string) => node(page, name).locator(`[data-state=${state}]`)
    await expect(painted("step1", "succeeded")).toBeVisible({ timeout: 90_000 })
    await expect(painted("digest", "succeeded")).toBeVisible({ timeout: 90_000 })
    await expect(painted("step2", "failed")).toBeVisible({ timeout: 90_000 })
    await expect(node(page, "step2")).toContainText("step2(1)")
    const colour = (locator: ReturnType<typeof painted>) =>
      locator.evaluate((element) => getComputedStyle(element).borderColor)
    expect(await colour(painted("step1", "succeeded"))).not.toBe(await colour(painted("step2", "failed")))
  })

  await test.step("11. 点击流程图中的单个节点，可以看到该步骤运行的详细信息", async () => {
    const panel = page.getByRole("complementary", { name: "详情" })
    await node(page, "step2").click()
    await panel.getByRole("tab", { name: "输入输出" }).click()
    await expect(panel.getByText("来自 digest.digest")).toBeVisible()
    await panel.getByRole("tab", { name: "详情" }).click()
    await expect(panel.getByText("退出码 1").first()).toBeVisible()
    await panel.getByRole("tab", { name: "日志" }).click()
    await expect(panel.getByRole("log")).toContainText(/the digest is [0-9a-f]{64}/)
    await panel.getByRole("tab", { name: "容器" }).click()
    await expect(panel.getByText("main", { exact: true }).first()).toBeVisible()
    await panel.getByRole("tab", { name: "k8s 事件" }).click()
    await expect(panel.getByText(/Scheduled|Started/).first()).toBeVisible()
    await expectAccessible(page)
  })
})
