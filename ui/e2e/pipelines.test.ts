/** Kubeflow Pipelines by mouse: experiment, upload, graph, run, results. The pipeline needs nothing but a shell. */
import { expect, type Page } from "@playwright/test"
import { expectAccessible, fresh, test } from "./people"

const url = (path = "") => `${process.env.MUSTER_URL}${path}`

const shell = (...command: string[]) => ({ container: { image: "python:3.11", command: ["sh", "-ec", ...command] } })
const artifact = (type: string) => ({ artifactType: { schemaTitle: `system.${type}`, schemaVersion: "0.0.1" } })

/** The metadata that a component with `Output[Metrics]` and `Output[ClassificationMetrics]` writes. */
const METADATA = {
  artifacts: {
    scores: { artifacts: [{ name: "scores", metadata: { accuracy: 0.875, images: 450 } }] },
    quality: {
      artifacts: [
        {
          name: "quality",
          metadata: {
            confidenceMetrics: [
              { confidenceThreshold: 1, recall: 0, falsePositiveRate: 0 },
              { confidenceThreshold: 0.5, recall: 0.8, falsePositiveRate: 0.1 },
              { confidenceThreshold: 0, recall: 1, falsePositiveRate: 1 },
            ],
            confusionMatrix: {
              annotationSpecs: [{ displayName: "cat" }, { displayName: "dog" }],
              rows: [{ row: [31, 9] }, { row: [4, 36] }],
            },
          },
        },
      ],
    },
  },
}

const PIPELINE = {
  pipelineInfo: { name: "train-and-predict", description: "Train a model and look at it" },
  schemaVersion: "2.1.0",
  root: {
    inputDefinitions: {
      parameters: {
        who: { parameterType: "STRING", description: "whom to greet" },
        trees: { parameterType: "NUMBER_INTEGER", defaultValue: 100, isOptional: true },
      },
    },
    dag: {
      tasks: {
        prepare: {
          componentRef: { name: "comp-prepare" },
          taskInfo: { name: "prepare" },
          inputs: { parameters: { who: { componentInputParameter: "who" } } },
        },
        "for-loop-1": {
          componentRef: { name: "comp-for-loop-1" },
          taskInfo: { name: "for-loop-1" },
          dependentTasks: ["prepare"],
          parameterIterator: { itemInput: "item", items: { raw: '["small", "large"]' } },
        },
        train: {
          componentRef: { name: "comp-train" },
          taskInfo: { name: "train" },
          inputs: {
            artifacts: { note: { taskOutputArtifact: { producerTask: "prepare", outputArtifactKey: "note" } } },
          },
        },
      },
    },
  },
  components: {
    "comp-prepare": {
      executorLabel: "exec-prepare",
      inputDefinitions: { parameters: { who: { parameterType: "STRING" } } },
      outputDefinitions: {
        parameters: { greeting: { parameterType: "STRING" } },
        artifacts: { note: artifact("Dataset") },
      },
    },
    "comp-for-loop-1": {
      inputDefinitions: { parameters: { item: { parameterType: "STRING" } } },
      dag: {
        tasks: {
          check: {
            componentRef: { name: "comp-check" },
            taskInfo: { name: "check" },
            inputs: { parameters: { size: { componentInputParameter: "item" } } },
          },
        },
      },
    },
    "comp-check": {
      executorLabel: "exec-check",
      inputDefinitions: { parameters: { size: { parameterType: "STRING" } } },
    },
    "comp-train": {
      executorLabel: "exec-train",
      inputDefinitions: { artifacts: { note: artifact("Dataset") } },
      outputDefinitions: {
        artifacts: {
          scores: artifact("Metrics"),
          quality: artifact("ClassificationMetrics"),
          page: artifact("HTML"),
          summary: artifact("Markdown"),
        },
      },
    },
  },
  deploymentSpec: {
    executors: {
      "exec-prepare": shell(
        'echo "preparing for $0"; echo -n "hello $0" > $1; echo noted > $2',
        "{{$.inputs.parameters['who']}}",
        "{{$.outputs.parameters['greeting'].output_file}}",
        "{{$.outputs.artifacts['note'].path}}",
      ),
      "exec-check": shell('echo "checking $0"', "{{$.inputs.parameters['size']}}"),
      "exec-train": shell(
        `echo '<h1>A page</h1>' > $0; ` +
          `printf '# Summary\\n\\nIt is **good**.\\n' > $1; echo '${JSON.stringify(METADATA)}' > $2; echo trained`,
        "{{$.outputs.artifacts['page'].path}}",
        "{{$.outputs.artifacts['summary'].path}}",
        "{{$.outputs.output_file}}",
      ),
    },
  },
}

const node = (page: Page, name: string) => page.locator(".react-flow__node").filter({ hasText: name })

/** Chooses the file of the pipeline in the dialog, and uploads it. */
async function upload(page: Page, name: string, description = ""): Promise<void> {
  const dialog = page.getByRole("dialog")
  await dialog.getByLabel("File").setInputFiles({
    name: "pipeline.json",
    mimeType: "application/json",
    buffer: Buffer.from(JSON.stringify(PIPELINE)),
  })
  await dialog.getByLabel("Name").fill(name)
  await dialog.getByLabel("Description").fill(description)
  await dialog.getByRole("button", { name: "Upload" }).click()
}

test("a pipeline is uploaded, run, looked at, cloned and compared @smoke", async ({ page }) => {
  test.setTimeout(180_000)
  const [experiment, pipeline] = [fresh("digits"), fresh("train")]

  // 1. Create an experiment.
  await page.goto(url("/"))
  await page.getByRole("navigation", { name: "Main navigation" }).getByRole("link", { name: "Pipelines" }).click()
  await page.getByRole("link", { name: "Experiments" }).click()
  await page.getByRole("button", { name: "New experiment" }).first().click()
  await page.getByLabel("Name", { exact: true }).fill(experiment)
  await page.getByRole("button", { name: "Create", exact: true }).click()
  await expect(page.getByRole("heading", { name: experiment })).toBeVisible()

  // 2. Upload a pipeline; a file that is none is refused with a reason.
  await page.getByRole("navigation", { name: "Main navigation" }).getByRole("link", { name: "Pipelines" }).click()
  await page.getByRole("button", { name: "Upload pipeline" }).first().click()
  await page
    .getByLabel("File")
    .setInputFiles({ name: "wrong.yaml", mimeType: "text/plain", buffer: Buffer.from("pipelineInfo: 3") })
  await page.getByRole("button", { name: "Upload", exact: true }).click()
  await expect(page.getByRole("alert")).toContainText("pipelineInfo")
  await upload(page, pipeline, "Digits")
  await expect(page.getByRole("heading", { name: pipeline })).toBeVisible()

  // 3. See the graph; a loop opens in place.
  await expect(node(page, "prepare")).toBeVisible()
  await expect(node(page, "scores")).toBeVisible()
  await page.getByRole("button", { name: "Show what is inside for-loop-1" }).click()
  await expect(node(page, "check")).toBeVisible()
  await expectAccessible(page)
  await page.getByRole("tab", { name: "Pipeline spec" }).click()
  await expect(page.getByRole("region", { name: "Pipeline spec" })).toContainText("name: train-and-predict")

  // 4. Create a run.
  await page.getByRole("button", { name: "Create run" }).click()
  await expect(page.getByLabel("trees")).toHaveValue("100")
  await page.getByLabel("Name", { exact: true }).fill("first")
  await page.getByLabel("Experiment").selectOption({ label: experiment })
  await page.getByRole("button", { name: "Create", exact: true }).click()
  await expect(page.getByText("This parameter needs a value.")).toBeVisible()
  await page.getByLabel("who").fill("ann")
  await expectAccessible(page)
  await page.getByRole("button", { name: "Create", exact: true }).click()

  // 5. Look at the results.
  await expect(page.getByRole("heading", { name: "first" })).toBeVisible()
  await expect(page.locator("header").getByText("Succeeded")).toBeVisible({ timeout: 60_000 })
  const panel = page.getByRole("complementary", { name: "Details" })
  await node(page, "prepare").click()
  await expect(panel).toContainText("hello ann")
  await panel.getByRole("tab", { name: "Logs" }).click()
  await expect(panel).toContainText("preparing for ann")
  await page.getByRole("button", { name: "Show what is inside for-loop-1" }).click()
  await expect(node(page, "for-loop-1")).toContainText("2 of 2 done")
  await node(page, "for-loop-1").click()
  await panel.getByRole("tab", { name: "Details" }).click()
  await panel.getByRole("button", { name: "#1" }).click()
  await panel.getByRole("tab", { name: "Logs" }).click()
  await page.getByRole("button", { name: "Show what is inside #1" }).click()
  await node(page, "check").click()
  await expect(panel).toContainText("checking large")
  await node(page, "scores").click()
  await expect(panel).toContainText("0.875")
  await expect(panel).toContainText("Written by train, this run")
  await expectAccessible(page)
  await page.getByRole("tab", { name: "Results" }).click()
  await expect(page.getByRole("img", { name: "ROC curve" })).toBeVisible()
  await expect(page.getByRole("region", { name: "Confusion matrix" })).toContainText("36")
  await expect(page.getByText("It is good.")).toBeVisible()
  const frame = page.locator("iframe")
  await expect(frame).toHaveAttribute("sandbox", "")
  await expect(frame.contentFrame().getByRole("heading", { name: "A page" })).toBeVisible()

  // Links that kfp.Client prints open the same page.
  const id = page.url().match(/runs\/([^?]+)/)?.[1] ?? ""
  await page.goto(url(`/#/runs/details/${id}`))
  await expect(page.getByRole("heading", { name: "first" })).toBeVisible()

  // A clone keeps the parameters; both are compared.
  await page.getByRole("button", { name: "Clone" }).click()
  await expect(page.getByLabel("who")).toHaveValue("ann")
  await page.getByLabel("Name", { exact: true }).fill("second")
  await page.getByLabel("trees").fill("200")
  await page.getByRole("button", { name: "Create", exact: true }).click()
  await expect(page.locator("header").getByText("Succeeded")).toBeVisible({ timeout: 60_000 })
  await page.getByRole("link", { name: experiment }).click()
  await page.getByRole("checkbox", { name: "Compare first" }).check()
  await page.getByRole("checkbox", { name: "Compare second" }).check()
  await page.getByRole("link", { name: "Compare 2 runs" }).click()
  await expect(page.getByRole("region", { name: "Parameters" })).toContainText("200")
  await expect(page.getByRole("region", { name: "Scalar metrics" })).toContainText("0.875")
  await expect(page.getByRole("img", { name: "ROC curve" })).toBeVisible()
  await expectAccessible(page)

  // All of it fits on a phone.
  const compared = page.url()
  await page.setViewportSize({ width: 390, height: 844 })
  const run = url(`/pipelines/runs/${id}`)
  const lists = ["", "/experiments", "/runs", "/recurring", "/runs/new"].map((path) => url(`/pipelines${path}`))
  for (const address of [...lists, compared, `${run}?node=train`, `${run}?view=results`]) {
    await page.goto(address)
    await expect(page.getByRole("heading", { level: 1 })).toBeVisible()
    await page.waitForLoadState("networkidle")
    expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth), address).toBeLessThanOrEqual(0)
  }
})

test("a recurring run creates runs until it is disabled", async ({ page }) => {
  test.setTimeout(120_000)
  const [pipeline, name] = [fresh("often"), fresh("every two seconds")]
  await page.goto(url("/pipelines"))
  await page.getByRole("button", { name: "Upload pipeline" }).first().click()
  await upload(page, pipeline)
  await expect(page.getByRole("heading", { name: pipeline })).toBeVisible()
  await page.goto(url("/pipelines/recurring"))
  await page.getByRole("link", { name: "New recurring run" }).first().click()
  await page.getByLabel("Pipeline").selectOption({ label: pipeline })
  await page.getByLabel("who").fill("bob")
  await page.getByLabel("Name", { exact: true }).fill(name)
  await page.getByRole("button", { name: "Cron" }).click()
  await page.getByLabel("Cron expression").fill("*/2 * * * * *")
  await expectAccessible(page)
  await page.getByRole("button", { name: "Create", exact: true }).click()
  await expect(page.getByRole("heading", { name })).toBeVisible()
  await expect(page.getByRole("region", { name: "Runs" }).getByRole("link").first()).toBeVisible({ timeout: 60_000 })
  await page.getByRole("button", { name: "Disable" }).click()
  await expect(page.locator("header").getByText("Disabled")).toBeVisible()
})

test("a run is followed, terminated, retried, archived and deleted", async ({ page }) => {
  test.setTimeout(120_000)
  const name = fresh("nap")
  const csrf = (await page.context().cookies()).find((cookie) => cookie.name === "muster_csrf")?.value as string
  const response = await page.request.post(url("/apis/v2beta1/runs"), {
    headers: { "X-CSRF-Token": csrf },
    data: {
      display_name: name,
      pipeline_spec: {
        pipelineInfo: { name: "nap" },
        schemaVersion: "2.1.0",
        root: { dag: { tasks: { nap: { componentRef: { name: "comp-nap" }, taskInfo: { name: "nap" } } } } },
        components: { "comp-nap": { executorLabel: "exec-nap" } },
        deploymentSpec: { executors: { "exec-nap": shell("echo falling asleep; sleep 600") } },
      },
    },
  })
  expect(response.ok(), await response.text()).toBe(true)
  const { run_id: id } = (await response.json()) as { run_id: string }
  await page.goto(url(`/pipelines/runs/${id}`))
  const state = page.locator("header")
  await expect(state.getByText("Running")).toBeVisible()
  await node(page, "nap").click()
  await page.getByRole("tab", { name: "Logs" }).click()
  await expect(page.getByRole("log")).toContainText("falling asleep")
  await page.getByRole("button", { name: "Terminate" }).click()
  await page.getByRole("dialog").getByRole("button", { name: "Terminate" }).click()
  await expect(state.getByText("Failed")).toBeVisible({ timeout: 30_000 })
  await expect(page.getByRole("alert")).toContainText("canceled by ann")
  await page.getByRole("button", { name: "Retry" }).click()
  await expect(state.getByText("Running")).toBeVisible({ timeout: 30_000 })
  await expect(node(page, "nap")).toContainText("Running", { timeout: 30_000 })
  await page.getByLabel("Runs of the task").selectOption("Before retry 1")
  await expect(page.getByRole("tabpanel", { name: "Logs" })).toContainText("falling asleep")
  await expectAccessible(page)
  await page.getByRole("button", { name: "Archive" }).click()
  await expect(state.getByText("Archived")).toBeVisible()
  await page.getByRole("button", { name: "Restore" }).click()
  await expect(state.getByText("Archived")).toBeHidden()
  await page.getByRole("button", { name: `Actions: ${name}` }).click()
  await page.getByRole("menuitem", { name: "Delete" }).click()
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click()
  await expect(page.getByText(`Deleted “${name}”`)).toBeVisible()
  await expect(page.getByRole("heading", { name: "Pipeline runs" })).toBeVisible()
})
