/** Behind a one-time link: choose a password. The secret is in the part of the address that is never sent. */
import { useQuery } from "@tanstack/react-query"
import { Link } from "@tanstack/react-router"
import { type FormEvent, useState } from "react"
import { asProblem } from "@/api/problem"
import { lookAtLink, redeemLink } from "@/api/session"
import { Button } from "@/components/button"
import { Loading } from "@/components/feedback"
import { Field, Input } from "@/components/form"
import { ProblemView } from "@/components/problem-view"
import { signInWords } from "@/words/shell"
import { useWords } from "@/words/words"
import { Front } from "./sign-in"

export function Welcome() {
  const w = useWords(signInWords)
  const [secret] = useState(() => location.hash.slice(1))
  const link = useQuery({ queryKey: ["link", secret], queryFn: () => lookAtLink(secret), retry: false, gcTime: 0 })
  const [error, setError] = useState<unknown>()
  const [busy, setBusy] = useState(false)

  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const password = String(new FormData(event.currentTarget).get("password"))
    setBusy(true)
    setError(undefined)
    try {
      await redeemLink(secret, password)
      location.replace("/")
    } catch (thrown) {
      setError(thrown)
      setBusy(false)
    }
  }

  if (link.isPending) return <Loading className="h-full" />
  if (link.error)
    return (
      <Front title={w("badLink")}>
        <p>{w("badLinkHelp")}</p>
        <Button asChild look="primary">
          <Link to="/sign-in">{w("toSignIn")}</Link>
        </Button>
      </Front>
    )
  const fault = error ? asProblem(error).of("password") : undefined
  return (
    <Front title={w("welcome")}>
      <p>{w("choose", { name: link.data })}</p>
      <form className="flex flex-col gap-4" onSubmit={submit}>
        <input name="username" autoComplete="username" value={link.data} readOnly hidden />
        <Field label={w("newPassword")} error={fault}>
          {(field) => (
            <Input {...field} name="password" type="password" autoComplete="new-password" autoFocus required />
          )}
        </Field>
        {!fault && <ProblemView error={error} />}
        <Button type="submit" look="primary" disabled={busy}>
          {w("useLink")}
        </Button>
      </form>
    </Front>
  )
}
