import { keepPreviousData, useQuery } from "@tanstack/react-query"
import { getRouteApi } from "@tanstack/react-router"
import { KeyRound, Plus } from "lucide-react"
import { useState } from "react"
import { createToken, tokensQuery } from "@/api/admin"
import { useMe } from "@/api/session"
import { Button } from "@/components/button"
import { CopyText } from "@/components/copy-text"
import { Dialog } from "@/components/dialog"
import { Empty } from "@/components/feedback"
import { Field, Input, Select, Tick } from "@/components/form"
import { FormDialog, text } from "@/components/form-dialog"
import { Listing } from "@/components/listing"
import { useTokenColumns } from "@/components/token-parts"
import { browsing } from "@/lib/browsing"
import { accountWords, adminWords } from "@/words/admin"
import { commonWords } from "@/words/common"
import { useWords } from "@/words/words"

const route = getRouteApi("/shell/account")
const DAYS = [7, 30, 90, 365]
const SCOPES = ["read", "write", "admin"] as const
const SCOPE_WORDS = { read: "scopeRead", write: "scopeWrite", admin: "scopeAdmin" } as const

export function MyTokens() {
  const w = useWords(accountWords)
  const a = useWords(adminWords)
  const c = useWords(commonWords)
  const { user } = useMe()
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const { asked, shown } = browsing(search, (search, replace) => void navigate({ search, replace }), "-created")
  const [made, setMade] = useState<{ name: string; secret: string }>()
  const found = useQuery({ ...tokensQuery({ user: user.id, ...asked }), placeholderData: keepPreviousData })
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
