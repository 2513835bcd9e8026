/** The example on the start page: a workflow that runs on any machine, with parameters, outputs and a training node. */
import type { Language } from "@/app/preferences"
import type { GraphDocument } from "@/graph/document"
import { asProblem } from "./problem"
import { createRun, type Run } from "./runs"
import { createWorkflow } from "./workflows"

/** Each replica fits a line to its share of the rows; the first one reports it. */
const TRAIN = `mkdir -p /tmp/workflow_space
python3 -u -c '
import os, random, sys
rank, size, rows = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), int(sys.argv[1])
random.seed(rank)
points = [(x, 3 * x + 1 + random.gauss(0, 0.1)) for x in (random.random() for _ in range(rows // size))]
slope = bias = 0.0
for epoch in range(1, 11):
    for x, y in points:
        error = slope * x + bias - y
        slope -= 0.1 * error * x
        bias -= 0.1 * error
    loss = sum((slope * x + bias - y) ** 2 for x, y in points) / len(points)
    print(f"replica {rank} of {size}, epoch {epoch}: loss {loss:.4f}")
if rank == 0:
    with open("/tmp/workflow_space/model", "w") as file:
        file.write(f"y = {slope:.2f} x + {bias:.2f}")
' $rows`

export function exampleDocument(language: Language): GraphDocument {
  const [prepare, train, report] = language === "zh" ? ["准备", "训练", "汇总"] : ["prepare", "train", "report"]
  const image = "python:3.11"
  return {
    format: 1,
    parameters: [{ name: "rows", default: "1000" }],
    nodes: [
      {
        name: prepare,
        image,
        command: "mkdir -p /tmp/workflow_space\necho prepared $rows rows\necho $rows > /tmp/workflow_space/rows",
        inputs: [{ name: "rows", from: { parameter: "rows" } }],
        outputs: [{ name: "rows", path: "/tmp/workflow_space/rows", type: "text" }],
        position: { x: 0, y: 0 },
      },
      {
        name: train,
        kind: "training",
        image,
        command: TRAIN,
        training: {
          kind: "PyTorchJob",
          roles: [
            { name: "Master", replicas: 1 },
            { name: "Worker", replicas: 1 },
          ],
        },
        inputs: [{ name: "rows", from: { node: prepare, output: "rows" } }],
        outputs: [{ name: "model", path: "/tmp/workflow_space/model", type: "text" }],
        position: { x: 0, y: 130 },
      },
      {
        name: report,
        image,
        command: "echo the model is $model",
        inputs: [{ name: "model", from: { node: train, output: "model" } }],
        position: { x: 0, y: 260 },
      },
    ],
    edges: [
      { from: prepare, to: train },
      { from: train, to: report },
    ],
  } as GraphDocument
}

/** Creates the workflow, unless the user has it already, and starts a run. */
export async function runExample(name: string, description: string, language: Language): Promise<Run> {
  let workflow = name
  try {
    const document = exampleDocument(language)
    workflow = (await createWorkflow({ name, description, team: "" }, { document })).workflow_id
  } catch (error) {
    if (asProblem(error).kind !== "conflict") throw error
  }
  return createRun({ workflow, version: "latest", name: "", parameters: {} })
}
