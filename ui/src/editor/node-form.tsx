/** The form of a node. Its fields and sections come from the table in graph/node-fields. */
import { type ComponentType, useMemo, useState } from "react"
import type { GraphFinding } from "@/api/workflows"
import { usePreferences } from "@/app/preferences"
import { Code, Field, Input, Select, TextArea, Tick } from "@/components/form"
import type { GraphNode } from "@/graph/document"
import { ancestors, connected, type Drawing, type DrawnNode, descendants, placeOf, withoutEdges } from "@/graph/drawing"
import {
  hasField,
  NODE_FIELD_NAMES,
  NODE_FIELDS,
  type NodeFieldName,
  ruleOf,
  SECTIONS,
  type SectionName,
} from "@/graph/node-fields"
import { editorTexts } from "@/i18n/editor"
import { serverMessageParts } from "@/i18n/server-messages"
import { useTexts, useTranslate } from "@/i18n/translate"
import { Section } from "./form-parts"
import { NodeCondition, NodeLoop } from "./node-flow"
import { NodeInputs, NodeOutputs, NodeStorage, NodeVariables } from "./node-lists"
import { NodeModule, NodeTask, NodeTraining } from "./node-parts"

export interface NodeFormProps {
  node: DrawnNode
  drawing: Drawing
  change: (change: Partial<DrawnNode>, field: string) => void
  /** What the server says of a field, by its path in the node. */
  fault: (field: string) => string | undefined
}

interface Props {
  drawing: Drawing
  node: DrawnNode
  problems?: GraphFinding[]
  change?: NodeFormProps["change"]
  redraw?: (drawing: Drawing) => void
  /** The user has left a field. */
  touch?: (field: string) => void
}

const PARTS: Partial<Record<NodeFieldName, ComponentType<NodeFormProps>>> = {
  module: NodeModule,
  training: NodeTraining,
  inputs: NodeInputs,
  outputs: NodeOutputs,
  task: NodeTask,
  env: NodeVariables,
  storage: NodeStorage,
  condition: NodeCondition,
  loop: NodeLoop,
}

/** Read-only without `change`. */
export function NodeForm({ drawing, node, problems = [], change, redraw, touch }: Props) {
  const w = useTexts(editorTexts)
  const text = useTranslate()
  const language = usePreferences((all) => all.language)
  const faults = useMemo(() => {
    const found = new Map<string, string>()
    for (const problem of problems) {
      const place = placeOf(drawing, problem.path)
      if (place.key !== node.key || problem.severity !== "error") continue
      const { message, fix } = serverMessageParts(problem, language)
      if (!found.has(place.field)) found.set(place.field, fix ? `${message} – ${fix}` : message)
    }
    return found
  }, [problems, drawing, node.key, language])
  const parts: NodeFormProps = { node, drawing, change: change ?? (() => {}), fault: (field) => faults.get(field) }
  const fieldsOf = (section: SectionName) =>
    NODE_FIELD_NAMES.filter((name) => NODE_FIELDS[name].section === section && hasField(node.kind ?? "plain", name))
  return (
    <fieldset
      disabled={!change}
      className="flex min-w-0 flex-col"
      onBlur={({ target }) => target.dataset.field && touch?.(target.dataset.field)}
    >
      <legend className="sr-only">{node.name}</legend>
      {(Object.keys(SECTIONS) as SectionName[]).map((section) => (
        <Section key={section} title={text(SECTIONS[section])} count={countOf(node, section)}>
          {fieldsOf(section).map((name) => {
            const Parts = PARTS[name]
            return Parts ? (
              <Parts key={name} {...parts} />
            ) : (
              <SimpleField key={name} name={name} readOnly={!change} {...parts} />
            )
          })}
        </Section>
      ))}
      <Section title={w("runsAfter")}>
        <RunsAfter drawing={drawing} node={node} redraw={redraw} />
      </Section>
    </fieldset>
  )
}

/** How many entries the list of a section has. */
function countOf(node: GraphNode, section: SectionName): number | undefined {
  const list = node[section as keyof GraphNode]
  return Array.isArray(list) ? list.length : undefined
}

/** A field whose value is a text, a number, a choice or a tick. */
function SimpleField({
  name,
  node,
  change,
  fault,
  readOnly,
}: NodeFormProps & { name: NodeFieldName; readOnly: boolean }) {
  const text = useTranslate()
  const { label, hint, placeholder, control, choices = {} } = NODE_FIELDS[name]
  const rule = ruleOf(name)
  const value = node[name]
  const isOptional = control === "text"
  if (readOnly && isOptional && !value) return null
  const set = (value: unknown) => change({ [name]: value === rule.default ? undefined : value }, name)
  if (control === "tick")
    return (
      <Tick
        label={text(label)}
        data-field={name}
        checked={Boolean(value ?? rule.default)}
        onChange={(event) => set(event.target.checked)}
      />
    )
  const written = String(value ?? "")
  return (
    <Field
      label={text(label)}
      error={fault(name)}
      hint={!readOnly && hint && text(hint)}
      optional={isOptional && !readOnly}
      className={control === "number" ? "w-24" : undefined}
    >
      {(field) => {
        const shared = { ...field, "data-field": name, placeholder: readOnly ? undefined : placeholder }
        switch (control) {
          case "code": {
            const lines = written.split("\n").length + (readOnly ? 0 : 1)
            const rows = Math.min(14, Math.max(readOnly ? 1 : 4, lines))
            return <Code {...shared} rows={rows} value={written} onChange={(event) => set(event.target.value)} />
          }
          case "text":
            return <TextArea {...shared} rows={2} value={written} onChange={(event) => set(event.target.value)} />
          case "number":
            return (
              <Input
                {...shared}
                type="number"
                min={rule.minimum}
                max={rule.maximum}
                value={Number(value ?? rule.default ?? 0)}
                onChange={(event) => set(Number(event.target.value))}
              />
            )
          case "choice":
            return (
              <Select
                {...shared}
                value={String(value ?? rule.default ?? "")}
                onChange={(event) => set(event.target.value)}
              >
                {rule.enum?.map((each) => (
                  <option key={each} value={each}>
                    {choices[each] ? text(choices[each]) : each}
                  </option>
                ))}
              </Select>
            )
          default:
            return (
              <Input
                {...shared}
                value={written}
                spellCheck={name === "image" ? false : undefined}
                onChange={(event) => set(event.target.value)}
              />
            )
        }
      }}
    </Field>
  )
}

const FEW = 20

/** The edges to this node as checkboxes, for people who do not use a mouse. */
function RunsAfter({
  drawing,
  node,
  redraw,
}: {
  drawing: Drawing
  node: DrawnNode
  redraw?: (drawing: Drawing) => void
}) {
  const w = useTexts(editorTexts)
  const [typed, setTyped] = useState("")
  const { edges } = drawing
  // biome-ignore lint/correctness/useExhaustiveDependencies: ancestors and descendants depend on the edges only.
  const { parents, earlier, later } = useMemo(
    () => ({
      parents: new Set(edges.filter((edge) => edge.to === node.key).map((edge) => edge.from)),
      earlier: ancestors(drawing, node.key),
      later: descendants(drawing, node.key),
    }),
    [edges, node.key],
  )
  const possible = redraw
    ? drawing.nodes.filter(({ key }) => key !== node.key && !later.has(key) && !parents.has(key))
    : []
  const named = possible.filter(({ name }) => name.toLowerCase().includes(typed.toLowerCase()))
  const shown = [...drawing.nodes.filter(({ key }) => parents.has(key)), ...named.slice(0, FEW)]
  const set = (from: string, ticked: boolean) => {
    const edge = { from, to: node.key }
    redraw?.(ticked ? connected(drawing, edge) : withoutEdges(drawing, [edge]))
  }
  if (!possible.length && !parents.size) return <p className="text-[13px] text-muted-foreground">{w("noOtherNodes")}</p>
  return (
    <div className="flex flex-col gap-1" data-field="edges" tabIndex={-1}>
      {possible.length > FEW && (
        <Input
          type="search"
          className="h-8"
          aria-label={w("searchNodes")}
          placeholder={w("searchNodes")}
          value={typed}
          onChange={(event) => setTyped(event.target.value)}
        />
      )}
      {shown.map((other) => (
        <label key={other.key} className="inline-flex items-center gap-2">
          <input
            type="checkbox"
            className="size-4 accent-primary"
            checked={parents.has(other.key)}
            onChange={(event) => set(other.key, event.target.checked)}
          />
          <span className={earlier.has(other.key) && !parents.has(other.key) ? "text-muted-foreground" : ""}>
            {other.name || "…"}
          </span>
        </label>
      ))}
      {named.length > FEW && (
        <p className="text-[13px] text-muted-foreground">{w("moreNodes", { n: named.length - FEW })}</p>
      )}
      {redraw && <p className="text-[13px] text-muted-foreground">{w("runsAfterHint")}</p>}
    </div>
  )
}
