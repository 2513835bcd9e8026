/** Filters above a list: search box, owner, and a choice of a few values. */
import { Search } from "lucide-react"
import { type ReactNode, useEffect, useMemo, useRef, useState } from "react"
import { useMe } from "@/api/client"
import { commonTexts } from "@/i18n/common"
import { useTexts } from "@/i18n/translate"
import { classes } from "@/lib/classes"
import { Input, Select } from "./form"

/** The row of filters above a list. */
export function Filters({ children }: { children: ReactNode }) {
  return <div className="flex flex-wrap items-center gap-2">{children}</div>
}

interface OwnerProps {
  value: string | undefined
  onChange: (name: string | undefined) => void
}

/** All, the user's own, or those of the user in the address. */
export function OwnerFilter({ value, onChange }: OwnerProps) {
  const c = useTexts(commonTexts)
  const me = useMe().user.name
  const others = value && value !== me ? [{ value, label: value }] : []
  const choices = [{ value: me, label: c("mine") }, ...others]
  return <ChoiceFilter label={c("owner")} all={c("allOwners")} choices={choices} value={value} onChange={onChange} />
}

const DAYS = { "1": "lastDay", "7": "lastWeek", "30": "lastMonth" } as const

interface CreatedProps {
  days: string | undefined
  onChange: (days: string | undefined) => void
}

/** What was created in the last days. */
export function CreatedFilter({ days, onChange }: CreatedProps) {
  const c = useTexts(commonTexts)
  const choices = Object.entries(DAYS).map(([value, word]) => ({ value, label: c(word) }))
  return <ChoiceFilter label={c("created")} all={c("anyTime")} choices={choices} value={days} onChange={onChange} />
}

/** The time that a `CreatedFilter` means; the same for as long as its value is. */
export function useSince(days: string | undefined): string | undefined {
  return useMemo(() => (days ? new Date(Date.now() - Number(days) * 86_400_000).toISOString() : undefined), [days])
}

interface StateProps<S extends string> {
  states: readonly S[]
  w: (word: S | "state" | "allStates") => string
  value: S | undefined
  onChange: (state: string | undefined) => void
}

export function StateFilter<S extends string>({ states, w, ...choice }: StateProps<S>) {
  const choices = states.map((value) => ({ value, label: w(value) }))
  return <ChoiceFilter label={w("state")} all={w("allStates")} choices={choices} {...choice} />
}

interface ChoiceProps {
  label: string
  /** The label of "no filter". */
  all: string
  choices: readonly { value: string; label: string }[]
  value: string | undefined
  onChange: (value: string | undefined) => void
  className?: string
}

/** A drop-down that filters by one value, or not at all. */
export function ChoiceFilter({ label, all, choices, value = "", onChange, className = "w-auto" }: ChoiceProps) {
  return (
    <Select
      aria-label={label}
      className={className}
      value={value}
      onChange={(event) => onChange(event.target.value || undefined)}
    >
      <option value="">{all}</option>
      {choices.map((choice) => (
        <option key={choice.value} value={choice.value}>
          {choice.label}
        </option>
      ))}
    </Select>
  )
}

interface SearchProps {
  label: string
  value: string
  onChange: (value: string) => void
  className?: string
}

/** Searches after a pause in typing. */
export function SearchBox({ label, value, onChange, className }: SearchProps) {
  const [text, setText] = useState(value)
  const told = useRef(value)
  useEffect(() => {
    if (value !== told.current) setText(value)
    told.current = value
  }, [value])
  useEffect(() => {
    if (text === told.current) return
    const timer = setTimeout(() => {
      told.current = text
      onChange(text)
    }, 250)
    return () => clearTimeout(timer)
  }, [text, onChange])
  return (
    <div className={classes("relative w-72 max-w-full", className)}>
      <Search aria-hidden className="absolute top-2.5 left-2.5 size-4 text-muted-foreground" />
      <Input
        type="search"
        aria-label={label}
        placeholder={label}
        value={text}
        onChange={(event) => setText(event.target.value)}
        className="pl-8"
      />
    </div>
  )
}

interface SegmentsProps<T extends string> {
  label: string
  choices: { value: T; label: string }[]
  value: T
  onChange: (value: T) => void
}

/** A choice of a few values, all of them visible. */
export function Segments<T extends string>({ label, choices, value, onChange }: SegmentsProps<T>) {
  return (
    <div role="group" aria-label={label} className="flex max-w-full overflow-x-auto rounded-md border bg-card p-0.5">
      {choices.map((choice) => (
        <button
          key={choice.value}
          type="button"
          aria-pressed={choice.value === value}
          onClick={() => onChange(choice.value)}
          className={classes(
            "rounded px-2 py-1 text-[13px] whitespace-nowrap sm:px-3",
            choice.value === value
              ? "bg-accent font-medium text-primary"
              : "text-muted-foreground hover:bg-muted hover:text-foreground",
          )}
        >
          {choice.label}
        </button>
      ))}
    </div>
  )
}
