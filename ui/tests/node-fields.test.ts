import { describe, expect, it } from "vitest"
import type { GraphNode } from "@/graph/document"
import {
  apiVersionsOf,
  hasField,
  NODE_FIELD_NAMES,
  NODE_FIELDS,
  newNode,
  nodeFieldLabel,
  rolesOf,
  SECTIONS,
  summaryOf,
  trainingKinds,
} from "@/graph/node-fields"
import { NODE_RULES } from "@/graph/schema"

describe("the table of a node's fields", () => {
  it("has every field of the server's schema, apart from the kind and the position", () => {
    const fields = Object.keys(NODE_RULES).filter((name) => name !== "kind" && name !== "position")
    expect([...NODE_FIELD_NAMES].sort()).toEqual(fields.sort())
  })

  it.each([...Object.entries(SECTIONS), ...NODE_FIELD_NAMES.map((name) => [name, NODE_FIELDS[name].label] as const)])(
    "%s has a label in both languages",
    (_, label) => expect(label.filter(Boolean)).toHaveLength(2),
  )

  it("knows which kinds have which fields", () => {
    expect(hasField("module", "command")).toBe(false)
    expect(hasField("training", "command")).toBe(true)
    expect(hasField("plain", "training")).toBe(false)
  })

  it("has labels for fields of nodes only", () => {
    expect(nodeFieldLabel("command")?.[0]).toBe("Command")
    expect(nodeFieldLabel("toString")).toBeUndefined()
    expect(nodeFieldLabel("position")).toBeUndefined()
  })
})

describe("new nodes", () => {
  it("start as their kind needs", () => {
    expect(newNode("plain")).toEqual({ name: "step", kind: "plain" })
    expect(newNode("training")).toEqual({
      name: "train",
      kind: "training",
      training: {
        kind: "PyTorchJob",
        roles: [
          { name: "Master", replicas: 1 },
          { name: "Worker", replicas: 1 },
        ],
      },
    })
  })
})

it.each<[GraphNode, string]>([
  [{ name: "a", image: "busybox" }, "busybox"],
  [{ name: "a" }, "–"],
  [{ name: "a", kind: "module", module: { name: "texts", version: "2" } }, "texts · v2"],
  [{ name: "a", kind: "module" }, "–"],
  [
    {
      name: "a",
      kind: "training",
      image: "torch",
      training: { kind: "MPIJob", roles: [{ name: "Launcher" }, { name: "Worker", replicas: 4 }] },
    },
    "MPIJob × 5",
  ],
])("the summary of %j is %s", (node, summary) => expect(summaryOf(node)).toBe(summary))

describe("kinds of training jobs", () => {
  it("are the server's, each once", () => {
    expect(trainingKinds()).toContain("PyTorchJob")
    expect(new Set(trainingKinds()).size).toBe(trainingKinds().length)
  })

  it("have the roles of their API version", () => {
    expect(apiVersionsOf("PaddleJob")).toEqual(["kubeflow.org/v1", "batch.paddlepaddle.org/v1"])
    expect(rolesOf("PaddleJob")).toEqual(["Master", "Worker"])
    expect(rolesOf("PaddleJob", "batch.paddlepaddle.org/v1")).toContain("ps")
    expect(rolesOf("NoJob")).toEqual([])
  })
})
