/** Parts that the forms of the editor share. */
import { ChevronRight, Plus, Trash2 } from "lucide-react"
import type { ComponentProps, ReactNode } from "react"
import { Button } from "@/components/button"
import { Field, Input } from "@/components/form"
import { commonTexts } from "@/i18n/common"
import { useTexts } from "@/i18n/translate"

/** A section of a form that can be collapsed. */
export function Section({
  title,
  count,
  onInput,
  children,
}: {
  title: string
  count?: number
  onInput?: () => void
  children: ReactNode
}) {
  return (
    <details open onInput={onInput} className="group border-b last:border-0">
      <summary className="flex cursor-pointer list-none items-center gap-1.5 px-4 py-2.5 font-semibold hover:bg-muted/60">
        <ChevronRight aria-hidden className="size-4 text-muted-foreground transition-transform group-open:rotate-90" />
        <h3>{title}</h3>
        {count ? <span className="text-xs font-normal text-muted-foreground">{count}</span> : null}
      </summary>
      <div className="flex flex-col gap-3 px-4 pb-4">{children}</div>
    </details>
  )
}

interface CodeFieldProps extends Omit<ComponentProps<typeof Input>, "onChange" | "children"> {
  label: string
  /** The path of the value in the graph, for focus and errors. */
  field: string
  fault: (field: string) => string | undefined
  hint?: string
  onChange: (value: string) => void
}

/** A name, a path or another value that a program reads. */
export function CodeField({ label, field, fault, hint, className, onChange, ...input }: CodeFieldProps) {
  return (
    <Field label={label} error={fault(field)} hint={hint} className={className}>
      {(props) => (
        <Input
          {...props}
          {...input}
          data-field={field}
          spellCheck={false}
          className="font-mono text-[13px]"
          onChange={(event) => onChange(event.target.value)}
        />
      )}
    </Field>
  )
}

interface RowsProps<T> {
  rows: T[]
  /** The name of a row in the label of its remove button. */
  named: (row: T) => string
  field: string
  /** `field`: `inputs[0].name` after a change, `inputs[0]+` for a new row. */
  row: (row: T, index: number, set: (change: Partial<T>, part: string) => void) => ReactNode
  change: (rows: T[], field: string) => void
  add?: { label: string; fresh: () => T }
  /** Rows that the user cannot change. */
  fixed?: boolean
}

/** A list of rows with fields; each row can be removed. */
export function Rows<T>({ rows, named, field, row, change, add, fixed }: RowsProps<T>) {
  const w = useTexts(commonTexts)
  return (
    <>
      {rows.map((each, index) => (
        <div key={index} className="flex flex-col gap-2 rounded-md border bg-background p-2.5">
          {row(each, index, (what, part) =>
            change(
              rows.map((other, place) => (place === index ? { ...other, ...what } : other)),
              `${field}[${index}].${part}`,
            ),
          )}
          {!fixed && (
            <Button
              look="ghost"
              size="small"
              className="self-end text-muted-foreground in-[fieldset:disabled]:hidden"
              aria-label={w("removeOne", { name: named(each) || String(index + 1) })}
              onClick={() =>
                change(
                  rows.filter((_, place) => place !== index),
                  field,
                )
              }
            >
              <Trash2 />
              {w("remove")}
            </Button>
          )}
        </div>
      ))}
      {add && (
        <Button
          size="small"
          className="self-start in-[fieldset:disabled]:hidden"
          onClick={() => change([...rows, add.fresh()], `${field}[${rows.length}]+`)}
        >
          <Plus />
          {add.label}
        </Button>
      )}
      {rows.length === 0 && <p className="hidden text-muted-foreground in-[fieldset:disabled]:block">–</p>}
    </>
  )
}
