/** Everything that a node has. */
import { useMemo, useState } from "react"
import type { GraphProblem } from "@/api/workflows"
import { usePreferences } from "@/app/preferences"
import { Code, Field, Input, TextArea } from "@/components/form"
import { ancestors, connected, type Drawing, type DrawnNode, descendants, placeOf, withoutEdges } from "@/graph/drawing"
import { commonWords } from "@/words/common"
import { editorWords } from "@/words/editor"
import { problemParts } from "@/words/graph-problems"
import { useWords } from "@/words/words"
import { Section } from "./form-parts"
import { NodeInputs } from "./node-inputs"
import { NodeOutputs, NodeStorage, NodeVariables } from "./node-lists"
import { NodeModule } from "./node-module"
import { NodeTask } from "./node-task"
import { NodeTraining } from "./node-training"

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
  problems?: GraphProblem[]
  change?: NodeFormProps["change"]
  redraw?: (drawing: Drawing) => void
}

/** Without `change`, it is there to be read. */
export function NodeForm({ drawing, node, problems = [], change, redraw }: Props) {
  const w = useWords(editorWords)
  const c = useWords(commonWords)
  const language = usePreferences((all) => all.language)
  const faults = useMemo(() => {
    const found = new Map<string, string>()
    for (const problem of problems) {
      const place = placeOf(drawing, problem.path)
      if (place.key !== node.key || problem.severity !== "error") continue
      const { message, fix } = problemParts(problem, language)
      if (!found.has(place.field)) found.set(place.field, fix ? `${message} – ${fix}` : message)
    }
    return found
  }, [problems, drawing, node.key, language])
  const parts: NodeFormProps = { node, drawing, change: change ?? (() => {}), fault: (field) => faults.get(field) }
  const isModule = node.kind === "module"
  return (
    <fieldset disabled={!change} className="flex min-w-0 flex-col">
      <legend className="sr-only">{node.name}</legend>
      <Section title={w("general")}>
        <Field label={w("taskName")} error={parts.fault("name")}>
          {(field) => (
            <Input
              {...field}
              data-field="name"
              value={node.name}
              onChange={(event) => parts.change({ name: event.target.value }, "name")}
            />
          )}
        </Field>
        {isModule && <NodeModule {...parts} />}
        {node.kind === "training" && <NodeTraining {...parts} />}
        {!isModule && (
          <>
            <Field label={w("command")} error={parts.fault("command")} hint={change && w("commandHint")}>
              {(field) => (
                <Code
                  {...field}
                  data-field="command"
                  rows={Math.min(
                    14,
                    Math.max(change ? 4 : 1, (node.command ?? "").split("\n").length + (change ? 1 : 0)),
                  )}
                  value={node.command ?? ""}
                  onChange={(event) => parts.change({ command: event.target.value }, "command")}
                />
              )}
            </Field>
            <Field label={w("image")} error={parts.fault("image")}>
              {(field) => (
                <Input
                  {...field}
                  data-field="image"
                  value={node.image ?? ""}
                  placeholder="python:3.11"
                  spellCheck={false}
                  onChange={(event) => parts.change({ image: event.target.value }, "image")}
                />
              )}
            </Field>
          </>
        )}
        {(change || node.description) && (
          <Field label={c("description")} optional={Boolean(change)}>
            {(field) => (
              <TextArea
                {...field}
                rows={2}
                value={node.description ?? ""}
                onChange={(event) => parts.change({ description: event.target.value }, "description")}
              />
            )}
          </Field>
        )}
      </Section>
      <Section title={w("inputs")} count={node.inputs?.length}>
        <NodeInputs {...parts} />
      </Section>
      <Section title={w("outputs")} count={node.outputs?.length}>
        <NodeOutputs {...parts} />
      </Section>
      <Section title={w("resources")}>
        <NodeTask {...parts} />
      </Section>
      <Section title={w("env")} count={node.env?.length}>
        <NodeVariables {...parts} />
      </Section>
      <Section title={w("storage")} count={node.storage?.length}>
        <NodeStorage {...parts} />
      </Section>
      <Section title={w("runsAfter")}>
        <Before drawing={drawing} node={node} redraw={redraw} />
      </Section>
    </fieldset>
  )
}

const FEW = 20

/** Lines to this node, for those who do not draw with a mouse. */
function Before({ drawing, node, redraw }: { drawing: Drawing; node: DrawnNode; redraw?: (drawing: Drawing) => void }) {
  const w = useWords(editorWords)
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
