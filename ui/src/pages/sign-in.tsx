/** The sign-in page, and the page behind a one-time link, where a password is chosen. */
import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { type FormEvent, type ReactNode, useState } from "react"
import { loginOptionsQuery, readLink, redeemLink, signIn } from "@/api/client"
import { asProblem } from "@/api/problem"
import { LanguageSwitch, ThemeSwitch } from "@/app/shell"
import { Button } from "@/components/button"
import { Loading, ProblemView } from "@/components/feedback"
import { Field, Input } from "@/components/form"
import { useTitle } from "@/components/page"
import { signInTexts } from "@/i18n/shell"
import { useTexts } from "@/i18n/translate"

const route = getRouteApi("/sign-in")

export function SignIn() {
  const w = useTexts(signInTexts)
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

/** The layout of pages for users who are not signed in. */
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

/** Only addresses of this site, so that a link to the sign-in page cannot lead elsewhere. */
export function ownAddress(to: string | undefined): string {
  return to && /^\/(?![/\\])/.test(to) ? to : "/"
}

export function Welcome() {
  const w = useTexts(signInTexts)
  const [secret] = useState(() => location.hash.slice(1))
  const link = useQuery({ queryKey: ["link", secret], queryFn: () => readLink(secret), retry: false, gcTime: 0 })
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
