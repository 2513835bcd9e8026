/** The form of a training job, beside its manifest. It shows what the manifest says and changes its text. */
import { useQuery } from "@tanstack/react-query"
import { jobKindsQuery, type ManifestProblem } from "@/api/jobs"
import { clustersQuery } from "@/api/options"
import { usePreferences } from "@/app/preferences"
import { ProblemView } from "@/components/feedback"
import { Code, Field, Input, Select, Tick } from "@/components/form"
import { PairRows } from "@/components/pair-rows"
import { jobTexts } from "@/i18n/jobs"
import { serverMessage } from "@/i18n/server-messages"
import { useTexts } from "@/i18n/translate"
import { resourceName, skuText } from "@/lib/amounts"
import {
  type FormJob,
  type FormRole,
  isAbout,
  type JobKind,
  type Path,
  readJob,
  setCommand,
  setEnv,
  setField,
  setKind,
  setLimit,
  setRole,
} from "@/lib/job-manifest"

const RESOURCES = ["cpu", "memory", "nvidia.com/gpu"]

interface Props {
  text: string
  change: (text: string) => void
  /** A manifest to start with, if none is written. */
  start: (kind: JobKind) => void
  problems: readonly ManifestProblem[]
}

export function JobForm({ text, change, start, problems }: Props) {
  const w = useTexts(jobTexts)
  const kinds = useQuery(jobKindsQuery)
  if (!kinds.data) return <ProblemView error={kinds.error} />
  const read = readJob(text, kinds.data)
  const job = read.state === "job" ? read.job : undefined
  const choose = (word: string) => {
    const kind = kinds.data.find((each) => each.word === word)
    if (!kind) return
    if (job) change(setKind(text, job, kind))
    else start(kind)
  }
  return (
    <section aria-label={w("form")} className="flex min-w-0 flex-col gap-4">
      {(job || read.state === "empty") && (
        <Field label={w("kind")}>
          {(attributes) => (
            <Select {...attributes} value={job?.kind.word ?? ""} onChange={(event) => choose(event.target.value)}>
              {!job && <option value="">{w("chooseKind")}</option>}
              {kinds.data.map((kind) => (
                <option key={kind.word} value={kind.word}>
                  {kind.kind} ({kind.api_version})
                </option>
              ))}
            </Select>
          )}
        </Field>
      )}
      {read.state !== "job" && <p className="text-[13px] text-muted-foreground">{w(NOT_SHOWN[read.state])}</p>}
      {job && <Fields text={text} job={job} change={change} problems={problems} />}
    </section>
  )
}

const NOT_SHOWN = {
  empty: "formEmpty",
  unreadable: "formUnreadable",
  several: "formSeveral",
  unknown: "formUnknown",
} as const

function Fields({ text, job, change, problems }: Pick<Props, "text" | "change" | "problems"> & { job: FormJob }) {
  const w = useTexts(jobTexts)
  const error = useErrors(problems)
  return (
    <>
      <Field label={w("name")} error={error(["metadata", "name"])}>
        {(attributes) => (
          <Input
            {...attributes}
            value={job.name}
            onChange={(event) => change(setField(text, ["metadata", "name"], event.target.value || undefined))}
          />
        )}
      </Field>
      {job.roles.map((role) => (
        <fieldset key={role.name} className="flex min-w-0 flex-col gap-3 rounded-lg border p-3">
          <legend className="px-1">
            <Tick
              label={<span className="font-medium">{role.name}</span>}
              checked={role.isThere}
              onChange={(event) => change(setRole(text, job, role, event.target.checked))}
            />
          </legend>
          {role.isThere && <Role text={text} job={job} role={role} change={change} error={error} />}
        </fieldset>
      ))}
    </>
  )
}

interface RoleProps {
  text: string
  job: FormJob
  role: FormRole
  change: (text: string) => void
  error: (path: Path) => string | undefined
}

function Role({ text, job, role, change, error }: RoleProps) {
  const w = useTexts(jobTexts)
  const set = (path: Path, value: string | number | undefined) => change(setField(text, path, value))
  const image = [...role.container, "image"]
  const replicas = [...role.path, "replicas"]
  return (
    <>
      <div className="flex gap-3 max-sm:flex-col">
        <Field label={w("replicas")} error={error(replicas)} className="w-28 shrink-0 max-sm:w-full">
          {(attributes) => (
            <Input
              {...attributes}
              type="number"
              min={0}
              placeholder="1"
              value={role.replicas ?? ""}
              onChange={({ target: { value } }) => set(replicas, value === "" ? undefined : Number(value))}
            />
          )}
        </Field>
        <Field label={w("restartPolicyField")} error={error(role.restartPath)} className="min-w-0 flex-1">
          {(attributes) => (
            <Select
              {...attributes}
              value={role.restart}
              onChange={(event) => set(role.restartPath, event.target.value || undefined)}
            >
              <option value="">{w("byDefault", { value: job.kind.default_restart })}</option>
              {job.kind.restart_policies.map((policy) => (
                <option key={policy}>{policy}</option>
              ))}
            </Select>
          )}
        </Field>
      </div>
      <Field label={w("image")} error={error(image)}>
        {(attributes) => (
          <Input
            {...attributes}
            className="font-mono text-[13px]"
            value={role.image}
            onChange={(event) => set(image, event.target.value || undefined)}
          />
        )}
      </Field>
      <Field label={w("command")} hint={w("commandHint")} error={error([...role.container, "command"])}>
        {(attributes) => (
          <Code
            {...attributes}
            rows={Math.min(8, role.command.split("\n").length + 1)}
            value={role.command}
            onChange={(event) => change(setCommand(text, role, event.target.value))}
          />
        )}
      </Field>
      <Resources text={text} role={role} change={change} error={error} />
      <PairRows
        legend={w("environment")}
        nameLabel={w("variable")}
        valueLabel={w("value")}
        add={w("addVariable")}
        pairs={role.env.map(({ name, value }) => [name, value])}
        change={(pairs) =>
          change(
            setEnv(
              text,
              role,
              pairs.map(([name, value]) => ({ name, value })),
            ),
          )
        }
        fault={(name) => {
          const at = role.env.findIndex((each) => each.name === name)
          return role.otherEnv ? undefined : error([...role.container, "env", at])
        }}
      />
      {role.otherEnv > 0 && <p className="text-[13px] text-muted-foreground">{w("otherEnv", { n: role.otherEnv })}</p>}
    </>
  )
}

function Resources({ text, role, change, error }: Omit<RoleProps, "job">) {
  const w = useTexts(jobTexts)
  const language = usePreferences((all) => all.language)
  const clusters = useQuery(clustersQuery).data?.items.filter((cluster) => cluster.usable) ?? []
  const names = [...new Set([...RESOURCES, ...Object.keys(role.limits)])]
  const fill = (id: string) => {
    const sku = clusters.find((cluster) => cluster.id === id)?.sku ?? {}
    change(Object.entries(sku).reduce((sofar, [name, amount]) => setLimit(sofar, role, name, amount), text))
  }
  return (
    <fieldset className="flex min-w-0 flex-col gap-2">
      <legend className="mb-1 text-[13px] font-medium">{w("resources")}</legend>
      <div className="grid grid-cols-3 gap-3 max-sm:grid-cols-1">
        {names.map((name) => (
          <Field
            key={name}
            label={capitalized(resourceName(name, language))}
            error={error([...role.container, "resources", "limits", name])}
          >
            {(attributes) => (
              <Input
                {...attributes}
                placeholder={name === "memory" ? "4Gi" : "1"}
                value={role.limits[name] ?? ""}
                onChange={(event) => change(setLimit(text, role, name, event.target.value))}
              />
            )}
          </Field>
        ))}
      </div>
      {clusters.length > 0 && (
        <Select aria-label={w("fromSku")} value="" onChange={(event) => fill(event.target.value)}>
          <option value="">{w("fromSku")}</option>
          {clusters.map((cluster) => (
            <option key={cluster.id} value={cluster.id}>
              {cluster.name}: {skuText(cluster.sku, language)}
            </option>
          ))}
        </Select>
      )}
    </fieldset>
  )
}

function capitalized(name: string): string {
  return name.includes("/") ? name : name.charAt(0).toUpperCase() + name.slice(1)
}

/** The error that the server has found in a field. */
function useErrors(problems: readonly ManifestProblem[]): (path: Path) => string | undefined {
  const language = usePreferences((all) => all.language)
  return (path) => {
    const found = problems.find((problem) => problem.severity === "error" && isAbout(problem.path, path))
    return found && serverMessage(found, language)
  }
}
