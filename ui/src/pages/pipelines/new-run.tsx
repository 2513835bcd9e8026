/** Creates a run or a recurring run: of a pipeline, or as a clone with the parameters kept. */
import { useQuery } from "@tanstack/react-query"
import { getRouteApi } from "@tanstack/react-router"
import { Play } from "lucide-react"
import { type FormEvent, useMemo, useState } from "react"
import {
  createRecurringRun,
  createRun,
  type Experiment,
  experimentOptions,
  experimentQuery,
  type PipelineRun,
  pipelineOptionsQuery,
  pipelineQuery,
  runQuery,
  type Source,
  versionQuery,
  versionsQuery,
} from "@/api/pipelines"
import { failure } from "@/api/problem"
import { Button } from "@/components/button"
import { text } from "@/components/dialog"
import { Loading, ProblemView } from "@/components/feedback"
import { Segments } from "@/components/filters"
import { Code, Field, Input, Select, TextArea, Tick } from "@/components/form"
import { Page } from "@/components/page"
import { note } from "@/components/toasts"
import { RestoredNote, useTypedForm } from "@/components/typed-form"
import { commonTexts } from "@/i18n/common"
import { pipelineTexts } from "@/i18n/pipelines"
import { useTexts } from "@/i18n/translate"
import {
  type ParameterFault,
  type ParameterField,
  parameterFields,
  pipelineOf,
  readParameters,
} from "@/lib/pipeline-spec"
import { Above, NamespaceField, Section } from "./parts"

const route = getRouteApi("/shell/pipelines/runs/new")
const UNITS = { seconds: 1, minutes: 60, hours: 3600, days: 86400 } as const

export function NewPipelineRun() {
  const w = useTexts(pipelineTexts)
  const { clone } = route.useSearch()
  const cloned = useQuery({ ...runQuery(clone ?? ""), enabled: Boolean(clone), refetchInterval: false })
  if (failure(cloned))
    return (
      <Page title={w("createRun")}>
        <ProblemView error={cloned.error} retry={() => void cloned.refetch()} />
      </Page>
    )
  if (clone && !cloned.data) return <Loading />
  return <Form key={clone} cloned={cloned.data} />
}

function Form({ cloned }: { cloned?: PipelineRun }) {
  const w = useTexts(pipelineTexts)
  const c = useTexts(commonTexts)
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const [recurring, setRecurring] = useState(search.recurring === "true")
  const [schedule, setSchedule] = useState<"cron" | "interval">("interval")
  const [pipeline, setPipeline] = useState(search.pipeline ?? cloned?.pipeline_version_reference?.pipeline_id ?? "")
  const [chosen, setVersion] = useState(search.version)
  const [values, setValues] = useState<Record<string, string>>({})
  const [faults, setFaults] = useState<Record<string, ParameterFault>>({})
  const typed = useTypedForm("pipeline run")
  const [error, setError] = useState<unknown>()
  const [busy, setBusy] = useState(false)
  const ownSpec = cloned?.pipeline_spec
  const pipelines = useQuery({ ...pipelineOptionsQuery, enabled: !ownSpec })
  const [namespace, setNamespace] = useState<string>()
  const own = useQuery({ ...pipelineQuery(pipeline), enabled: Boolean(pipeline) }).data?.namespace
  const asked = useQuery({
    ...experimentQuery(search.experiment ?? cloned?.experiment_id ?? ""),
    enabled: Boolean(search.experiment ?? cloned?.experiment_id),
  }).data
  // Where the experiment is that was asked for, else where the pipeline is.
  const place = namespace ?? teamOf(asked?.namespace ?? own)
  const experiments = useQuery(experimentOptions(place))
  const versions = useQuery({ ...versionsQuery(pipeline), enabled: Boolean(pipeline) })
  const newest = versions.data?.items[0]?.pipeline_version_id
  const version = chosen ?? newest ?? ""
  const found = useQuery({ ...versionQuery(pipeline, version), enabled: Boolean(pipeline && version) })
  const spec = useMemo(() => pipelineOf(ownSpec ?? found.data?.pipeline_spec), [ownSpec, found.data])
  const kept = cloned?.runtime_config?.parameters
  const fields = useMemo(() => (spec ? parameterFields(spec, kept) : []), [spec, kept])

  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const form = new FormData(event.currentTarget)
    const read = readParameters(fields, values)
    setFaults(read.faults)
    if (Object.keys(read.faults).length) return
    setBusy(true)
    setError(undefined)
    const follows = recurring && !chosen
    const source: Source = {
      display_name: text(form, "name"),
      description: text(form, "description"),
      experiment_id: text(form, "experiment"),
      ...(ownSpec
        ? { pipeline_spec: ownSpec }
        : {
            pipeline_version_reference: {
              pipeline_id: pipeline,
              ...(follows ? {} : { pipeline_version_id: version }),
            },
          }),
      runtime_config: { parameters: read.values },
    }
    try {
      if (recurring) {
        const made = await createRecurringRun({ ...source, ...scheduleOf(form) })
        typed.forget()
        note(w("created", { name: made.display_name }))
        void navigate({ to: "/pipelines/recurring/$recurring", params: { recurring: made.recurring_run_id } })
      } else {
        const made = await createRun(source)
        typed.forget()
        note(w("created", { name: made.display_name }))
        void navigate({ to: "/pipelines/runs/$run", params: { run: made.run_id } })
      }
    } catch (thrown) {
      setError(thrown)
    } finally {
      setBusy(false)
    }
  }

  const name = spec?.pipelineInfo?.name ?? ""
  return (
    <Page
      title={cloned ? w("cloneTitle", { name: cloned.display_name }) : w(recurring ? "newRecurring" : "createRun")}
      above={<Above to="/pipelines/runs" word="runsTitle" />}
      lead={cloned && w(ownSpec ? "cloneSpec" : "cloneHelp")}
    >
      <form ref={typed.form} className="flex max-w-2xl flex-col gap-5" onSubmit={submit}>
        <RestoredNote typed={typed} />
        {!ownSpec && (
          <div className="grid gap-4 sm:grid-cols-2">
            <Field label={w("pipeline")}>
              {(field) => (
                <Select
                  {...field}
                  required
                  value={pipeline}
                  onChange={(event) => {
                    setPipeline(event.target.value)
                    setVersion(undefined)
                    setValues({})
                    setFaults({})
                  }}
                >
                  <option value="">{w("choosePipeline")}</option>
                  {pipelines.data?.items.map((each) => (
                    <option key={each.pipeline_id} value={each.pipeline_id}>
                      {each.display_name}
                    </option>
                  ))}
                </Select>
              )}
            </Field>
            <Field label={w("version")}>
              {(field) => (
                <Select
                  {...field}
                  disabled={!pipeline}
                  value={recurring ? (chosen ?? "") : version}
                  onChange={(event) => setVersion(event.target.value || undefined)}
                >
                  {recurring && <option value="">{w("followNewest")}</option>}
                  {versions.data?.items.map((each, index) => (
                    <option key={each.pipeline_version_id} value={each.pipeline_version_id}>
                      {each.display_name}
                      {index === 0 ? ` (${w("newest")})` : ""}
                    </option>
                  ))}
                </Select>
              )}
            </Field>
          </div>
        )}
        <Field label={w("runName")}>
          {(field) => (
            <Input
              key={`${name} ${recurring}`}
              {...field}
              name="name"
              required
              autoComplete="off"
              defaultValue={cloned ? w("cloneTitle", { name: cloned.display_name }) : name && proposedName(name)}
            />
          )}
        </Field>
        <NamespaceField value={place} onChange={setNamespace} />
        <Field label={w("experiment")}>
          {(field) => (
            <Select
              key={experiments.data ? place : "loading"}
              {...field}
              name="experiment"
              required
              defaultValue={chosenExperiment(experiments.data?.items, search.experiment ?? cloned?.experiment_id)}
            >
              {experiments.data?.items.map((each) => (
                <option key={each.experiment_id} value={each.experiment_id}>
                  {each.display_name}
                </option>
              ))}
            </Select>
          )}
        </Field>
        <Field label={c("description")} optional>
          {(field) => <TextArea {...field} name="description" rows={2} defaultValue={cloned?.description} />}
        </Field>
        <div>
          <p className="mb-1 text-[13px] font-medium">{w("runType")}</p>
          <div className="flex">
            <Segments
              label={w("runType")}
              choices={[
                { value: "once", label: w("once") },
                { value: "recurring", label: w("recurring") },
              ]}
              value={recurring ? "recurring" : "once"}
              onChange={(value) => setRecurring(value === "recurring")}
            />
          </div>
        </div>
        {recurring && <Schedule schedule={schedule} setSchedule={setSchedule} />}
        <Section title={w("parameters")}>
          <ProblemView error={found.error} />
          {(pipeline || ownSpec) && !spec && !found.error && <Loading />}
          {spec && !fields.length && <p className="text-muted-foreground">{w("noParameters")}</p>}
          {fields.map((field) => (
            <Parameter
              key={`${version} ${field.name}`}
              field={field}
              text={values[field.name] ?? field.initial}
              fault={faults[field.name]}
              change={(text) => {
                setValues((before) => ({ ...before, [field.name]: text }))
                setFaults(({ [field.name]: _, ...rest }) => rest)
              }}
            />
          ))}
        </Section>
        <ProblemView error={error} />
        <div>
          <Button type="submit" look="primary" disabled={busy || !spec}>
            <Play />
            {c("create")}
          </Button>
        </div>
      </form>
    </Page>
  )
}

/** The namespace of a team, or '' for the user's own. */
function teamOf(namespace: string | undefined): string {
  return namespace?.startsWith("team-") ? namespace : ""
}

/** The experiment that was asked for, if it is here, else "Default", which every namespace has. */
function chosenExperiment(all: readonly Experiment[] | undefined, wanted: string | undefined): string | undefined {
  const found = all?.find((each) => each.experiment_id === wanted) ?? all?.find(isDefault)
  return found?.experiment_id
}

function isDefault(experiment: Experiment): boolean {
  return experiment.display_name === "Default"
}

/** `hello-world 11-17 19:05:12`: names need not be unique, but lists read better if they are. */
function proposedName(pipeline: string): string {
  const now = new Date()
  const two = (number: number) => String(number).padStart(2, "0")
  const day = `${two(now.getMonth() + 1)}-${two(now.getDate())}`
  return `${pipeline} ${day} ${two(now.getHours())}:${two(now.getMinutes())}:${two(now.getSeconds())}`
}

function scheduleOf(form: FormData) {
  const cron = text(form, "cron")
  const unit = UNITS[(text(form, "unit") || "seconds") as keyof typeof UNITS]
  return {
    trigger: cron
      ? { cron_schedule: { cron } }
      : { periodic_schedule: { interval_second: String(Math.round(Number(text(form, "every")) * unit)) } },
    max_concurrency: text(form, "concurrency"),
    no_catchup: form.get("catchup") === null,
    mode: "ENABLE" as const,
  }
}

interface ScheduleProps {
  schedule: "cron" | "interval"
  setSchedule: (schedule: "cron" | "interval") => void
}

function Schedule({ schedule, setSchedule }: ScheduleProps) {
  const w = useTexts(pipelineTexts)
  return (
    <fieldset className="flex flex-col gap-4 rounded-lg border p-4">
      <legend className="px-1 text-[13px] font-medium">{w("schedule")}</legend>
      <div className="flex">
        <Segments
          label={w("schedule")}
          choices={[
            { value: "interval", label: w("interval") },
            { value: "cron", label: w("cron") },
          ]}
          value={schedule}
          onChange={setSchedule}
        />
      </div>
      {schedule === "cron" ? (
        <Field label={w("cronExpression")} hint={w("cronHint")}>
          {(field) => (
            <Input
              {...field}
              name="cron"
              required
              defaultValue="0 0 * * * *"
              className="font-mono"
              spellCheck={false}
            />
          )}
        </Field>
      ) : (
        <div className="flex items-end gap-2">
          <Field label={w("every")} className="w-28">
            {(field) => <Input {...field} name="every" type="number" min={1} required defaultValue={1} />}
          </Field>
          <Field label={w("unit")} hideLabel className="w-32">
            {(field) => (
              <Select {...field} name="unit" defaultValue="hours">
                {(Object.keys(UNITS) as (keyof typeof UNITS)[]).map((unit) => (
                  <option key={unit} value={unit}>
                    {w(unit)}
                  </option>
                ))}
              </Select>
            )}
          </Field>
        </div>
      )}
      <Field label={w("concurrency")} hint={w("concurrencyHint")} className="w-48">
        {(field) => <Input {...field} name="concurrency" type="number" min={1} max={10} required defaultValue={1} />}
      </Field>
      <Tick label={w("catchUp")} name="catchup" defaultChecked />
    </fieldset>
  )
}

interface ParameterProps {
  field: ParameterField
  text: string
  fault?: ParameterFault
  change: (text: string) => void
}

function Parameter({ field, text, fault, change }: ParameterProps) {
  const w = useTexts(pipelineTexts)
  const { name, type, required, description, choices } = field
  const options = choices.length ? choices : type === "BOOLEAN" ? ["true", "false"] : []
  const hint = [type, description].filter(Boolean).join(" · ")
  return (
    <Field label={name} hint={hint} optional={!required} error={fault && w(fault, { example: '{"a": 1}' })}>
      {(attributes) => {
        const shared = {
          ...attributes,
          value: text,
          onChange: (event: { target: { value: string } }) => change(event.target.value),
        }
        if (options.length)
          return (
            <Select {...shared}>
              {(!text || !required) && <option value="">–</option>}
              {options.map((each) => (
                <option key={each}>{each}</option>
              ))}
            </Select>
          )
        if (type === "LIST" || type === "STRUCT") return <Code {...shared} rows={3} />
        if (type === "STRING") return <TextArea {...shared} rows={text.includes("\n") ? 4 : 1} />
        return <Input {...shared} inputMode={type === "NUMBER_INTEGER" ? "numeric" : "decimal"} />
      }}
    </Field>
  )
}
