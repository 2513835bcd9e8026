/** The fields of a node that say whether and how often it runs: its condition and its loop. */
import { useState } from "react"
import { useModuleVersions } from "@/api/options"
import { Field, Input, Select, TextArea } from "@/components/form"
import { OPERATORS } from "@/graph/control-flow"
import type { Comparison, Condition, Loop } from "@/graph/document"
import { NODE_FIELDS } from "@/graph/node-fields"
import { editorTexts } from "@/i18n/editor"
import { useTexts, useTranslate } from "@/i18n/translate"
import { CodeField, Rows } from "./form-parts"
import type { NodeFormProps } from "./node-form"
import { isFixed, type Offer, type Sourced, SourceSelect, useOffers } from "./source-select"

const OPERATOR_TEXTS = {
  "==": "operatorEquals",
  "!=": "operatorDiffers",
  "<": "operatorLess",
  "<=": "operatorAtMost",
  ">": "operatorMore",
  ">=": "operatorAtLeast",
  contains: "operatorContains",
} as const satisfies Record<(typeof OPERATORS)[number], keyof typeof editorTexts>

/** The comparisons, and whether all of them have to hold. */
export function NodeCondition({ node, drawing, change, fault }: NodeFormProps) {
  const w = useTexts(editorTexts)
  const text = useTranslate()
  const offers = useOffers(drawing, node)
  const comparisons = node.condition?.comparisons ?? []
  const set = (condition: Condition, field: string) =>
    change({ condition: condition.comparisons?.length ? condition : undefined }, field)
  return (
    <div className="flex flex-col gap-2">
      <h4 className="text-[13px] font-medium">{text(NODE_FIELDS.condition.label)}</h4>
      <p className="text-[13px] text-muted-foreground in-[fieldset:disabled]:hidden">{w("conditionHint")}</p>
      {comparisons.length > 1 && (
        <Field label={w("conditionMatch")}>
          {(field) => (
            <Select
              {...field}
              data-field="condition.match"
              value={node.condition?.match ?? "all"}
              onChange={(event) =>
                set({ ...node.condition, match: event.target.value === "any" ? "any" : undefined }, "condition.match")
              }
            >
              <option value="all">{w("matchAll")}</option>
              <option value="any">{w("matchAny")}</option>
            </Select>
          )}
        </Field>
      )}
      <Rows<Comparison>
        rows={comparisons}
        named={(comparison) => w("comparisonNumber", { n: comparisons.indexOf(comparison) + 1 })}
        field="condition.comparisons"
        change={(comparisons, field) => set({ ...node.condition, comparisons }, field)}
        add={{ label: w("addComparison"), fresh: (): Comparison => ({ right: { value: "" } }) }}
        row={(comparison, index, setRow) => {
          const at = `condition.comparisons[${index}]`
          const shared = { drawing, offers, fault }
          return (
            <>
              <CompareSide
                {...shared}
                label={w("leftValue")}
                at={`${at}.left`}
                side={comparison.left ?? {}}
                onChange={(left) => setRow({ left }, "left")}
              />
              <Field label={w("operator")} error={fault(`${at}.operator`)}>
                {(field) => (
                  <Select
                    {...field}
                    data-field={`${at}.operator`}
                    value={comparison.operator ?? "=="}
                    onChange={(event) =>
                      setRow({ operator: OPERATORS.find((each) => each === event.target.value) }, "operator")
                    }
                  >
                    {OPERATORS.map((operator) => (
                      <option key={operator} value={operator}>
                        {w(OPERATOR_TEXTS[operator])}
                      </option>
                    ))}
                  </Select>
                )}
              </Field>
              <CompareSide
                {...shared}
                label={w("rightValue")}
                at={`${at}.right`}
                side={comparison.right ?? {}}
                onChange={(right) => setRow({ right }, "right")}
              />
            </>
          )
        }}
      />
    </div>
  )
}

interface SideProps extends Pick<NodeFormProps, "drawing" | "fault"> {
  label: string
  at: string
  side: Sourced
  offers: Offer[]
  onChange: (side: Sourced) => void
}

/** One side of a comparison: a source, and the value if it is a fixed one. */
function CompareSide({ label, at, side, drawing, offers, fault, onChange }: SideProps) {
  const w = useTexts(editorTexts)
  return (
    <div className="flex gap-2">
      <SourceSelect
        label={label}
        at={at}
        source={side}
        drawing={drawing}
        offers={offers}
        fault={fault}
        onChange={onChange}
        textOnly
        className="min-w-0 flex-1"
      />
      {isFixed(side) && (
        <Field label={w("value")} error={fault(`${at}.value`)} className="min-w-0 flex-1">
          {(field) => (
            <Input
              {...field}
              aria-label={`${label}: ${w("value")}`}
              data-field={`${at}.value`}
              value={side.value ?? ""}
              onChange={(event) => onChange({ value: event.target.value })}
            />
          )}
        </Field>
      )}
    </div>
  )
}

type LoopKind = "once" | "items" | "from" | "count"

const LOOP_KINDS = {
  once: "loopOnce",
  items: "loopItems",
  from: "loopFrom",
  count: "loopCount",
} as const satisfies Record<LoopKind, keyof typeof editorTexts>

function kindOf(loop: Loop | undefined): LoopKind {
  if (!loop) return "once"
  if (loop.items) return "items"
  return loop.count === undefined ? "from" : "count"
}

/** What the node runs over, and the variable that has the item. */
export function NodeLoop({ node, drawing, change, fault }: NodeFormProps) {
  const w = useTexts(editorTexts)
  const text = useTranslate()
  const offers = useOffers(drawing, node)
  const { loop } = node
  const kind = kindOf(loop)
  const module = useModuleVersions(node.kind === "module" && node.module ? [node.module] : [])
  const taken = (module.get(`${node.module?.name}@${node.module?.version}`)?.inputs ?? []).map(({ name }) => name)
  /** The item takes the place of an input of a module. */
  const inputsWithout = (variable: string | undefined) => {
    if (node.kind !== "module") return {}
    const known = new Map((node.inputs ?? []).map((input) => [input.name, input]))
    return { inputs: taken.filter((name) => name !== variable).map((name) => known.get(name) ?? { name }) }
  }
  const set = (loop: Loop | undefined, field: string) => change({ loop, ...inputsWithout(loop?.variable) }, field)
  const setKind = (kind: LoopKind) => {
    const variable = loop?.variable ?? (node.kind === "module" ? taken[0] : undefined)
    const shared = variable ? { variable } : {}
    const fresh: Record<LoopKind, Loop | undefined> = {
      once: undefined,
      items: { items: [], ...shared },
      from: { ...shared },
      count: { count: 3, ...shared },
    }
    set(fresh[kind], "loop")
  }
  return (
    <div className="flex flex-col gap-2">
      <Field
        label={text(NODE_FIELDS.loop.label)}
        error={fault("loop")}
        hint={kind === "once" ? undefined : w("loopHint")}
      >
        {(field) => (
          <Select
            {...field}
            data-field="loop"
            value={kind}
            onChange={(event) => setKind(event.target.value as LoopKind)}
          >
            {(Object.keys(LOOP_KINDS) as LoopKind[]).map((each) => (
              <option key={each} value={each}>
                {w(LOOP_KINDS[each])}
              </option>
            ))}
          </Select>
        )}
      </Field>
      {loop && kind === "items" && (
        <LoopItems items={loop.items ?? []} fault={fault} onChange={(items) => set({ ...loop, items }, "loop.items")} />
      )}
      {loop && kind === "from" && (
        <SourceSelect
          label={w("loopList")}
          at="loop"
          source={loop}
          drawing={drawing}
          offers={offers}
          fault={(field) => (field === "loop" ? undefined : fault(field))}
          onChange={({ from }) => set({ ...loop, from }, "loop.from")}
          textOnly
          referenceOnly
        />
      )}
      {loop && kind === "count" && (
        <div className="flex gap-2">
          <LoopNumber
            label={w("loopStart")}
            field="loop.start"
            value={loop.start ?? 0}
            fault={fault}
            onChange={(start) => set({ ...loop, start: start || undefined }, "loop.start")}
          />
          <LoopNumber
            label={w("loopTimes")}
            field="loop.count"
            value={loop.count ?? 1}
            fault={fault}
            onChange={(count) => set({ ...loop, count }, "loop.count")}
          />
        </div>
      )}
      {loop && node.kind !== "module" && (
        <CodeField
          label={w("loopVariable")}
          field="loop.variable"
          fault={fault}
          hint={w("loopVariableHint", { name: `$${loop.variable ?? "item"}` })}
          value={loop.variable ?? "item"}
          onChange={(variable) => set({ ...loop, variable }, "loop.variable")}
        />
      )}
      {loop && node.kind === "module" && (
        <Field label={w("loopInput")} error={fault("loop.variable")}>
          {(field) => (
            <Select
              {...field}
              data-field="loop.variable"
              value={loop.variable ?? ""}
              onChange={(event) => set({ ...loop, variable: event.target.value }, "loop.variable")}
            >
              {[...new Set([loop.variable ?? "", ...taken])].map((name) => (
                <option key={name} value={name}>
                  {name || w("chooseSource")}
                </option>
              ))}
            </Select>
          )}
        </Field>
      )}
    </div>
  )
}

/** One item per line; a JSON list of texts if an item has lines of its own. */
function LoopItems({
  items,
  fault,
  onChange,
}: {
  items: string[]
  fault: (field: string) => string | undefined
  onChange: (items: string[]) => void
}) {
  const w = useTexts(editorTexts)
  // What was typed last: the items say nothing about an empty line at the end.
  const [typed, setTyped] = useState(() => writtenItems(items))
  const current = sameTexts(readItems(typed), items) ? typed : writtenItems(items)
  const errors = [fault("loop.items"), ...items.map((_, index) => fault(`loop.items[${index}]`))]
  return (
    <Field label={w("loopTexts")} hint={w("loopTextsHint", { n: items.length })} error={errors.find(Boolean)}>
      {(field) => (
        <TextArea
          {...field}
          data-field="loop.items"
          rows={Math.min(10, Math.max(3, items.length + 1))}
          spellCheck={false}
          className="font-mono text-[13px]"
          value={current}
          onChange={(event) => {
            setTyped(event.target.value)
            onChange(readItems(event.target.value))
          }}
        />
      )}
    </Field>
  )
}

export function readItems(typed: string): string[] {
  if (typed.trimStart().startsWith("[")) {
    try {
      const found: unknown = JSON.parse(typed)
      if (Array.isArray(found)) return found.map((item) => (typeof item === "string" ? item : JSON.stringify(item)))
    } catch {
      // Lines, one of which begins with a bracket.
    }
  }
  const lines = typed.split("\n")
  while (lines.length && lines.at(-1) === "") lines.pop()
  return lines
}

export function writtenItems(items: readonly string[]): string {
  const lines = items.join("\n")
  return sameTexts(readItems(lines), items) ? lines : JSON.stringify(items)
}

function sameTexts(some: readonly string[], others: readonly string[]): boolean {
  return some.length === others.length && some.every((each, place) => each === others[place])
}

function LoopNumber({
  label,
  field: name,
  value,
  fault,
  onChange,
}: {
  label: string
  field: string
  value: number
  fault: (field: string) => string | undefined
  onChange: (value: number) => void
}) {
  return (
    <Field label={label} error={fault(name)} className="min-w-0 flex-1">
      {(field) => (
        <Input
          {...field}
          type="number"
          data-field={name}
          value={value}
          onChange={(event) => onChange(Math.trunc(Number(event.target.value)))}
        />
      )}
    </Field>
  )
}
