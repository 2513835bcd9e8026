import { Plus, X } from "lucide-react"
import { Button } from "@/components/button"
import { Input } from "@/components/form"
import { commonWords } from "@/words/common"
import { useWords } from "@/words/words"

export type Pair = [name: string, value: string]

interface Props {
  legend: string
  nameLabel: string
  valueLabel: string
  add: string
  pairs: Pair[]
  change: (pairs: Pair[]) => void
  /** What names can be. */
  suggestions?: string[]
  fault: (name: string) => string | undefined
}

/** Names and values, as many as somebody wants. */
export function PairRows({ legend, nameLabel, valueLabel, add, pairs, change, suggestions = [], fault }: Props) {
  const c = useWords(commonWords)
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

/** Without those that have no name. */
export function asRecord(pairs: Pair[]): Record<string, string> {
  return Object.fromEntries(pairs.map(([name, value]): Pair => [name.trim(), value.trim()]).filter(([name]) => name))
}
