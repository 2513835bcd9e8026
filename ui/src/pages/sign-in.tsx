import { useQuery } from "@tanstack/react-query"
import { getRouteApi } from "@tanstack/react-router"
import { type FormEvent, type ReactNode, useState } from "react"
import { asProblem } from "@/api/problem"
import { loginOptionsQuery, signIn } from "@/api/session"
import { LanguageSwitch, ThemeSwitch } from "@/app/shell"
import { Button } from "@/components/button"
import { Field, Input } from "@/components/form"
import { useTitle } from "@/components/page"
import { ProblemView } from "@/components/problem-view"
import { signInWords } from "@/words/shell"
import { useWords } from "@/words/words"

const route = getRouteApi("/sign-in")

export function SignIn() {
  const w = useWords(signInWords)
  const { to, error: failed } = route.useSearch()
  const options = useQuery(loginOptionsQuery)
  const [error, setError] = useState<unknown>()
  const [busy, setBusy] = useState(false)

  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const form = new FormData(event.currentTarget)
    setBusy(true)
    setError(undefined)
    try {
      await signIn(String(form.get("name")), String(form.get("password")))
      location.assign(ownAddress(to))
    } catch (thrown) {
      setError(thrown)
      setBusy(false)
    }
  }

  const { status } = error ? asProblem(error) : { status: 0 }
  const openid = options.data?.openid
  return (
    <Front title={w("title")}>
      {openid && (
        <>
          <Button asChild className="w-full">
            <a href={`/api/v1/openid/login?return_to=${encodeURIComponent(ownAddress(to))}`}>
              {w("signInWith", { name: openid })}
            </a>
          </Button>
          <div className="text-center text-[13px] text-muted-foreground">{w("or")}</div>
        </>
      )}
      {failed && <Wrong>{w("openidFailed", { detail: failed })}</Wrong>}
      <form className="flex flex-col gap-4" onSubmit={submit}>
        <Field label={w("name")}>
          {(field) => <Input {...field} name="name" autoComplete="username" autoFocus required autoCapitalize="off" />}
        </Field>
        <Field label={w("password")}>
          {(field) => <Input {...field} name="password" type="password" autoComplete="current-password" required />}
        </Field>
        {status === 401 ? (
          <Wrong>{w("wrong")}</Wrong>
        ) : status === 429 ? (
          <Wrong>{w("tooMany")}</Wrong>
        ) : (
          <ProblemView error={error} />
        )}
        <Button type="submit" look="primary" disabled={busy}>
          {w("signIn")}
        </Button>
      </form>
      <p className="text-[13px] text-muted-foreground">{w("first")}</p>
    </Front>
  )
}

/** A page in front of the door. */
export function Front({ title, children }: { title: string; children: ReactNode }) {
  useTitle(title)
  return (
    <main className="flex min-h-full flex-col items-center justify-center gap-4 p-4">
      <div className="flex w-full max-w-sm flex-col gap-4 rounded-lg border bg-card p-6 shadow-sm">
        <div className="flex items-center gap-2.5">
          <img src="/icon.svg" alt="" className="size-8" />
          <h1>{title}</h1>
        </div>
        {children}
      </div>
      <div className="flex gap-1">
        <LanguageSwitch />
        <ThemeSwitch />
      </div>
    </main>
  )
}

function Wrong({ children }: { children: ReactNode }) {
  return (
    <p role="alert" className="text-[13px] text-destructive">
      {children}
    </p>
  )
}

/** Nobody is to be led to another site by a link to our sign-in page. */
export function ownAddress(to: string | undefined): string {
  return to && /^\/(?![/\\])/.test(to) ? to : "/"
}
