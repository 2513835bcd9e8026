/** The columns of a table of API tokens: for your own tokens, and for an admin all of them. */
import { useState } from "react"
import { revokeToken, type Token } from "@/api/admin"
import { usePreferences } from "@/app/preferences"
import { adminTexts } from "@/i18n/admin"
import { useTexts } from "@/i18n/translate"
import { day } from "@/lib/times"
import { Badge } from "./badge"
import { Button } from "./button"
import { actionsColumn, type Column } from "./data-table"
import { Confirm } from "./dialog"
import { Time } from "./time"
import { note } from "./toasts"

const SCOPES = { read: "scopeRead", write: "scopeWrite", admin: "scopeAdmin", run: "scopeRun" } as const

export function useTokenColumns(name: string, owner: boolean): Column<Token>[] {
  const w = useTexts(adminTexts)
  return [
    {
      id: "name",
      header: name,
      sort: "name",
      cell: (token) => (
        <div>
          <div className="font-medium">{token.name}</div>
          <code className="font-mono text-[13px] text-muted-foreground">mst_…{token.hint}</code>
        </div>
      ),
    },
    ...(owner ? [{ id: "owner", header: w("owner"), cell: (token: Token) => token.user_name }] : []),
    {
      id: "scopes",
      header: w("scopes"),
      cell: (token) => (
        <span className="inline-flex gap-1">
          {token.scopes.map((scope) => (
            <Badge key={scope} tone={scope === "admin" ? "warning" : "plain"}>
              {w(SCOPES[scope])}
            </Badge>
          ))}
        </span>
      ),
    },
    {
      id: "used",
      header: w("lastUsed"),
      cell: (token) => (token.last_used ? <Time at={token.last_used} /> : w("never")),
    },
    { id: "expires", header: w("expires"), cell: (token) => <Ends token={token} /> },
    actionsColumn(w("revoke"), (token) => <Revoke token={token} />),
  ]
}

function Ends({ token }: { token: Token }) {
  const w = useTexts(adminTexts)
  const language = usePreferences((all) => all.language)
  if (token.revoked) return <Badge tone="failed">{w("revoked")}</Badge>
  if (!token.expires) return <>{w("never")}</>
  if (Date.parse(token.expires) < Date.now()) return <Badge tone="waiting">{w("expired")}</Badge>
  return <span className="whitespace-nowrap">{day(token.expires, language)}</span>
}

function Revoke({ token }: { token: Token }) {
  const w = useTexts(adminTexts)
  const [asked, setAsked] = useState(false)
  if (token.revoked || (token.expires && Date.parse(token.expires) < Date.now())) return null
  return (
    <>
      <Button size="small" aria-label={`${w("revoke")}: ${token.name}`} onClick={() => setAsked(true)}>
        {w("revoke")}
      </Button>
      <Confirm
        open={asked}
        danger
        onClose={() => setAsked(false)}
        title={w("revokeTitle", { name: token.name })}
        lead={w("revokeHelp")}
        action={w("revoke")}
        onConfirm={async () => {
          await revokeToken(token)
          note(w("revokedNow", { name: token.name }))
        }}
      />
    </>
  )
}
