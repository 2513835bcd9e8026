/** Names with values, such as labels or variables, in a form. */
import { Plus, X } from "lucide-react"
import { Button } from "@/components/button"
import { Input } from "@/components/form"
import { commonTexts } from "@/i18n/common"
import { useTexts } from "@/i18n/translate"

export type Pair = [name: string, value: string]

interface PairProps {
  legend: string
  nameLabel: string
  valueLabel: string
  add: string
  pairs: Pair[]
  change: (pairs: Pair[]) => void
  /** The names to suggest. */
  suggestions?: string[]
  fault: (name: string) => string | undefined
}

/** A list of names and values of any length. */
export function PairRows({ legend, nameLabel, valueLabel, add, pairs, change, suggestions = [], fault }: PairProps) {
  const c = useTexts(commonTexts)
  const set = (at: number, pair: Pair) => change(pairs.map((each, index) => (index === at ? pair : each)))
  const list = `names-${nameLabel}`
  return (
    <fieldset className="flex min-w-0 flex-col gap-2">
      <legend className="mb-1 text-[13px] font-medium">{legend}</legend>
      <datalist id={list}>
        {suggestions.map((each) => (
          <option key={each} value={each} />
        ))}
      </datalist>
      {/* For `useTypedForm`, which knows no rows that are not there yet. */}
      <input
        hidden
        name={`rows: ${legend}`}
        value={JSON.stringify(pairs)}
        onChange={(event) => change(JSON.parse(event.target.value) as Pair[])}
      />
      {pairs.map(([name, value], index) => (
        <div key={index} className="flex flex-col gap-1">
          <div className="flex gap-2">
            <Input
              aria-label={nameLabel}
              placeholder={nameLabel}
              list={list}
              className="min-w-0 font-mono text-[13px]"
              value={name}
              onChange={(event) => set(index, [event.target.value, value])}
            />
            <Input
              aria-label={valueLabel}
              placeholder={valueLabel}
              className="min-w-0 font-mono text-[13px]"
              value={value}
              onChange={(event) => set(index, [name, event.target.value])}
            />
            <Button
              look="ghost"
              size="icon"
              className="mt-0.5 shrink-0"
              aria-label={c("removeOne", { name: name || nameLabel })}
              onClick={() => change(pairs.filter((_, at) => at !== index))}
            >
              <X />
            </Button>
          </div>
          {fault(name) && <p className="text-[13px] text-destructive">{fault(name)}</p>}
        </div>
      ))}
      <div>
        <Button size="small" onClick={() => change([...pairs, ["", ""]])}>
          <Plus />
          {add}
        </Button>
      </div>
    </fieldset>
  )
}

/** Leaves out pairs without a name. */
export function asRecord(pairs: Pair[]): Record<string, string> {
  return Object.fromEntries(pairs.map(([name, value]): Pair => [name.trim(), value.trim()]).filter(([name]) => name))
}
