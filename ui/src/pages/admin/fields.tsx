/** Fields that several forms of the administration share. */

import { useQuery } from "@tanstack/react-query"
import { Plus, X } from "lucide-react"
import { teamsQuery } from "@/api/options"
import { Button } from "@/components/button"
import { Field, Input, Select, TextArea } from "@/components/form"
import { adminTexts } from "@/i18n/admin"
import { commonTexts } from "@/i18n/common"
import { useTexts } from "@/i18n/translate"

interface NameProps {
  fault: (field: string) => string | undefined
  name?: string
  description?: string
  hint?: string
}

/** Name and description. */
export function NameFields({ fault, name, description, hint }: NameProps) {
  const c = useTexts(commonTexts)
  return (
    <>
      <Field label={c("name")} hint={hint} error={fault("name")}>
        {(field) => <Input {...field} name="name" required autoFocus autoComplete="off" defaultValue={name} />}
      </Field>
      <Field label={c("description")} optional error={fault("description")}>
        {(field) => <TextArea {...field} name="description" rows={2} defaultValue={description} />}
      </Field>
    </>
  )
}

/** Who may use something: a team, or everyone. */
export function TeamField({ value, error }: { value?: string | null; error?: string }) {
  const w = useTexts(adminTexts)
  const teams = useQuery(teamsQuery).data?.items
  return (
    <Field label={w("who")} error={error}>
      {(field) => (
        // The selected team can be shown only when the teams are loaded.
        <Select {...field} key={teams ? "known" : "unknown"} name="team" defaultValue={value ?? ""}>
          <option value="">{w("everybody")}</option>
          {(teams ?? []).map((team) => (
            <option key={team.id} value={team.id}>
              {team.name}
            </option>
          ))}
        </Select>
      )}
    </Field>
  )
}

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
