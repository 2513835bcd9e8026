import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { Play } from "lucide-react"
import { type FormEvent, useState } from "react"
import { asProblem, failure, withoutField } from "@/api/problem"
import { copyRun, createRun, type RunDetail, runQuery } from "@/api/runs"
import { versionQuery, versionsQuery, workflowsQuery } from "@/api/workflows"
import { usePreferences } from "@/app/preferences"
import { Badge } from "@/components/badge"
import { Button } from "@/components/button"
import { Loading, ProblemView } from "@/components/feedback"
import { Field, Input, Select } from "@/components/form"
import { DraftOffer, useFormDraft } from "@/components/form-draft"
import { Page } from "@/components/page"
import { TagInput } from "@/components/tags"
import { note } from "@/components/toasts"
import { commonTexts } from "@/i18n/common"
import { runTexts } from "@/i18n/runs"
import { serverMessage } from "@/i18n/server-messages"
import { useTexts } from "@/i18n/translate"

const route = getRouteApi("/shell/runs/new")

export function NewRun() {
  const w = useTexts(runTexts)
  const { copy } = route.useSearch()
  const source = useQuery({ ...runQuery(copy ?? ""), enabled: Boolean(copy) })
  if (!copy) return <RunForm />
  if (failure(source))
    return (
      <Page title={w("createTitle")}>
        <ProblemView error={source.error} />
      </Page>
    )
  return source.data ? <RunForm key={source.data.id} source={source.data} /> : <Loading />
}

/** A run of a version, or a copy of another run. */
function RunForm({ source }: { source?: RunDetail }) {
  const w = useTexts(runTexts)
  const c = useTexts(commonTexts)
  const language = usePreferences((all) => all.language)
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const [workflow, setWorkflow] = useState(source?.workflow_id ?? search.workflow ?? "")
  const [version, setVersion] = useState(source ? String(source.version_number) : (search.version ?? "latest"))
  const [name, setName] = useState("")
  const [values, setValues] = useState<Record<string, string>>(source?.parameters ?? {})
  const [tags, setTags] = useState<string[]>(source?.tags ?? [])
  const [restored, setRestored] = useState<string[]>()
  const [error, setError] = useState<unknown>()
  const [busy, setBusy] = useState(false)
  const isChanged = name !== "" || Object.keys(values).length > 0 || tags.length > 0
  const draft = useFormDraft({ workflow, version, name, values, tags }, isChanged && !source && !busy, (kept) => {
    setWorkflow(kept.workflow)
    setVersion(kept.version)
    setName(kept.name)
    setValues(kept.values)
    setTags(kept.tags)
    setRestored(kept.tags)
  })
  const workflows = useQuery(workflowsQuery({ sort: "name", limit: 200 }))
  const versions = useQuery({ ...versionsQuery(workflow, { limit: 200 }), enabled: workflow !== "" })
  const chosen = useQuery({ ...versionQuery(workflow, version), enabled: workflow !== "" })
  const parameters = chosen.data?.parameters ?? []

  const submit = async (event: FormEvent) => {
    event.preventDefault()
    setBusy(true)
    setError(undefined)
    const known = Object.fromEntries(
      Object.entries(values).filter(([key]) => parameters.some((each) => each.name === key)),
    )
    try {
      const run = source
        ? await copyRun(source.id, { name, version: chosen.data?.id ?? version, parameters: known, tags })
        : await createRun({ workflow, version, name, parameters: known, tags })
      draft.forget()
      note(w("created", { name: run.name }))
      void navigate({ to: "/runs/$run", params: { run: run.id } })
    } catch (thrown) {
      setError(thrown)
      setBusy(false)
    }
  }
  const correct = (field: string) => error !== undefined && setError(withoutField(error, field))
  const fault = (field: string) => {
    const found = error ? asProblem(error).fields.find((each) => each.field === field) : undefined
    return found && serverMessage(found, language)
  }
  return (
    <Page
      title={source ? w("copyTitle", { name: source.name }) : w("createTitle")}
      above={
        <Link to="/runs" className="hover:underline">
          {w("title")}
        </Link>
      }
    >
      {!source && <DraftOffer draft={draft} />}
      <form className="flex max-w-2xl flex-col gap-4" onSubmit={submit}>
        <div className="flex gap-3">
          <Field label={w("workflow")} className="min-w-0 flex-2" error={fault("workflow")}>
            {(field) => (
              <Select
                {...field}
                required
                disabled={Boolean(source)}
                value={workflow}
                onChange={(event) => {
                  setWorkflow(event.target.value)
                  setVersion("latest")
                }}
              >
                <option value="">{w("chooseWorkflow")}</option>
                {workflow && !workflows.data?.items.some(({ id }) => id === workflow) && (
                  <option value={workflow}>{chosen.data?.workflow_name ?? workflow}</option>
                )}
                {workflows.data?.items.map(({ id, name }) => (
                  <option key={id} value={id}>
                    {name}
                  </option>
                ))}
              </Select>
            )}
          </Field>
          <Field label={w("version")} className="min-w-0 flex-1" error={fault("version")}>
            {(field) => (
              <Select
                {...field}
                disabled={!workflow}
                value={version === "latest" ? String(chosen.data?.number ?? "") : version}
                onChange={(event) => setVersion(event.target.value)}
              >
                {(versions.data?.items ?? [])
                  .filter((each) => !each.archived || String(each.number) === version)
                  .map((each) => (
                    <option key={each.id} value={String(each.number)}>
                      {each.name}
                    </option>
                  ))}
              </Select>
            )}
          </Field>
        </div>
        <Field label={w("name")} hint={w("nameHint")} optional error={fault("name")}>
          {(field) => (
            <Input
              {...field}
              value={name}
              onChange={(event) => {
                setName(event.target.value)
                correct("name")
              }}
            />
          )}
        </Field>
        <TagInput
          key={restored?.join()}
          initial={restored ?? source?.tags ?? []}
          onChange={(tags) => {
            setTags(tags)
            setError(undefined)
          }}
        />
        <fieldset className="flex flex-col gap-3 rounded-lg border bg-card p-4">
          <legend className="px-1 font-semibold">{w("parameters")}</legend>
          {chosen.data && parameters.length === 0 && <p className="text-muted-foreground">{w("noParameters")}</p>}
          {parameters.map((parameter) => (
            <Field
              key={parameter.name}
              label={parameter.name}
              hint={parameter.description || undefined}
              optional={!parameter.required}
              error={fault(`parameters.${parameter.name}`) ?? fault(`parameters[${parameter.name}]`)}
            >
              {(field) => (
                <Input
                  {...field}
                  required={parameter.required && parameter.default === null}
                  placeholder={parameter.default ?? ""}
                  value={values[parameter.name] ?? ""}
                  onChange={(event) => {
                    const { [parameter.name]: _, ...rest } = values
                    correct(`parameters.${parameter.name}`)
                    setValues(event.target.value === "" ? rest : { ...rest, [parameter.name]: event.target.value })
                  }}
                />
              )}
            </Field>
          ))}
        </fieldset>
        {chosen.data?.archived && <Badge tone="warning">{chosen.data.name}</Badge>}
        <ProblemView error={error ?? chosen.error} />
        <div className="flex gap-2">
          <Button type="submit" look="primary" disabled={busy || !chosen.data}>
            <Play />
            {w("start")}
          </Button>
          <Button asChild>
            <Link to="/runs">{c("cancel")}</Link>
          </Button>
        </div>
      </form>
    </Page>
  )
}
