/** The fields of a node that are objects: the module, the training job, and the resources it runs with. */
import { useQuery } from "@tanstack/react-query"
import { queryClient } from "@/api/client"
import { clustersQuery, moduleVersionQuery, moduleVersionsQuery, USABLE } from "@/api/options"
import { usePreferences } from "@/app/preferences"
import { Code, Field, Input, Select } from "@/components/form"
import { noteError } from "@/components/toasts"
import type { Role, Task, Training } from "@/graph/document"
import { apiVersionsOf, NODE_FIELDS, rolesOf, trainingKinds } from "@/graph/node-fields"
import { editorTexts } from "@/i18n/editor"
import { useTexts, useTranslate } from "@/i18n/translate"
import { exceedsNodes, skuText } from "@/lib/amounts"
import type { NodeFormProps } from "./node-form"

/** The module and its pinned version. Another version may have other inputs; those with the same name are kept. */
export function NodeModule({ node, change, fault }: NodeFormProps) {
  const w = useTexts(editorTexts)
  const text = useTranslate()
  const name = node.module?.name ?? ""
  const versions = useQuery({ ...moduleVersionsQuery(name), enabled: name !== "", retry: false })
  const pinned = node.module?.version ?? ""
  const offered = (versions.data?.items ?? []).filter((version) => USABLE.has(version.state))
  const known = offered.some((version) => String(version.number) === pinned)
  const pin = async (version: string) => {
    try {
      const { inputs } = await queryClient.fetchQuery(moduleVersionQuery(name, version))
      const before = new Map((node.inputs ?? []).map((input) => [input.name, input]))
      // The item of a loop takes the place of an input.
      const fitted = inputs
        .filter(({ name: taken }) => taken !== node.loop?.variable)
        .map(
          ({ name: taken, description }) => before.get(taken) ?? { name: taken, description: description || undefined },
        )
      change({ module: { name, version }, inputs: fitted }, "module")
    } catch (error) {
      noteError(error)
    }
  }
  return (
    <div className="flex gap-2">
      <Field
        label={text(NODE_FIELDS.module.label)}
        className="min-w-0 flex-1"
        error={fault("module") ?? fault("module.name")}
        hint={w("moduleFixed")}
      >
        {(field) => <Input {...field} value={name} readOnly data-field="module" />}
      </Field>
      <Field label={w("moduleVersion")} className="w-28" error={fault("module.version")}>
        {(field) => (
          <Select
            {...field}
            data-field="module.version"
            value={pinned}
            onChange={(event) => void pin(event.target.value)}
          >
            {!known && <option value={pinned}>v{pinned}</option>}
            {offered.map((version) => (
              <option key={version.id} value={String(version.number)}>
                v{version.number}
              </option>
            ))}
          </Select>
        )}
      </Field>
    </div>
  )
}

/** The kind of training job, and the number of replicas of each role. */
export function NodeTraining({ node, change, fault }: NodeFormProps) {
  const w = useTexts(editorTexts)
  const text = useTranslate()
  const training = node.training ?? { kind: "", roles: [] }
  const apiVersions = apiVersionsOf(training.kind)
  const known = rolesOf(training.kind, training.apiVersion)
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

  /** Roles that the kind does not have are dropped; one that has none left starts with its first role. */
  const setKind = (kind: string, apiVersion?: string) => {
    const roles = rolesOf(kind, apiVersion)
    const kept = training.roles.filter((role) => roles.includes(role.name))
    const [first = "Worker"] = roles
    set({ kind, apiVersion, roles: kept.length ? kept : [{ name: first, replicas: 1 }] }, "training")
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
            {!trainingKinds().includes(training.kind) && <option>{training.kind}</option>}
            {trainingKinds().map((kind) => (
              <option key={kind}>{kind}</option>
            ))}
          </Select>
        )}
      </Field>
      {apiVersions.length > 1 && (
        <Field label={w("apiVersion")}>
          {(field) => (
            <Select
              {...field}
              value={training.apiVersion ?? apiVersions[0]}
              onChange={({ target }) =>
                setKind(training.kind, target.value === apiVersions[0] ? undefined : target.value)
              }
            >
              {apiVersions.map((version) => (
                <option key={version}>{version}</option>
              ))}
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
            <Field label={text(NODE_FIELDS.command.label)} optional>
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
            <Field label={text(NODE_FIELDS.image.label)} optional>
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

/** The task type, the virtual cluster and the number of SKUs. */
export function NodeTask({ node, change, fault }: NodeFormProps) {
  const w = useTexts(editorTexts)
  const text = useTranslate()
  const language = usePreferences((all) => all.language)
  const all = useQuery(clustersQuery)
  const clusters = (all.data?.items ?? []).filter((cluster) => cluster.usable || cluster.name === node.task?.cluster)
  const task = node.task ?? {}
  const compute = task.type === "compute"
  const set = (task: Task, field: string) => change({ task }, field)
  const chosen = clusters.find((cluster) => cluster.name === task.cluster)
  const unknown = task.cluster && all.data && !chosen
  return (
    <>
      <Field label={text(NODE_FIELDS.task.label)} hint={compute ? undefined : w("monitorHint")} error={fault("task")}>
        {(field) => (
          <Select
            {...field}
            data-field="task"
            value={compute ? "compute" : "monitor"}
            onChange={(event) =>
              set(
                event.target.value === "compute"
                  ? { type: "compute", cluster: clusters[0]?.name, skus: 1 }
                  : { type: "monitor" },
                "task",
              )
            }
          >
            <option value="monitor">{w("monitor")}</option>
            <option value="compute">{w("compute")}</option>
          </Select>
        )}
      </Field>
      {compute && (
        <div className="flex items-start gap-2">
          <Field
            label={w("cluster")}
            className="min-w-0 flex-1"
            error={fault("task.cluster")}
            hint={
              chosen
                ? w("skuOf", { sku: skuText(chosen.sku, language) })
                : all.data?.items.length === 0
                  ? w("noClusters")
                  : undefined
            }
          >
            {(field) => (
              <Select
                {...field}
                data-field="task.cluster"
                value={task.cluster ?? ""}
                onChange={(event) => set({ ...task, cluster: event.target.value || undefined }, "task.cluster")}
              >
                <option value="">{w("chooseCluster")}</option>
                {unknown && <option value={task.cluster}>{task.cluster}</option>}
                {clusters.map((cluster) => (
                  <option key={cluster.id} value={cluster.name}>
                    {cluster.name}
                  </option>
                ))}
              </Select>
            )}
          </Field>
          <Field label={w("skus")} className="w-24" error={fault("task.skus")}>
            {(field) => (
              <Input
                {...field}
                data-field="task.skus"
                type="number"
                min={1}
                value={task.skus ?? 1}
                onChange={(event) => set({ ...task, skus: Number(event.target.value) }, "task.skus")}
              />
            )}
          </Field>
        </div>
      )}
      {compute && chosen && exceedsNodes(task.skus ?? 1, chosen) && (
        <p role="status" className="text-[13px] text-warning">
          {w("tooManySkus", { n: task.skus ?? 1, most: chosen.largest })}
        </p>
      )}
    </>
  )
}
