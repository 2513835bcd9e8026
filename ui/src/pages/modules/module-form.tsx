/** The form of a module. */

import { useQuery } from "@tanstack/react-query"
import { Link } from "@tanstack/react-router"
import { type FormEvent, type ReactNode, useRef, useState } from "react"
import type { ModuleText } from "@/api/modules"
import { categoriesQuery } from "@/api/options"
import { asProblem } from "@/api/problem"
import { usePreferences } from "@/app/preferences"
import { Button } from "@/components/button"
import { LeaveGuard } from "@/components/dialog"
import { ProblemView } from "@/components/feedback"
import { Field, Input, Select, TextArea } from "@/components/form"
import { DraftOffer, useFormDraft } from "@/components/form-draft"
import { OwnTeamField } from "@/components/own-team-field"
import { commonTexts } from "@/i18n/common"
import { editorTexts } from "@/i18n/editor"
import { moduleTexts } from "@/i18n/modules"
import { serverMessage } from "@/i18n/server-messages"
import { useTexts } from "@/i18n/translate"
import { Inputs, Outputs, Variables } from "./form-lists"
import { formFaults } from "./form-state"

interface Props {
  start: ModuleText
  /** The existing module, whose name cannot change. */
  module?: string
  submit: string
  save: (form: ModuleText) => Promise<void>
}

const code = {
  spellCheck: false,
  autoCapitalize: "off",
  autoComplete: "off",
  className: "font-mono text-[13px]",
} as const

export function ModuleForm({ start, module, submit, save }: Props) {
  const w = useTexts(moduleTexts)
  const c = useTexts(commonTexts)
  const e = useTexts(editorTexts)
  const language = usePreferences((all) => all.language)
  const categories = useQuery(categoriesQuery)
  const [form, setForm] = useState(start)
  const [tried, setTried] = useState(false)
  const [error, setError] = useState<unknown>()
  const [refused, setRefused] = useState<ModuleText>()
  const [busy, setBusy] = useState(false)
  const [done, setDone] = useState(false)
  const box = useRef<HTMLFormElement>(null)
  // The values of secret variables are not for the storage of the browser.
  const kept = { ...form, env: form.env.map((each) => (each.secret ? { ...each, value: "" } : each)) }
  const draft = useFormDraft(kept, form !== start && !done, (found) => {
    const known = new Map(start.env.map((each) => [each.name, each.value]))
    const env = found.env.map((each) => (each.secret ? { ...each, value: known.get(each.name) ?? "" } : each))
    setForm({ ...start, ...found, env })
  })

  const change = (what: Partial<ModuleText>) => setForm((before) => ({ ...before, ...what }))
  const own = tried ? formFaults(form) : {}
  const problem = error ? asProblem(error) : undefined
  const shown = useRef(new Set<string>())
  shown.current = new Set()
  /** A server error disappears once its field is changed. */
  const fault = (field: string): string | undefined => {
    shown.current.add(field)
    const missing = own[field]
    if (missing) return w(missing)
    const said = problem?.fields.find((each) => each.field === field)
    return said && refused && valueAt(refused, field) === valueAt(form, field)
      ? serverMessage(said, language)
      : undefined
  }
  const focusFirst = () =>
    requestAnimationFrame(() => box.current?.querySelector<HTMLElement>("[aria-invalid]")?.focus())

  const send = async (event: FormEvent) => {
    event.preventDefault()
    setTried(true)
    setError(undefined)
    if (Object.keys(formFaults(form)).length) return focusFirst()
    setBusy(true)
    try {
      setDone(true) // lets the guard pass
      await save(form)
      draft.forget()
    } catch (thrown) {
      setDone(false)
      setRefused(form)
      setError(thrown)
      focusFirst()
    } finally {
      setBusy(false)
    }
  }

  const text = (
    name: "git_url" | "git_ref" | "dockerfile" | "build_dir" | "readme_path",
    label: string,
    hint: string,
    className?: string,
  ) => (
    <Field label={label} hint={hint} error={fault(name)} className={className}>
      {(field) => (
        <Input {...field} {...code} value={form[name]} onChange={(event) => change({ [name]: event.target.value })} />
      )}
    </Field>
  )
  const parts = (
    <>
      <Part title={w("basics")}>
        <div className="grid gap-4 sm:grid-cols-2">
          <Field
            label={w("category")}
            error={fault("category")}
            hint={categories.data && !categories.data.items.length ? w("noCategories") : w("categoryHint")}
          >
            {(field) => (
              <Select {...field} value={form.category} onChange={(event) => change({ category: event.target.value })}>
                <option value="">{w("chooseCategory")}</option>
                {categories.data?.items.map(({ id, name }) => (
                  <option key={id} value={id}>
                    {name}
                  </option>
                ))}
              </Select>
            )}
          </Field>
          <Field label={w("name")} hint={module ? undefined : w("nameHint")} error={fault("name")}>
            {(field) => (
              <Input
                {...field}
                {...code}
                readOnly={Boolean(module)}
                value={form.name}
                onChange={(event) => change({ name: event.target.value })}
              />
            )}
          </Field>
        </div>
        <Field label={w("description")} hint={w("descriptionHint")} optional error={fault("description")}>
          {(field) => (
            <TextArea
              {...field}
              rows={2}
              value={form.description}
              onChange={(event) => change({ description: event.target.value })}
            />
          )}
        </Field>
        <OwnTeamField
          label={w("team")}
          hint={w("teamHint")}
          error={fault("team")}
          className="sm:w-1/2"
          none={w("noTeam")}
          value={form.team}
          onChange={(team) => change({ team })}
        />
      </Part>
      <Part title={w("code")}>
        <div className="grid gap-4 sm:grid-cols-3">
          {text("git_url", w("gitUrl"), w("gitUrlHint"), "sm:col-span-2")}
          {text("git_ref", w("gitRef"), w("gitRefHint"))}
          {text("dockerfile", w("dockerfile"), w("dockerfileHint"))}
          {text("build_dir", w("buildDir"), w("buildDirHint"))}
          {text("readme_path", w("readmePath"), w("readmePathHint"))}
        </div>
      </Part>
      <Part title={w("inputs")} help={w("inputsHelp")}>
        <Inputs value={form} change={change} fault={fault} />
      </Part>
      <Part title={w("outputs")} help={w("outputsHelp")}>
        <Outputs value={form} change={change} fault={fault} />
      </Part>
      <Part title={w("env")} help={w("envHelp")}>
        <Variables value={form} change={change} fault={fault} />
      </Part>
    </>
  )
  return (
    <form ref={box} noValidate onSubmit={(event) => void send(event)} className="flex max-w-4xl flex-col gap-5">
      <DraftOffer draft={draft} />
      {parts}
      <Trouble error={error} own={Object.keys(own).length > 0} under={shown} />
      <div className="sticky bottom-0 flex gap-2 border-t bg-background py-3">
        <Button type="submit" look="primary" disabled={busy}>
          {submit}
        </Button>
        <Button asChild>
          {module ? (
            <Link to="/modules/$module" params={{ module }}>
              {c("cancel")}
            </Link>
          ) : (
            <Link to="/modules">{c("cancel")}</Link>
          )}
        </Button>
      </div>
      <LeaveGuard changed={!done && form !== start} help={e("leaveWithDraft")} />
    </form>
  )
}

function Part({ title, help, children }: { title: string; help?: string; children: ReactNode }) {
  return (
    <fieldset className="rounded-lg border bg-card">
      <legend className="sr-only">{title}</legend>
      <div className="border-b px-4 py-2.5">
        {/* biome-ignore lint/a11y/useHeadingContent: the legend above says it to screen readers. */}
        <h2 aria-hidden>{title}</h2>
        {help && <p className="text-[13px] text-muted-foreground">{help}</p>}
      </div>
      <div className="flex flex-col gap-4 p-4">{children}</div>
    </fieldset>
  )
}

/** Errors that no field shows. */
function Trouble({ error, own, under }: { error: unknown; own: boolean; under: { current: Set<string> } }) {
  const w = useTexts(moduleTexts)
  const fields = error ? asProblem(error).fields : []
  const elsewhere = fields.some(({ field }) => !under.current.has(field))
  if (error && (!fields.length || elsewhere)) return <ProblemView error={error} except={[...under.current]} />
  if (!own && !error) return null
  return (
    <p role="alert" className="text-destructive">
      {w("fixFields")}
    </p>
  )
}

/** The value at a path such as `env[0].name`. */
function valueAt(form: ModuleText, path: string): unknown {
  let at: unknown = form
  for (const part of path.split(/[.[\]]+/).filter(Boolean)) at = (at as Record<string, unknown> | undefined)?.[part]
  return typeof at === "object" ? JSON.stringify(at) : at
}
