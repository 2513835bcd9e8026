/** A form in a dialog. What the server says against a field stands under it, everything else above the buttons. */
import { type FormEvent, type ReactNode, useId, useState } from "react"
import { asProblem } from "@/api/problem"
import { commonWords } from "@/words/common"
import { useWords } from "@/words/words"
import { Button } from "./button"
import { Dialog } from "./dialog"
import { ProblemView } from "./problem-view"

interface Props {
  title: string
  lead?: ReactNode
  action: string
  wide?: boolean
  /** Those that say themselves what is wrong with them. */
  fields: string[]
  onClose: () => void
  onSubmit: (form: FormData) => Promise<unknown>
  children: (fault: (field: string) => string | undefined) => ReactNode
  /** Beside the buttons. */
  more?: ReactNode
}

export function FormDialog({ title, lead, action, wide, fields, onClose, onSubmit, children, more }: Props) {
  const w = useWords(commonWords)
  const id = useId()
  const [error, setError] = useState<unknown>()
  const [busy, setBusy] = useState(false)
  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    setBusy(true)
    setError(undefined)
    try {
      await onSubmit(new FormData(event.currentTarget))
    } catch (thrown) {
      setError(thrown)
    } finally {
      setBusy(false)
    }
  }
  const problem = error ? asProblem(error) : undefined
  const elsewhere =
    problem && (problem.fields.length === 0 || problem.fields.some((each) => !fields.includes(each.field)))
  return (
    <Dialog
      open
      onClose={onClose}
      title={title}
      lead={lead}
      wide={wide}
      actions={
        <>
          {more && <div className="mr-auto flex flex-wrap gap-2">{more}</div>}
          <Button onClick={onClose}>{w("cancel")}</Button>
          <Button type="submit" form={id} look="primary" disabled={busy}>
            {action}
          </Button>
        </>
      }
    >
      <form id={id} className="flex flex-col gap-4" onSubmit={submit}>
        {children((field) => problem?.of(field))}
      </form>
      {elsewhere && <ProblemView error={error} except={fields} />}
    </Dialog>
  )
}

/** One text of a form, without blanks at its ends. */
export function text(form: FormData, name: string): string {
  return String(form.get(name) ?? "").trim()
}
