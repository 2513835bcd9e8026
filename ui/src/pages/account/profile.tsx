import { type FormEvent, useState } from "react"
import { editUser } from "@/api/admin"
import { asProblem } from "@/api/problem"
import { useMe } from "@/api/session"
import { Button } from "@/components/button"
import { Field, Input } from "@/components/form"
import { text } from "@/components/form-dialog"
import { ProblemView } from "@/components/problem-view"
import { note } from "@/components/toasts"
import { accountWords, adminWords } from "@/words/admin"
import { commonWords } from "@/words/common"
import { useWords } from "@/words/words"

export function Profile() {
  const w = useWords(adminWords)
  const a = useWords(accountWords)
  const c = useWords(commonWords)
  const { user } = useMe()
  const [error, setError] = useState<unknown>()
  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const form = new FormData(event.currentTarget)
    setError(undefined)
    try {
      await editUser(user, { display_name: text(form, "display_name"), email: text(form, "email") })
      note(a("saved"))
    } catch (thrown) {
      setError(thrown)
    }
  }
  const problem = error ? asProblem(error) : undefined
  return (
    <form key={user.revision} className="flex max-w-md flex-col gap-4" onSubmit={submit}>
      <Field label={w("account")}>{(field) => <Input {...field} readOnly value={user.name} />}</Field>
      <Field label={w("displayName")} optional error={problem?.of("display_name")}>
        {(field) => (
          <Input {...field} name="display_name" maxLength={200} autoComplete="name" defaultValue={user.display_name} />
        )}
      </Field>
      <Field label={w("email")} optional error={problem?.of("email")}>
        {(field) => (
          <Input
            {...field}
            name="email"
            type="email"
            maxLength={200}
            autoComplete="email"
            defaultValue={user.email ?? ""}
          />
        )}
      </Field>
      <ProblemView error={error} />
      <div>
        <Button type="submit" look="primary">
          {c("save")}
        </Button>
      </div>
    </form>
  )
}
