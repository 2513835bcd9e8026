/** The webhooks of a user or a team: a list, a form, and the log of what was sent. */
import { useQuery } from "@tanstack/react-query"
import { Link } from "@tanstack/react-router"
import { History, Pencil, Plus, Repeat, Send, Trash2, Webhook as WebhookIcon } from "lucide-react"
import { useId, useMemo, useState } from "react"
import { asProblem, withoutField } from "@/api/problem"
import {
  createWebhook,
  type Delivery,
  deleteWebhook,
  deliveriesQuery,
  type EndState,
  editWebhook,
  redeliver,
  testWebhook,
  type Webhook,
  webhooksQuery,
} from "@/api/webhooks"
import { workflowsQuery } from "@/api/workflows"
import { usePreferences } from "@/app/preferences"
import { commonTexts } from "@/i18n/common"
import { webhookTexts } from "@/i18n/notifications"
import { serverMessage } from "@/i18n/server-messages"
import { useTexts } from "@/i18n/translate"
import { type Action, Actions } from "./actions"
import { Badge, type Tone } from "./badge"
import { Button } from "./button"
import { actionsColumn, type Column, DataTable } from "./data-table"
import { Dialog } from "./dialog"
import { Empty, Loading, ProblemView } from "./feedback"
import { Field, Input, Select, Tick } from "./form"
import { Time } from "./time"
import { noteError } from "./toasts"
import { RestoredNote, useTypedForm } from "./typed-form"

const STATES: EndState[] = ["succeeded", "failed", "stopped"]

interface Props {
  /** The id of a team; "" for the user's own webhooks. */
  team: string
  /** Whether the user may add one. */
  adds: boolean
}

export function Webhooks({ team, adds }: Props) {
  const w = useTexts(webhookTexts)
  const c = useTexts(commonTexts)
  const found = useQuery(webhooksQuery(team))
  const [editing, setEditing] = useState<Webhook | "new">()
  const [logOf, setLogOf] = useState<Webhook>()
  const columns = useMemo((): Column<Webhook>[] => {
    const statesOf = (webhook: Webhook) => webhook.states.map((state) => w(state)).join(c("listComma"))
    return [
      {
        id: "name",
        header: w("name"),
        className: "min-w-40",
        cell: (webhook) => (
          <div className="flex flex-col">
            <span className="flex items-center gap-2 font-medium">
              {webhook.name}
              {!webhook.enabled && <Badge>{w("off")}</Badge>}
              {webhook.has_secret && <Badge tone="primary">{w("signed")}</Badge>}
            </span>
            <span className="font-mono text-xs break-all text-muted-foreground">{webhook.address}</span>
          </div>
        ),
      },
      {
        id: "workflow",
        header: w("workflow"),
        cell: (webhook) =>
          webhook.workflow_id ? (
            <Link to="/workflows/$workflow" params={{ workflow: webhook.workflow_id }} className="hover:underline">
              {webhook.workflow_name}
            </Link>
          ) : (
            w("allWorkflows")
          ),
      },
      {
        id: "states",
        header: w("states"),
        cell: statesOf,
      },
      ...(team ? [{ id: "owner", header: c("owner"), cell: (webhook: Webhook) => webhook.owner_name }] : []),
      actionsColumn(c("actions"), (webhook) => (
        <WebhookActions webhook={webhook} edit={() => setEditing(webhook)} log={() => setLogOf(webhook)} />
      )),
    ]
  }, [w, c, team])
  return (
    <section className="flex flex-col gap-3">
      <div className="flex flex-wrap items-start justify-between gap-3">
        <div>
          <h2>{w("title")}</h2>
          <p className="text-muted-foreground">{team ? w("teamLead") : w("lead")}</p>
        </div>
        {adds && (
          <Button onClick={() => setEditing("new")}>
            <Plus />
            {w("create")}
          </Button>
        )}
      </div>
      <ProblemView error={found.error} retry={() => void found.refetch()} />
      {found.isPending && <Loading />}
      {found.data &&
        (found.data.items.length ? (
          <DataTable label={w("title")} columns={columns} rows={found.data.items} rowId={(webhook) => webhook.id} />
        ) : (
          <Empty icon={WebhookIcon} title={w("none")} />
        ))}
      {editing && (
        <WebhookForm
          team={team}
          webhook={editing === "new" ? undefined : editing}
          close={() => setEditing(undefined)}
        />
      )}
      {logOf && <Deliveries webhook={logOf} close={() => setLogOf(undefined)} />}
    </section>
  )
}

function WebhookActions({ webhook, edit, log }: { webhook: Webhook; edit: () => void; log: () => void }) {
  const w = useTexts(webhookTexts)
  const c = useTexts(commonTexts)
  const test = async () => {
    await testWebhook(webhook.id)
    log()
  }
  const allow = (action: string, what: Action) => (webhook.may.includes(action) ? what : undefined)
  return (
    <Actions
      name={webhook.name}
      actions={[
        { label: w("log"), icon: <History />, run: log },
        allow("edit", { label: w("test"), icon: <Send />, run: test }),
        allow("edit", { label: c("edit"), icon: <Pencil />, run: edit }),
        allow("delete", {
          label: c("delete"),
          icon: <Trash2 />,
          danger: true,
          confirm: { title: w("deleteTitle", { name: webhook.name }), lead: w("deleteHelp") },
          run: () => deleteWebhook(webhook.id),
        }),
      ]}
    />
  )
}

const FIELDS = ["name", "url", "secret", "workflow", "states"]

function WebhookForm({ team, webhook, close }: { team: string; webhook?: Webhook; close: () => void }) {
  const w = useTexts(webhookTexts)
  const c = useTexts(commonTexts)
  const [value, setValue] = useState({
    name: webhook?.name ?? "",
    url: "",
    secret: "",
    workflow: webhook?.workflow_id ?? "",
    states: webhook?.states ?? STATES,
    enabled: webhook?.enabled ?? true,
  })
  const typed = useTypedForm(`webhook ${webhook?.id ?? ""}`)
  const form = useId()
  const [removes, setRemoves] = useState(false)
  const [error, setError] = useState<unknown>()
  const [busy, setBusy] = useState(false)
  const workflows = useQuery(workflowsQuery({ sort: "name", limit: 200 })).data?.items ?? []
  const set = (change: Partial<typeof value>) => {
    setValue((before) => ({ ...before, ...change }))
    let left = error
    for (const field of Object.keys(change)) if (left !== undefined) left = withoutField(left, field)
    setError(left)
  }
  const leave = () => {
    typed.forget()
    close()
  }
  const save = async () => {
    setBusy(true)
    setError(undefined)
    const { secret, url, ...rest } = value
    try {
      const sent = { ...rest, url, ...(secret || removes ? { secret: removes ? "" : secret } : {}) }
      if (webhook) await editWebhook(webhook, sent)
      else await createWebhook(team, sent)
      leave()
    } catch (thrown) {
      setError(thrown)
      setBusy(false)
    }
  }
  const fault = (field: string) => (error ? asProblem(error).of(field) : undefined)
  return (
    <Dialog
      open
      onClose={leave}
      title={webhook ? w("editTitle") : w("createTitle")}
      actions={
        <>
          <Button onClick={leave}>{c("cancel")}</Button>
          <Button type="submit" form={form} look="primary" disabled={busy}>
            {c("save")}
          </Button>
        </>
      }
    >
      <RestoredNote typed={typed} />
      <form
        id={form}
        ref={typed.form}
        noValidate
        className="flex flex-col gap-4"
        onSubmit={(event) => {
          event.preventDefault()
          void save()
        }}
      >
        <Field label={w("name")} error={fault("name")}>
          {(field) => (
            <Input
              {...field}
              maxLength={100}
              value={value.name}
              onChange={(event) => set({ name: event.target.value })}
            />
          )}
        </Field>
        <Field
          label={w("url")}
          error={fault("url")}
          optional={Boolean(webhook)}
          hint={webhook ? w("urlKept", { address: webhook.address }) : w("urlHint")}
        >
          {(field) => (
            <Input
              {...field}
              type="url"
              data-private // such an address is as good as a password
              autoComplete="off"
              maxLength={2000}
              placeholder="https://hooks.example.com/…"
              value={value.url}
              onChange={(event) => set({ url: event.target.value.trim() })}
            />
          )}
        </Field>
        <Field
          label={w("secret")}
          optional
          error={fault("secret")}
          hint={webhook?.has_secret ? w("secretKept") : w("secretHint")}
        >
          {(field) => (
            <div className="flex gap-2">
              <Input
                {...field}
                data-private
                autoComplete="off"
                spellCheck={false}
                maxLength={500}
                className="font-mono text-[13px]"
                disabled={removes}
                value={value.secret}
                onChange={(event) => set({ secret: event.target.value.trim() })}
              />
              <Button disabled={removes} onClick={() => set({ secret: newSecret() })}>
                {w("generate")}
              </Button>
            </div>
          )}
        </Field>
        {webhook?.has_secret && (
          <Tick
            label={w("secretRemove")}
            checked={removes}
            onChange={(event) => {
              setRemoves(event.target.checked)
              set({ secret: "" })
            }}
          />
        )}
        <Field label={w("workflow")} error={fault("workflow")}>
          {(field) => (
            <Select {...field} value={value.workflow} onChange={(event) => set({ workflow: event.target.value })}>
              <option value="">{w("allWorkflows")}</option>
              {webhook?.workflow_id && !workflows.some(({ id }) => id === webhook.workflow_id) && (
                <option value={webhook.workflow_id}>{webhook.workflow_name}</option>
              )}
              {workflows.map(({ id, name }) => (
                <option key={id} value={id}>
                  {name}
                </option>
              ))}
            </Select>
          )}
        </Field>
        <fieldset className="flex flex-col gap-1">
          <legend className="mb-1 text-[13px] font-medium">{w("states")}</legend>
          <div className="flex flex-wrap gap-x-5 gap-y-1">
            {STATES.map((state) => (
              <Tick
                key={state}
                label={w(state)}
                checked={value.states.includes(state)}
                onChange={(event) =>
                  set({
                    states: STATES.filter((each) =>
                      each === state ? event.target.checked : value.states.includes(each),
                    ),
                  })
                }
              />
            ))}
          </div>
          {fault("states") && <p className="text-[13px] text-destructive">{fault("states")}</p>}
        </fieldset>
        <Tick
          label={w("enabled")}
          checked={value.enabled}
          onChange={(event) => set({ enabled: event.target.checked })}
        />
      </form>
      {error !== undefined && !asProblem(error).fields.some(({ field }) => FIELDS.includes(field)) && (
        <ProblemView error={error} />
      )}
    </Dialog>
  )
}

/** 32 random bytes, as the Standard Webhooks specification writes them. */
function newSecret(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(32))
  return `whsec_${btoa(String.fromCharCode(...bytes))}`
}

const TONES: Record<Delivery["state"], Tone> = { pending: "waiting", delivered: "succeeded", failed: "failed" }

function Deliveries({ webhook, close }: { webhook: Webhook; close: () => void }) {
  const w = useTexts(webhookTexts)
  const language = usePreferences((all) => all.language)
  const found = useQuery(deliveriesQuery(webhook.id))
  const edits = webhook.may.includes("edit")
  const items = found.data?.items ?? []
  return (
    <Dialog
      open
      wide
      onClose={close}
      title={w("logOf", { name: webhook.name })}
      actions={
        edits && (
          <Button onClick={() => void testWebhook(webhook.id).catch(noteError)}>
            <Send />
            {w("test")}
          </Button>
        )
      }
    >
      <ProblemView error={found.error} />
      {found.isPending && <Loading />}
      {found.data && !items.length && <p className="text-muted-foreground">{w("logEmpty")}</p>}
      {items.length > 0 && (
        <ul aria-label={w("log")} className="flex flex-col divide-y rounded-lg border">
          {items.map((each) => (
            <li key={each.id} className="flex flex-wrap items-center gap-x-3 gap-y-1 px-3 py-2">
              <Badge tone={TONES[each.state]}>{w(each.state === "failed" ? "deliveryFailed" : each.state)}</Badge>
              <span className="min-w-0 flex-1 basis-40 truncate">
                {each.event === "test" ? (
                  w("testEvent")
                ) : (
                  <>
                    <Link to="/runs/$run" params={{ run: each.run_id }} className="text-primary hover:underline">
                      {each.run_name}
                    </Link>{" "}
                    <span className="text-muted-foreground">{w(each.run_state as EndState)}</span>
                  </>
                )}
              </span>
              <span className="text-[13px] text-muted-foreground tabular-nums">
                {each.status !== null && `HTTP ${each.status} · `}
                {w("attempts", { n: each.attempts })} · <Time at={each.tried ?? each.created} />
              </span>
              {edits && each.state !== "pending" && (
                <Button
                  size="icon"
                  look="ghost"
                  aria-label={w("again")}
                  title={w("again")}
                  onClick={() => void redeliver(webhook.id, each.id).catch(noteError)}
                >
                  <Repeat />
                </Button>
              )}
              {each.error && (
                <p className="basis-full text-[13px] text-muted-foreground">
                  {serverMessage(
                    { code: each.error_code, arguments: each.error_arguments, message: each.error },
                    language,
                  )}
                  {each.due && (
                    <>
                      {" · "}
                      {w("next", { time: new Date(each.due).toLocaleTimeString(language === "zh" ? "zh-CN" : "en") })}
                    </>
                  )}
                </p>
              )}
            </li>
          ))}
        </ul>
      )}
    </Dialog>
  )
}
