import { Search } from "lucide-react"
import { type ReactNode, useEffect, useRef, useState } from "react"
import { useMe } from "@/api/session"
import { classes } from "@/lib/classes"
import { commonWords } from "@/words/common"
import { useWords } from "@/words/words"
import { Input, Select } from "./form"

/** Above a list. */
export function Filters({ children }: { children: ReactNode }) {
  return <div className="flex flex-wrap items-center gap-2">{children}</div>
}

interface OwnerProps {
  label: string
  value: string | undefined
  onChange: (name: string | undefined) => void
}

/** Everybody's, one's own, or whose the address says. */
export function OwnerFilter({ label, value, onChange }: OwnerProps) {
  const c = useWords(commonWords)
  const me = useMe().user.name
  return (
    <Select
      aria-label={label}
      className="w-auto"
      value={value ?? ""}
      onChange={(event) => onChange(event.target.value || undefined)}
    >
      <option value="">{c("all")}</option>
      <option value={me}>{c("mine")}</option>
      {value && value !== me && <option value={value}>{value}</option>}
    </Select>
  )
}

interface Props {
  label: string
  value: string
  onChange: (value: string) => void
  className?: string
}

/** Waits for a pause in typing. */
export function SearchBox({ label, value, onChange, className }: Props) {
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
