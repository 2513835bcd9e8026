/** The account page: profile, password, API tokens, sessions and teams. */

import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { KeyRound, Plus, Users } from "lucide-react"
import { type FormEvent, useMemo, useState } from "react"
import {
  changePassword,
  createToken,
  editUser,
  endSession,
  type Session,
  sessionsQuery,
  type Team,
  teamListQuery,
  tokensQuery,
} from "@/api/admin"
import { useMe } from "@/api/client"
import { asProblem } from "@/api/problem"
import { canNotify } from "@/app/notifications"
import { usePreferences } from "@/app/preferences"
import { Badge } from "@/components/badge"
import { Button } from "@/components/button"
import { CopyText } from "@/components/code"
import { actionsColumn, type Column } from "@/components/data-table"
import { Dialog, FormDialog, text } from "@/components/dialog"
import { Empty, ProblemView } from "@/components/feedback"
import { Segments } from "@/components/filters"
import { Field, Input, Select, Tick } from "@/components/form"
import { Listing, usePage } from "@/components/listing"
import { Page } from "@/components/page"
import { Tabs } from "@/components/tabs"
import { Time } from "@/components/time"
import { note, noteError } from "@/components/toasts"
import { useTokenColumns } from "@/components/token-table"
import { RestoredNote, useTypedForm } from "@/components/typed-form"
import { Webhooks } from "@/components/webhooks"
import { accountTexts, adminTexts } from "@/i18n/admin"
import { commonTexts } from "@/i18n/common"
import { notificationTexts } from "@/i18n/notifications"
import { useTexts } from "@/i18n/translate"
import { listState } from "@/lib/pagination"
import type { NoticeChoice } from "@/lib/run-notices"

/** A readable name for a user agent: "Firefox · Linux". */
const BROWSERS: [RegExp, string][] = [
  [/Edg\//, "Edge"],
  [/OPR\//, "Opera"],
  [/Firefox\//, "Firefox"],
  [/(Chrome|Chromium)\//, "Chrome"],
  [/Safari\//, "Safari"],
]
const SYSTEMS: [RegExp, string][] = [
  [/Android/, "Android"],
  [/iPhone|iPad/, "iOS"],
  [/Windows/, "Windows"],
  [/Mac OS X/, "macOS"],
  [/Linux/, "Linux"],
]

export function browserName(agent: string): string {
  const find = (all: [RegExp, string][]) => all.find(([pattern]) => pattern.test(agent))?.[1]
  return [find(BROWSERS), find(SYSTEMS)].filter(Boolean).join(" · ") || agent || "–"
}

const route = getRouteApi("/shell/account")
const TABS = {
  profile: Profile,
  password: Password,
  tokens: MyTokens,
  sessions: Sessions,
  teams: MyTeams,
  notifications: Notifications,
}
type TabId = keyof typeof TABS

export function AccountPage() {
  const w = useTexts(accountTexts)
  const { user } = useMe()
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const ids = Object.keys(TABS) as TabId[]
  const tab = ids.find((each) => each === search.tab) ?? "profile"
  return (
    <Page title={w("title")} lead={user.name}>
      <Tabs
        value={tab}
        onChange={(tab) => void navigate({ search: { tab: tab === "profile" ? undefined : tab } })}
        inside="flex flex-col gap-3 pt-4"
        tabs={ids.map((id) => {
          const Content = TABS[id]
          return { id, label: w(id), content: <Content /> }
        })}
      />
    </Page>
  )
}

function Notifications() {
  return (
    <>
      <BrowserNotifications />
      <Webhooks team="" adds />
    </>
  )
}

/** Whether and when this browser tells the user that a run has ended. */
function BrowserNotifications() {
  const w = useTexts(notificationTexts)
  const { notices, setNotices } = usePreferences()
  const [permission, setPermission] = useState(canNotify() ? Notification.permission : undefined)
  const choose = async (choice: NoticeChoice) => {
    setNotices(choice)
    // Browsers ask only after a click.
    if (choice !== "off" && permission === "default") setPermission(await Notification.requestPermission())
  }
  return (
    <section aria-label={w("title")} className="flex flex-col gap-3 pb-4">
      <div>
        <h2>{w("title")}</h2>
        <p className="text-muted-foreground">{w("lead")}</p>
      </div>
      <div className="w-fit">
        <Segments
          label={w("when")}
          choices={(["off", "failed", "all"] as const).map((value) => ({ value, label: w(value) }))}
          value={notices}
          onChange={(choice) => void choose(choice)}
        />
      </div>
      {notices !== "off" && permission !== "granted" && (
        <p role="status" className="text-[13px] text-muted-foreground">
          {permission === undefined ? w("unsupported") : w("denied")}
        </p>
      )}
    </section>
  )
}

export function Profile() {
  const w = useTexts(adminTexts)
  const a = useTexts(accountTexts)
  const c = useTexts(commonTexts)
  const { user } = useMe()
  const typed = useTypedForm("profile")
  const [error, setError] = useState<unknown>()
  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const form = new FormData(event.currentTarget)
    setError(undefined)
    try {
      await editUser(user, { display_name: text(form, "display_name"), email: text(form, "email") })
      typed.forget()
      note(a("saved"))
    } catch (thrown) {
      setError(thrown)
    }
  }
  const problem = error ? asProblem(error) : undefined
  return (
    <form key={user.revision} ref={typed.form} className="flex max-w-md flex-col gap-4" onSubmit={submit}>
      <RestoredNote typed={typed} />
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

export function Password() {
  const w = useTexts(accountTexts)
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

const tokensRoute = getRouteApi("/shell/account")
const DAYS = [7, 30, 90, 365]
const SCOPES = ["read", "write", "admin"] as const
const SCOPE_WORDS = { read: "scopeRead", write: "scopeWrite", admin: "scopeAdmin" } as const

export function MyTokens() {
  const w = useTexts(accountTexts)
  const a = useTexts(adminTexts)
  const c = useTexts(commonTexts)
  const { user } = useMe()
  const search = tokensRoute.useSearch()
  const navigate = tokensRoute.useNavigate()
  const { asked, shown } = listState(search, navigate, "-created")
  const [made, setMade] = useState<{ name: string; secret: string }>()
  const found = usePage(tokensQuery({ user: user.id, ...asked }))
  const columns = useTokenColumns(w("tokenName"), false).map((column) => ({ ...column, sort: undefined }))
  const open = (which: string | undefined) => void navigate({ search: (before) => ({ ...before, open: which }) })
  const scopes = SCOPES.filter((scope) => scope !== "admin" || user.role === "admin")
  const create = (
    <Button look="primary" onClick={() => open("new")}>
      <Plus />
      {w("newToken")}
    </Button>
  )
  return (
    <>
      <div className="flex flex-wrap items-center justify-between gap-2">
        <p className="text-muted-foreground">{w("tokensHelp")}</p>
        {create}
      </div>
      <Listing
        label={w("tokens")}
        found={found}
        columns={columns}
        rowId={(token) => token.id}
        {...shown}
        empty={
          <Empty icon={KeyRound} title={w("noTokens")} actions={create}>
            {w("noTokensHelp")}
          </Empty>
        }
      />
      {search.open === "new" && (
        <FormDialog
          title={w("newTokenTitle")}
          action={c("create")}
          fields={["name", "scopes", "days"]}
          onClose={() => open(undefined)}
          onSubmit={async (form) => {
            const name = text(form, "name")
            const days = text(form, "days")
            const answer = await createToken({
              name,
              scopes: SCOPES.filter((scope) => form.get(scope) === "on"),
              days: days === "" ? null : Number(days),
            })
            open(undefined)
            setMade({ name, secret: answer.secret })
          }}
        >
          {(fault) => (
            <>
              <Field label={w("tokenName")} error={fault("name")}>
                {(field) => <Input {...field} name="name" required autoFocus maxLength={200} autoComplete="off" />}
              </Field>
              <fieldset>
                <legend className="mb-1 text-[13px] font-medium">{a("scopes")}</legend>
                <div className="flex flex-wrap gap-4">
                  {scopes.map((scope) => (
                    <Tick key={scope} name={scope} label={a(SCOPE_WORDS[scope])} defaultChecked={scope !== "admin"} />
                  ))}
                </div>
                {fault("scopes") && <p className="text-[13px] text-destructive">{fault("scopes")}</p>}
              </fieldset>
              <Field label={w("lasts")} error={fault("days")}>
                {(field) => (
                  <Select {...field} name="days" defaultValue="90">
                    {DAYS.map((days) => (
                      <option key={days} value={days}>
                        {w("days", { n: days })}
                      </option>
                    ))}
                    <option value="">{w("forever")}</option>
                  </Select>
                )}
              </Field>
            </>
          )}
        </FormDialog>
      )}
      {made && (
        <Dialog
          open
          onClose={() => setMade(undefined)}
          title={w("secretTitle", { name: made.name })}
          actions={
            <Button look="primary" onClick={() => setMade(undefined)}>
              {c("done")}
            </Button>
          }
        >
          <p>{w("secretHelp")}</p>
          <CopyText label={w("secret")} text={made.secret} />
        </Dialog>
      )}
    </>
  )
}

export function Sessions() {
  const w = useTexts(accountTexts)
  const c = useTexts(commonTexts)
  const found = useQuery(sessionsQuery({ limit: 200 }))
  const columns = useMemo((): Column<Session>[] => {
    const end = async (session: Session) => {
      try {
        await endSession(session)
        note(w("ended"))
      } catch (error) {
        noteError(error)
      }
    }
    return [
      {
        id: "browser",
        header: w("browser"),
        cell: (session) => (
          <span className="inline-flex items-center gap-2" title={session.browser}>
            {browserName(session.browser)}
            {session.current && <Badge tone="primary">{w("thisOne")}</Badge>}
          </span>
        ),
      },
      { id: "address", header: w("address"), cell: (session) => session.address },
      { id: "created", header: c("created"), cell: (session) => <Time at={session.created} /> },
      { id: "used", header: w("lastSeen"), cell: (session) => <Time at={session.last_used} /> },
      actionsColumn(
        c("actions"),
        (session) =>
          !session.current && (
            <Button size="small" onClick={() => void end(session)}>
              {w("end")}
            </Button>
          ),
      ),
    ]
  }, [w, c])
  return (
    <>
      <p className="text-muted-foreground">{w("sessionsHelp")}</p>
      <Listing label={w("sessions")} found={found} columns={columns} rowId={(session) => session.id} empty={null} />
    </>
  )
}

export function MyTeams() {
  const w = useTexts(accountTexts)
  const a = useTexts(adminTexts)
  const c = useTexts(commonTexts)
  const me = useMe()
  const found = useQuery(teamListQuery({ member: me.user.id, limit: 200 }))
  const columns = useMemo(
    (): Column<Team>[] => [
      {
        id: "name",
        header: c("name"),
        cell: (team) => (
          <Link to="/teams/$team" params={{ team: team.id }} className="font-medium text-primary hover:underline">
            {team.name}
          </Link>
        ),
      },
      { id: "description", header: c("description"), cell: (team) => team.description || "–" },
      { id: "members", header: a("members"), cell: (team) => team.members },
      {
        id: "role",
        header: a("role"),
        cell: (team) => {
          const leads = me.teams[team.id] === "leader"
          return <Badge tone={leads ? "primary" : "plain"}>{a(leads ? "roleLeader" : "roleMember")}</Badge>
        },
      },
    ],
    [a, c, me.teams],
  )
  return (
    <Listing
      label={w("teams")}
      found={found}
      columns={columns}
      rowId={(team) => team.id}
      empty={
        <Empty icon={Users} title={w("noTeams")}>
          {w("noTeamsHelp")}
        </Empty>
      }
    />
  )
}
