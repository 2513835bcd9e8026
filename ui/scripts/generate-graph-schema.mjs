/**
 * Writes src/graph/schema.ts from docs/graph.schema.json: the types of a graph document, the rules of a node's fields,
 * and the kinds of training jobs. `make ui` runs it; nothing of this is written by hand in the UI.
 */
import { readFile, writeFile } from "node:fs/promises"
import { fileURLToPath } from "node:url"

/** Objects that have a name of their own. All others are written where they are used. */
const NAMES = {
  "": "GraphDocument",
  ".parameters[]": "Parameter",
  ".nodes[]": "GraphNode",
  ".nodes[].position": "Position",
  ".nodes[].task": "Task",
  ".nodes[].env[]": "Variable",
  ".nodes[].inputs[]": "Input",
  ".nodes[].inputs[].from": "Source",
  ".nodes[].condition": "Condition",
  ".nodes[].condition.comparisons[]": "Comparison",
  ".nodes[].condition.comparisons[].left": "Side",
  ".nodes[].condition.comparisons[].left.from": "Source",
  ".nodes[].condition.comparisons[].right": "Side",
  ".nodes[].condition.comparisons[].right.from": "Source",
  ".nodes[].loop": "Loop",
  ".nodes[].loop.from": "Source",
  ".nodes[].outputs[]": "Output",
  ".nodes[].storage[]": "Mount",
  ".nodes[].module": "ModuleReference",
  ".nodes[].training": "Training",
  ".nodes[].training.roles[]": "Role",
  ".nodes[].training.roles[].task": "Task",
  ".edges[]": "Edge",
}

const RULES = ["type", "enum", "default", "minimum", "maximum", "maxLength"]

const here = (path) => fileURLToPath(new URL(path, import.meta.url))
const schema = JSON.parse(await readFile(here("../../docs/graph.schema.json"), "utf8"))
await writeFile(here("../src/graph/schema.ts"), generate(schema))

function generate(root) {
  const declared = new Map()
  const typeOf = (schema, path) => {
    if (schema.enum) return schema.enum.map((each) => JSON.stringify(each)).join(" | ")
    if (schema.type === "array") {
      const inner = typeOf(schema.items, `${path}[]`)
      return inner.includes(" ") ? `(${inner})[]` : `${inner}[]`
    }
    if (schema.type === "integer" || schema.type === "number")
      return schema.minimum !== undefined && schema.minimum === schema.maximum ? String(schema.minimum) : "number"
    if (schema.type !== "object") return schema.type
    const body = bodyOf(schema, path)
    const name = NAMES[path]
    if (name === undefined) return body
    if (!declared.has(name)) declared.set(name, `${comment(schema, "")}export interface ${name} ${body}\n`)
    return name
  }
  const bodyOf = (schema, path) => {
    const fields = Object.entries(schema.properties ?? {}).map(([name, field]) => {
      const mark = schema.required?.includes(name) ? "" : "?"
      return `${comment(field, "  ")}  ${name}${mark}: ${typeOf(field, `${path}.${name}`)}\n`
    })
    return `{\n${fields.join("")}}`
  }
  typeOf(root, "")
  const node = root.properties.nodes.items
  const rules = Object.fromEntries(
    Object.entries(node.properties).map(([name, field]) => [
      name,
      Object.fromEntries(RULES.filter((rule) => rule in field).map((rule) => [rule, field[rule]])),
    ]),
  )
  const kinds = node.properties.training["x-kinds"]
  return [
    "/** Generated from docs/graph.schema.json by scripts/generate-graph-schema.mjs. Do not edit. */\n",
    ...declared.values(),
    `/** The rules of a node's fields, by name. */\nexport const NODE_RULES = ${JSON.stringify(rules, null, 2)} as const\n`,
    "/** A kind of training job, with the roles its replicas can have. */",
    "export interface TrainingKind {\n  kind: string\n  apiVersion: string\n  roles: readonly string[]\n}\n",
    `export const TRAINING_KINDS: readonly TrainingKind[] = ${JSON.stringify(kinds, null, 2)}\n`,
  ].join("\n")
}

function comment({ description }, indent) {
  return description ? `${indent}/** ${description.replaceAll("*/", "*\\/")} */\n` : ""
}
