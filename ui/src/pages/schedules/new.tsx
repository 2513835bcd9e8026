/** A new CronWorkflow: a form for when, and a manifest for what. */

import { useQuery } from "@tanstack/react-query"
import { Link, useNavigate } from "@tanstack/react-router"
import { useDeferredValue, useState } from "react"
import { asProblem, failure, withoutField } from "@/api/problem"
import { createSchedule, type ScheduleBody, timesQuery } from "@/api/schedules"
import { usePreferences } from "@/app/preferences"
import { Button } from "@/components/button"
import { CodeEditor, type Mark } from "@/components/code"
import { LeaveGuard } from "@/components/dialog"
import { ProblemView } from "@/components/feedback"
import { Field, Input, Select, Tick } from "@/components/form"
import { DraftOffer, useFormDraft } from "@/components/form-draft"
import { OwnTeamField } from "@/components/own-team-field"
import { Page } from "@/components/page"
import { note } from "@/components/toasts"
import { commonTexts } from "@/i18n/common"
import { editorTexts } from "@/i18n/editor"
import { scheduleTexts } from "@/i18n/schedules"
import { serverMessage } from "@/i18n/server-messages"
import { useTexts } from "@/i18n/translate"
import { moment } from "@/lib/times"

const EXAMPLE = `apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata:
  generateName: report-
spec:
  entrypoint: report
  templates:
    - name: report
      container:
        image: python:3.11
        command: [python, -c]
        args: ["print('the report of today')"]
`
const PRESETS = [
  ["hourly", "0 * * * *"],
  ["daily", "0 9 * * *"],
  ["weekdays", "0 9 * * 1-5"],
  ["weekly", "0 9 * * 1"],
  ["monthly", "0 9 1 * *"],
] as const
const POLICIES = ["Allow", "Forbid", "Replace"] as const

type Form = Required<Omit<ScheduleBody, "schedules">> & { when: string }

const EMPTY: Form = {
  name: "",
  when: "",
  timezone: zone(),
  concurrency: "Forbid",
  manifest: "",
  team: "",
  suspended: false,
}

export function NewSchedule() {
  const w = useTexts(scheduleTexts)
  const c = useTexts(commonTexts)
  const e = useTexts(editorTexts)
  const language = usePreferences((all) => all.language)
  const navigate = useNavigate()
  const [form, setForm] = useState(EMPTY)
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>()
  const changed = form.name !== "" || form.when !== "" || form.manifest !== ""
  const draft = useFormDraft(form, changed, (kept) => setForm({ ...EMPTY, ...kept }))
  const put = (change: Partial<Form>, field?: string) => {
    setForm((before) => ({ ...before, ...change }))
    setError((before: unknown) => (before && field ? withoutField(before, field) : before))
  }
  const problem = error ? asProblem(error) : undefined
  const known = new Set(["name", "schedules", "manifest"])
  const inManifest = (problem?.fields ?? []).filter((each) => !["name", "schedules"].includes(each.field))
  const marks = inManifest.map(
    (each): Mark => ({
      line: Math.max(1, Number(each.arguments?.line ?? 1)),
      tone: "error",
      text: serverMessage(each, language),
    }),
  )
  const submit = async () => {
    setBusy(true)
    setError(undefined)
    const { when, ...rest } = form
    try {
      const made = await createSchedule({ ...rest, schedules: lines(when) })
      draft.forget()
      note(w("created", { name: made.name }))
      const { namespace, name } = made
      await navigate({ to: "/schedules/$namespace/$name", params: { namespace, name }, ignoreBlocker: true })
    } catch (thrown) {
      setError(thrown)
    } finally {
      setBusy(false)
    }
  }
  return (
    <Page
      title={w("newTitle")}
      lead={w("newLead")}
      above={
        <Link to="/schedules" className="hover:underline">
          {w("title")}
        </Link>
      }
      actions={
        <Button look="primary" disabled={busy || !form.manifest.trim()} onClick={() => void submit()}>
          {w("save")}
        </Button>
      }
      wide
    >
      <DraftOffer draft={draft} />
      {problem && (!problem.fields.length || problem.fields.some((each) => !known.has(each.field))) && (
        <ProblemView error={error} />
      )}
      <div className="flex gap-6 max-lg:flex-col">
        <div className="flex w-96 shrink-0 flex-col gap-4 max-xl:w-80 max-lg:w-full">
          <Field label={w("name")} hint={w("nameHint")} error={problem?.of("name")}>
            {(attributes) => (
              <Input
                {...attributes}
                value={form.name}
                onChange={(event) => put({ name: event.target.value }, "name")}
              />
            )}
          </Field>
          <Field label={w("when")} hint={w("whenHint")} error={problem?.of("schedules")}>
            {(attributes) => (
              <Input
                {...attributes}
                className="font-mono"
                value={form.when}
                onChange={(event) => put({ when: event.target.value }, "schedules")}
              />
            )}
          </Field>
          <div role="group" aria-label={w("presets")} className="flex flex-wrap gap-1.5">
            {PRESETS.map(([word, cron]) => (
              <Button key={word} size="small" onClick={() => put({ when: cron }, "schedules")}>
                {w(word)}
              </Button>
            ))}
          </div>
          <Field label={w("timezone")}>
            {(attributes) => (
              <Select
                {...attributes}
                value={form.timezone}
                onChange={(event) => put({ timezone: event.target.value }, "schedules")}
              >
                <option value="">{w("serverZone")}</option>
                {Intl.supportedValuesOf("timeZone").map((each) => (
                  <option key={each}>{each}</option>
                ))}
              </Select>
            )}
          </Field>
          <Preview when={form.when} timezone={form.timezone} />
          <Field label={w("concurrency")}>
            {(attributes) => (
              <Select
                {...attributes}
                value={form.concurrency}
                onChange={(event) => put({ concurrency: event.target.value as Form["concurrency"] })}
              >
                {POLICIES.map((policy) => (
                  <option key={policy} value={policy}>
                    {w(policy)}
                  </option>
                ))}
              </Select>
            )}
          </Field>
          <OwnTeamField label={c("shareWith")} optional value={form.team} onChange={(team) => put({ team })} />
          <Tick
            label={w("startPaused")}
            checked={form.suspended}
            onChange={(event) => put({ suspended: event.target.checked })}
          />
        </div>
        <div className="flex min-w-0 flex-1 flex-col gap-2">
          <Field
            label={w("manifest")}
            hint={w("manifestHint")}
            error={marks.map(({ text }) => text).join("\n") || undefined}
          >
            {(attributes) => (
              <CodeEditor
                {...attributes}
                value={form.manifest}
                onChange={(manifest) => {
                  put({ manifest })
                  if (inManifest.length) setError(undefined)
                }}
                marks={marks}
                className="h-[calc(100vh-22rem)] min-h-80"
              />
            )}
          </Field>
          {!form.manifest.trim() && (
            <Button size="small" className="self-start" onClick={() => put({ manifest: EXAMPLE })}>
              {w("example")}
            </Button>
          )}
        </div>
      </div>
      <LeaveGuard changed={changed && !busy} help={e("leaveWithDraft")} />
    </Page>
  )
}

/** The next times, or what is wrong with the expression. */
function Preview({ when, timezone }: { when: string; timezone: string }) {
  const w = useTexts(scheduleTexts)
  const language = usePreferences((all) => all.language)
  const asked = useDeferredValue(when.trim())
  const found = useQuery({ ...timesQuery(lines(asked), timezone), enabled: asked !== "" })
  if (!asked) return null
  if (failure(found))
    return (
      <p className="text-[13px] text-destructive">
        {asProblem(found.error).of("schedules") ?? asProblem(found.error).said}
      </p>
    )
  return (
    <div role="status" className="text-[13px] text-muted-foreground">
      <p className="font-medium">{w("nextRuns")}</p>
      {found.data && (
        <ol className="tabular-nums">
          {found.data.times.map((at) => (
            <li key={at}>{moment(at, language)}</li>
          ))}
          {!found.data.times.length && <li>{w("noNext")}</li>}
        </ol>
      )}
    </div>
  )
}

/** Several expressions are separated by semicolons. */
function lines(when: string): string[] {
  return when
    .split(";")
    .map((each) => each.trim())
    .filter(Boolean)
}

function zone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone ?? ""
}
