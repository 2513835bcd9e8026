import { useQuery } from "@tanstack/react-query"
import { clustersQuery } from "@/api/offers"
import { Field, Input, Select } from "@/components/form"
import type { Task } from "@/graph/document"
import { editorWords } from "@/words/editor"
import { useWords } from "@/words/words"
import type { NodeFormProps } from "./node-form"

/** What it may use of the machines. */
export function NodeTask({ node, change, fault }: NodeFormProps) {
  const w = useWords(editorWords)
  const all = useQuery(clustersQuery)
  const clusters = (all.data?.items ?? []).filter((cluster) => cluster.usable || cluster.name === node.task?.cluster)
  const task = node.task ?? {}
  const compute = task.type === "compute"
  const set = (task: Task, field: string) => change({ task }, field)
  const chosen = clusters.find((cluster) => cluster.name === task.cluster)
  const unknown = task.cluster && all.data && !chosen
  return (
    <>
      <Field label={w("taskType")} hint={compute ? undefined : w("monitorHint")} error={fault("task")}>
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
                ? w("skuOf", { sku: skuText(chosen.sku) })
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
      <Field label={w("retries")} error={fault("retries")} className="w-24">
        {(field) => (
          <Input
            {...field}
            data-field="retries"
            type="number"
            min={0}
            max={100}
            value={node.retries ?? 0}
            onChange={(event) => change({ retries: Number(event.target.value) || undefined }, "retries")}
          />
        )}
      </Field>
    </>
  )
}

export function skuText(sku: Record<string, string>): string {
  return Object.entries(sku)
    .map(([name, amount]) => `${amount} ${name.replace("nvidia.com/gpu", "GPU").replace("cpu", "CPU")}`)
    .join(", ")
}
