import { Code, Field, Input, Select } from "@/components/form"
import { type Role, TRAINING_KINDS, type Training } from "@/graph/document"
import { editorWords } from "@/words/editor"
import { useWords } from "@/words/words"
import type { NodeFormProps } from "./node-form"

const PADDLE_CLOUD = "batch.paddlepaddle.org/v1"

/** The kind of training job, and how many members each of its roles has. */
export function NodeTraining({ node, change, fault }: NodeFormProps) {
  const w = useWords(editorWords)
  const training = node.training ?? { kind: "PyTorchJob", roles: [] }
  const known = TRAINING_KINDS[training.kind] ?? []
  const names = [...known, ...training.roles.map((role) => role.name).filter((name) => !known.includes(name))]
  const set = (training: Training, field: string) => change({ training }, field)

  const setRole = (name: string, what: Partial<Role>, field: string) => {
    const there = training.roles.some((role) => role.name === name)
    const roles = there
      ? training.roles.map((role) => (role.name === name ? { ...role, ...what } : role))
      : [...training.roles, { name, ...what }]
    const kept = roles.filter((role) => role.replicas !== 0 || role.command || role.image)
    set({ ...training, roles: kept.sort((a, b) => names.indexOf(a.name) - names.indexOf(b.name)) }, field)
  }

  const setKind = (kind: string) => {
    const roles = (TRAINING_KINDS[kind] ?? ["Worker"]).map((name) => training.roles.find((role) => role.name === name))
    const kept = roles.filter((role) => role !== undefined)
    set(
      { kind, roles: kept.length ? kept : [{ name: TRAINING_KINDS[kind]?.[0] ?? "Worker", replicas: 1 }] },
      "training",
    )
  }

  return (
    <>
      <Field label={w("trainingKind")} error={fault("training") ?? fault("training.kind")}>
        {(field) => (
          <Select
            {...field}
            data-field="training"
            value={training.kind}
            onChange={(event) => setKind(event.target.value)}
          >
            {!(training.kind in TRAINING_KINDS) && <option>{training.kind}</option>}
            {Object.keys(TRAINING_KINDS).map((kind) => (
              <option key={kind}>{kind}</option>
            ))}
          </Select>
        )}
      </Field>
      {training.kind === "PaddleJob" && (
        <Field label="API">
          {(field) => (
            <Select
              {...field}
              value={training.apiVersion ?? ""}
              onChange={(event) =>
                set({ ...training, apiVersion: event.target.value || undefined }, "training.apiVersion")
              }
            >
              <option value="">kubeflow.org/v1</option>
              <option>{PADDLE_CLOUD}</option>
            </Select>
          )}
        </Field>
      )}
      <div className="grid grid-cols-2 gap-2" data-field="training.roles" tabIndex={-1}>
        {names.map((name) => {
          const index = training.roles.findIndex((role) => role.name === name)
          const at = `training.roles[${index}]`
          return (
            <Field
              key={name}
              label={w("replicasOf", { role: name })}
              error={index < 0 ? undefined : (fault(at) ?? fault(`${at}.replicas`) ?? fault(`${at}.name`))}
            >
              {(field) => (
                <Input
                  {...field}
                  data-field={at}
                  type="number"
                  min={0}
                  value={index < 0 ? 0 : (training.roles[index]?.replicas ?? 1)}
                  onChange={(event) => setRole(name, { replicas: Number(event.target.value) }, `${at}.replicas`)}
                />
              )}
            </Field>
          )
        })}
      </div>
      {fault("training.roles") && <p className="text-[13px] text-destructive">{fault("training.roles")}</p>}
      {training.roles.map((role) => (
        <details
          key={role.name}
          open={Boolean(role.command ?? role.image)}
          className="rounded-md border bg-background p-2.5"
        >
          <summary className="cursor-pointer text-[13px]">{w("roleOwn", { role: role.name })}</summary>
          <div className="mt-2 flex flex-col gap-2">
            <Field label={w("command")} optional>
              {(field) => (
                <Code
                  {...field}
                  rows={2}
                  value={role.command ?? ""}
                  onChange={(event) =>
                    setRole(role.name, { command: event.target.value || undefined }, `${role.name}.command`)
                  }
                />
              )}
            </Field>
            <Field label={w("image")} optional>
              {(field) => (
                <Input
                  {...field}
                  value={role.image ?? ""}
                  onChange={(event) =>
                    setRole(role.name, { image: event.target.value || undefined }, `${role.name}.image`)
                  }
                />
              )}
            </Field>
          </div>
        </details>
      ))}
    </>
  )
}
