/** Tags of runs: shown, filtered by, and edited. */
import { useQuery } from "@tanstack/react-query"
import { Tag as TagIcon, X } from "lucide-react"
import { type KeyboardEvent, useId, useState } from "react"
import { runTagsQuery, setRunTags } from "@/api/runs"
import { commonTexts } from "@/i18n/common"
import { tagTexts } from "@/i18n/tags"
import { useTexts } from "@/i18n/translate"
import { classes } from "@/lib/classes"
import { addTag, isTag } from "@/lib/tags"
import { Button } from "./button"
import { Dialog } from "./dialog"
import { ProblemView } from "./feedback"
import { ChoiceFilter } from "./filters"
import { Field, Input } from "./form"

const chip =
  "inline-flex max-w-56 items-center gap-1 rounded border bg-muted/60 px-1.5 py-px text-xs text-muted-foreground [&_svg]:size-3 [&_svg]:shrink-0"

interface ListProps {
  tags: readonly string[]
  /** Filters a list by a tag. */
  choose?: (tag: string) => void
}

export function TagList({ tags, choose }: ListProps) {
  const w = useTexts(tagTexts)
  if (!tags.length) return null
  return (
    <ul aria-label={w("tags")} className="flex flex-wrap gap-1">
      {tags.map((tag) => (
        <li key={tag} className="inline-flex">
          {choose ? (
            <button
              type="button"
              title={w("only", { tag })}
              className={classes(chip, "hover:border-ring hover:text-foreground")}
              onClick={() => choose(tag)}
            >
              <span className="truncate">{tag}</span>
            </button>
          ) : (
            <span className={chip} title={tag}>
              <span className="truncate">{tag}</span>
            </span>
          )}
        </li>
      ))}
    </ul>
  )
}

interface InputProps {
  /** The tags at the beginning. */
  initial: readonly string[]
  /** All tags, with what is typed and not yet added: a form that is sent now has it, too. */
  onChange: (tags: string[]) => void
  error?: string
}

/** A field for tags: Enter or a comma ends one. */
export function TagInput({ initial, onChange, error }: InputProps) {
  const w = useTexts(tagTexts)
  const id = useId()
  const [tags, setTags] = useState(initial)
  const [text, setText] = useState("")
  const [wrong, setWrong] = useState(false)
  const known = useQuery(runTagsQuery("")).data ?? []
  const change = (tags: readonly string[], text: string) => {
    setTags(tags)
    setText(text)
    setWrong(false)
    onChange(text.trim() ? addTag(tags, text.trim()) : [...tags])
  }
  const add = (typed: string) => {
    const tag = typed.trim()
    if (!tag || isTag(tag)) change(tag ? addTag(tags, tag) : tags, "")
    else setWrong(true)
  }
  const press = (event: KeyboardEvent<HTMLInputElement>) => {
    if (event.key === "Enter" && text.trim()) {
      event.preventDefault() // it would send the form
      add(text)
    } else if (event.key === "Backspace" && !text && tags.length) {
      change(tags.slice(0, -1), "")
    }
  }
  return (
    <Field label={w("tags")} optional hint={w("hint")} error={wrong ? w("wrong") : error}>
      {(field) => (
        <div className="flex flex-col gap-2">
          <Input
            {...field}
            list={id}
            value={text}
            autoComplete="off"
            onChange={({ target: { value } }) => (value.endsWith(",") ? add(value.slice(0, -1)) : change(tags, value))}
            onKeyDown={press}
            onBlur={() => setWrong(text.trim() !== "" && !isTag(text.trim()))}
          />
          <datalist id={id}>
            {known.map(({ tag }) => (
              <option key={tag} value={tag} />
            ))}
          </datalist>
          {tags.length > 0 && (
            <ul aria-label={w("tags")} className="flex flex-wrap gap-1">
              {tags.map((tag) => (
                <li key={tag} className={chip}>
                  <span className="truncate">{tag}</span>
                  <button
                    type="button"
                    aria-label={w("remove", { tag })}
                    className="grid size-6 place-items-center rounded-sm hover:bg-muted hover:text-foreground"
                    onClick={() =>
                      change(
                        tags.filter((each) => each !== tag),
                        text,
                      )
                    }
                  >
                    <X />
                  </button>
                </li>
              ))}
            </ul>
          )}
        </div>
      )}
    </Field>
  )
}

interface FilterProps {
  /** Offers only tags of the runs of this workflow. */
  workflow?: string
  value: string | undefined
  onChange: (tag: string | undefined) => void
}

/** Hidden while no run has a tag. */
export function TagFilter({ workflow = "", value, onChange }: FilterProps) {
  const w = useTexts(tagTexts)
  const known = (useQuery(runTagsQuery(workflow)).data ?? []).map(({ tag, runs }) => ({
    value: tag,
    label: `${tag} (${runs})`,
  }))
  if (!known.length && !value) return null
  const choices = value && !known.some((each) => each.value === value) ? [{ value, label: value }, ...known] : known
  return (
    <ChoiceFilter
      label={w("tag")}
      all={w("allTags")}
      choices={choices}
      value={value}
      onChange={onChange}
      className="w-auto max-w-56"
    />
  )
}

/** The tags of a run, with a button to edit them. */
export function RunTags({ run, tags, edits }: { run: string; tags: readonly string[]; edits: boolean }) {
  const w = useTexts(tagTexts)
  const [editing, setEditing] = useState(false)
  if (!tags.length && !edits) return null
  return (
    <div className="flex flex-wrap items-center gap-2">
      <TagList tags={tags} />
      {edits && (
        <Button look="link" size="link" className="text-[13px]" onClick={() => setEditing(true)}>
          <TagIcon />
          {tags.length ? w("edit") : w("add")}
        </Button>
      )}
      {editing && <EditTags run={run} tags={tags} close={() => setEditing(false)} />}
    </div>
  )
}

function EditTags({ run, tags, close }: { run: string; tags: readonly string[]; close: () => void }) {
  const w = useTexts(tagTexts)
  const c = useTexts(commonTexts)
  const [value, setValue] = useState<readonly string[]>(tags)
  const [error, setError] = useState<unknown>()
  const [busy, setBusy] = useState(false)
  const save = async () => {
    setBusy(true)
    setError(undefined)
    try {
      await setRunTags(run, [...value])
      close()
    } catch (thrown) {
      setError(thrown)
      setBusy(false)
    }
  }
  return (
    <Dialog
      open
      onClose={close}
      title={w("edit")}
      lead={w("editLead")}
      actions={
        <>
          <Button onClick={close}>{c("cancel")}</Button>
          <Button look="primary" disabled={busy} onClick={() => void save()}>
            {c("save")}
          </Button>
        </>
      }
    >
      <TagInput
        initial={tags}
        onChange={(changed) => {
          setValue(changed)
          setError(undefined)
        }}
      />
      <ProblemView error={error} />
    </Dialog>
  )
}
