/** Submitting a job: an image with a command, on any cluster of the dispatcher. */

import { useQuery } from "@tanstack/react-query"
import { useNavigate } from "@tanstack/react-router"
import { useState } from "react"
import { adaptersQuery, type NewDispatchJob, submitDispatchJob } from "@/api/dispatch"
import { FormDialog, text } from "@/components/dialog"
import { Code, Field, Input, Select } from "@/components/form"
import { OwnTeamField } from "@/components/own-team-field"
import { asRecord, type Pair, PairRows } from "@/components/pair-rows"
import { note } from "@/components/toasts"
import { commonTexts } from "@/i18n/common"
import { dispatchTexts } from "@/i18n/dispatch"
import { useTexts } from "@/i18n/translate"
import { placeName } from "./badges"

const FIELDS = ["name", "adapter", "image", "command", "team", "priority", "retries", "timeout"]
const RESOURCES = ["cpu", "memory", "gpu", "gpu_type", "nodes"]

/** What the form sends. */
export function newJob(form: FormData, env: Pair[]): NewDispatchJob {
  const number = (name: string, otherwise: number) => Number(text(form, name) || otherwise)
  const timeout = text(form, "timeout")
  return {
    name: text(form, "name"),
    adapter: text(form, "adapter"),
    image: text(form, "image"),
    command: ["sh", "-c", text(form, "command").replaceAll("\r\n", "\n")],
    env: asRecord(env),
    team: text(form, "team"),
    resources: {
      cpu: number("cpu", 1),
      memory: text(form, "memory") || "1Gi",
      gpu: number("gpu", 0),
      gpu_type: text(form, "gpu_type"),
      nodes: number("nodes", 1),
      rdma: false,
    },
    priority: number("priority", 0),
    retries: number("retries", 0),
    timeout: timeout ? Number(timeout) : null,
    working_dir: "",
    mounts: [],
    manifest: "",
    key: "",
  }
}

export function SubmitForm({ close }: { close: () => void }) {
  const w = useTexts(dispatchTexts)
  const c = useTexts(commonTexts)
  const navigate = useNavigate()
  const adapters = useQuery(adaptersQuery)
  const [env, setEnv] = useState<Pair[]>([])
  return (
    <FormDialog
      wide
      title={w("create")}
      lead={w("createLead")}
      action={w("submit")}
      fields={[
        ...FIELDS,
        ...RESOURCES.map((each) => `resources.${each}`),
        ...env.map(([name]) => `env.${name.trim()}`),
      ]}
      onClose={close}
      onSubmit={async (form) => {
        const job = await submitDispatchJob(newJob(form, env))
        note(w("submitted", { name: job.name }))
        close()
        await navigate({ to: "/dispatch/$job", params: { job: job.id } })
      }}
    >
      {(fault) => (
        <>
          <div className="grid gap-4 sm:grid-cols-2">
            <Field label={c("name")} error={fault("name")}>
              {(field) => <Input {...field} name="name" required autoFocus autoComplete="off" maxLength={128} />}
            </Field>
            <Field label={w("adapter")} error={fault("adapter")}>
              {(field) => (
                <Select {...field} name="adapter">
                  {(adapters.data ?? []).map(({ name }) => (
                    <option key={name} value={name}>
                      {placeName(name, w("thisCluster"))}
                    </option>
                  ))}
                </Select>
              )}
            </Field>
          </div>
          <Field label={w("image")} error={fault("image")}>
            {(field) => <Input {...field} name="image" required placeholder="python:3.11" />}
          </Field>
          <Field label={w("command")} hint={w("commandHint")} error={fault("command")}>
            {(field) => <Code {...field} name="command" required rows={3} placeholder="python train.py" />}
          </Field>
          <PairRows
            legend={w("env")}
            nameLabel={w("envName")}
            valueLabel={w("envValue")}
            add={w("envAdd")}
            pairs={env}
            change={setEnv}
            fault={(name) => fault(`env.${name.trim()}`)}
          />
          <fieldset>
            <legend className="mb-1 text-[13px] font-medium">{w("perNode")}</legend>
            <div className="grid gap-2 sm:grid-cols-5">
              <Field label={w("cpu")} error={fault("resources.cpu")}>
                {(field) => <Input {...field} name="cpu" type="number" min={0} step="any" placeholder="1" />}
              </Field>
              <Field label={w("memory")} error={fault("resources.memory")}>
                {(field) => <Input {...field} name="memory" placeholder="1Gi" />}
              </Field>
              <Field label={w("gpu")} error={fault("resources.gpu")}>
                {(field) => <Input {...field} name="gpu" type="number" min={0} step="any" placeholder="0" />}
              </Field>
              <Field label={w("gpuType")} error={fault("resources.gpu_type")}>
                {(field) => <Input {...field} name="gpu_type" placeholder="A800" />}
              </Field>
              <Field label={w("nodes")} error={fault("resources.nodes")}>
                {(field) => <Input {...field} name="nodes" type="number" min={1} step={1} placeholder="1" />}
              </Field>
            </div>
          </fieldset>
          <div className="grid gap-4 sm:grid-cols-3">
            <Field label={w("priority")} hint={w("priorityHint")} error={fault("priority")}>
              {(field) => (
                <Input {...field} name="priority" type="number" min={-100} max={100} step={1} placeholder="0" />
              )}
            </Field>
            <Field label={w("retries")} error={fault("retries")}>
              {(field) => <Input {...field} name="retries" type="number" min={0} max={100} step={1} placeholder="0" />}
            </Field>
            <Field label={w("timeoutSeconds")} optional error={fault("timeout")}>
              {(field) => <Input {...field} name="timeout" type="number" min={1} step="any" />}
            </Field>
          </div>
          <OwnTeamField label={c("shareWith")} optional error={fault("team")} />
        </>
      )}
    </FormDialog>
  )
}
