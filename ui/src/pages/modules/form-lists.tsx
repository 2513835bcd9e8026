/** The lists in the module form: variables, inputs, outputs. */
import { Plus, Trash2 } from "lucide-react"
import type { ReactNode } from "react"
import type { ModuleText } from "@/api/modules"
import { Button } from "@/components/button"
import { Field, Input, Select, Tick } from "@/components/form"
import { commonTexts } from "@/i18n/common"
import { moduleTexts } from "@/i18n/modules"
import { useTexts } from "@/i18n/translate"

export interface ListProps {
  value: ModuleText
  change: (change: Partial<ModuleText>) => void
  fault: (field: string) => string | undefined
}

const code = {
  spellCheck: false,
  autoCapitalize: "off",
  autoComplete: "off",
  className: "font-mono text-[13px]",
} as const

export function Variables({ value, change, fault }: ListProps) {
  const w = useTexts(moduleTexts)
  return (
    <List
      rows={value.env}
      change={(env) => change({ env })}
      add={w("addVariable")}
      fresh={{ name: "", value: "", secret: false }}
      fault={fault("env")}
      row={(variable, index, set) => (
        <>
          <Field label={w("variable")} error={fault(`env[${index}].name`)} className="sm:w-56">
            {(field) => (
              <Input
                {...field}
                {...code}
                value={variable.name}
                onChange={(event) => set({ name: event.target.value })}
              />
            )}
          </Field>
          <Field label={w("value")} error={fault(`env[${index}].value`)} className="min-w-0 flex-1">
            {(field) => (
              <Input
                {...field}
                {...code}
                type={variable.secret ? "password" : "text"}
                placeholder={variable.secret ? w("secretKept") : ""}
                value={variable.value}
                onChange={(event) => set({ value: event.target.value })}
              />
            )}
          </Field>
          <Tick
            label={w("secret")}
            className="sm:mt-8"
            checked={variable.secret}
            onChange={(event) => set({ secret: event.target.checked })}
          />
        </>
      )}
    />
  )
}

export function Inputs({ value, change, fault }: ListProps) {
  const w = useTexts(moduleTexts)
  return (
    <List
      rows={value.inputs}
      change={(inputs) => change({ inputs })}
      add={w("addInput")}
      fresh={{ name: "", description: "" }}
      fault={fault("inputs")}
      row={(input, index, set) => (
        <>
          <Field label={w("parameter")} error={fault(`inputs[${index}].name`)} className="sm:w-56">
            {(field) => (
              <Input {...field} {...code} value={input.name} onChange={(event) => set({ name: event.target.value })} />
            )}
          </Field>
          <Field
            label={w("description")}
            optional
            error={fault(`inputs[${index}].description`)}
            className="min-w-0 flex-1"
          >
            {(field) => (
              <Input
                {...field}
                value={input.description}
                onChange={(event) => set({ description: event.target.value })}
              />
            )}
          </Field>
        </>
      )}
    />
  )
}

export function Outputs({ value, change, fault }: ListProps) {
  const w = useTexts(moduleTexts)
  return (
    <List
      rows={value.outputs}
      change={(outputs) => change({ outputs })}
      add={w("addOutput")}
      fresh={{ name: "", path: "", type: "text" as const, description: "" }}
      fault={fault("outputs")}
      row={(output, index, set) => (
        <>
          <Field label={w("parameter")} error={fault(`outputs[${index}].name`)} className="sm:w-44">
            {(field) => (
              <Input {...field} {...code} value={output.name} onChange={(event) => set({ name: event.target.value })} />
            )}
          </Field>
          <Field label={w("path")} error={fault(`outputs[${index}].path`)} className="min-w-0 sm:flex-1 sm:basis-56">
            {(field) => (
              <Input
                {...field}
                {...code}
                placeholder="/tmp/workflow_space/result.txt"
                value={output.path}
                onChange={(event) => set({ path: event.target.value })}
              />
            )}
          </Field>
          <Field label={w("type")} error={fault(`outputs[${index}].type`)} className="sm:w-32">
            {(field) => (
              <Select
                {...field}
                value={output.type}
                onChange={(event) => set({ type: event.target.value === "file" ? "file" : "text" })}
              >
                <option value="text">{w("text")}</option>
                <option value="file">{w("file")}</option>
              </Select>
            )}
          </Field>
          <Field
            label={w("description")}
            optional
            error={fault(`outputs[${index}].description`)}
            className="min-w-0 sm:basis-full lg:flex-1 lg:basis-40"
          >
            {(field) => (
              <Input
                {...field}
                value={output.description}
                onChange={(event) => set({ description: event.target.value })}
              />
            )}
          </Field>
        </>
      )}
    />
  )
}

interface RowsProps<T> {
  rows: T[]
  change: (rows: T[]) => void
  add: string
  fresh: T
  fault?: string
  row: (row: T, index: number, set: (change: Partial<T>) => void) => ReactNode
}

function List<T extends { name: string }>({ rows, change, add, fresh, fault, row }: RowsProps<T>) {
  const c = useTexts(commonTexts)
  return (
    <>
      {rows.map((each, index) => (
        <div key={index} className="flex items-start gap-2 rounded-md border bg-background p-3">
          <div className="flex min-w-0 flex-1 flex-wrap gap-3 max-sm:flex-col">
            {row(each, index, (what) =>
              change(rows.map((other, place) => (place === index ? { ...other, ...what } : other))),
            )}
          </div>
          <Button
            look="ghost"
            size="icon"
            className="mt-6 text-muted-foreground"
            aria-label={c("removeOne", { name: each.name || String(index + 1) })}
            title={c("remove")}
            onClick={() => change(rows.filter((_, place) => place !== index))}
          >
            <Trash2 />
          </Button>
        </div>
      ))}
      {fault && <p className="text-[13px] text-destructive">{fault}</p>}
      <Button size="small" className="self-start" onClick={() => change([...rows, { ...fresh }])}>
        <Plus />
        {add}
      </Button>
    </>
  )
}
