import { type FormEvent, useState } from "react"
import { changePassword } from "@/api/admin"
import { asProblem } from "@/api/problem"
import { useMe } from "@/api/session"
import { Button } from "@/components/button"
import { Field, Input } from "@/components/form"
import { ProblemView } from "@/components/problem-view"
import { note } from "@/components/toasts"
import { accountWords } from "@/words/admin"
import { useWords } from "@/words/words"

export function Password() {
  const w = useWords(accountWords)
  const { user } = useMe()
  const [error, setError] = useState<unknown>()
  const [busy, setBusy] = useState(false)
  if (!user.has_password) return <p className="text-muted-foreground">{w("noPassword")}</p>
  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const target = event.currentTarget
    const form = new FormData(target)
    setBusy(true)
    setError(undefined)
    try {
      await changePassword({ old: String(form.get("old")), new: String(form.get("new")) })
      target.reset()
      note(w("passwordChanged"))
    } catch (thrown) {
      setError(thrown)
    } finally {
      setBusy(false)
    }
  }
  const problem = error ? asProblem(error) : undefined
  return (
    <form className="flex max-w-md flex-col gap-4" onSubmit={submit}>
      <input name="username" autoComplete="username" value={user.name} readOnly hidden />
      <Field label={w("oldPassword")} error={problem?.of("old")}>
        {(field) => <Input {...field} name="old" type="password" autoComplete="current-password" required />}
      </Field>
      <Field label={w("newPassword")} error={problem?.of("new")}>
        {(field) => <Input {...field} name="new" type="password" autoComplete="new-password" required />}
      </Field>
      {problem && problem.fields.length === 0 && <ProblemView error={error} />}
      <div>
        <Button type="submit" look="primary" disabled={busy}>
          {w("changePassword")}
        </Button>
      </div>
    </form>
  )
}
