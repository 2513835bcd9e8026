import { useQuery } from "@tanstack/react-query"
import { Link } from "@tanstack/react-router"
import { Layers } from "lucide-react"
import { useMemo, useState } from "react"
import { clusterListQuery, deleteCluster, saveCluster } from "@/api/admin"
import { clusterQuery, nodesQuery, type VirtualCluster } from "@/api/cluster"
import { usePreferences } from "@/app/preferences"
import type { Column } from "@/components/data-table"
import { Dialog, FormDialog, text } from "@/components/dialog"
import { ProblemView } from "@/components/feedback"
import { Field, Input } from "@/components/form"
import { asRecord, type Pair, PairRows } from "@/components/pair-rows"
import { note } from "@/components/toasts"
import { adminTexts } from "@/i18n/admin"
import { clusterTexts } from "@/i18n/cluster"
import { commonTexts } from "@/i18n/common"
import { useTexts } from "@/i18n/translate"
import { skuText } from "@/lib/amounts"
import { NameFields, TeamField } from "./fields"
import { ManagedList } from "./managed-list"

const GPU = "nvidia.com/gpu"

export function Clusters() {
  const w = useTexts(adminTexts)
  const language = usePreferences((all) => all.language)
  const c = useTexts(commonTexts)
  const v = useTexts(clusterTexts)
  const columns = useMemo(
    (): Column<VirtualCluster>[] => [
      {
        id: "name",
        header: c("name"),
        sort: "name",
        cell: (cluster) => (
          <div className="max-w-xs">
            <Link
              to="/cluster/virtual/$cluster"
              params={{ cluster: cluster.id }}
              className="font-medium text-primary hover:underline"
            >
              {cluster.name}
            </Link>
            {cluster.description && (
              <div className="truncate text-[13px] text-muted-foreground">{cluster.description}</div>
            )}
          </div>
        ),
      },
      {
        id: "sku",
        header: v("sku"),
        cell: (cluster) => <span className="sm:whitespace-nowrap">{skuText(cluster.sku, language)}</span>,
      },
      { id: "total", header: v("total"), sort: "total", cell: (cluster) => cluster.total ?? v("unlimited") },
      {
        id: "used",
        header: w("inUse"),
        cell: (cluster) => v("usedOf", { used: cluster.used, total: cluster.available }),
      },
      { id: "who", header: w("who"), cell: (cluster) => cluster.team_name ?? w("everybody") },
    ],
    [w, c, v, language],
  )
  return (
    <ManagedList
      icon={Layers}
      label={w("clusters")}
      searchLabel={w("searchClusters")}
      createLabel={w("newCluster")}
      empty={{ title: w("noClusters"), help: w("clusterHint") }}
      query={clusterListQuery}
      columns={columns}
      hasEdit
      form={(id, close) => <EditCluster id={id} close={close} />}
      deleteHelp={w("deleteClusterHelp")}
      onDelete={deleteCluster}
    />
  )
}

function EditCluster({ id, close }: { id: string; close: () => void }) {
  const w = useTexts(adminTexts)
  const isNew = id === "new"
  // Not polled while it is edited.
  const { data: cluster, error } = useQuery({ ...clusterQuery(id), enabled: !isNew, refetchInterval: false })
  if (!isNew && !cluster)
    return (
      <Dialog open onClose={close} title={w("editCluster")}>
        <ProblemView error={error} />
      </Dialog>
    )
  return <ClusterForm cluster={cluster} close={close} />
}

function ClusterForm({ cluster, close }: { cluster?: VirtualCluster; close: () => void }) {
  const w = useTexts(adminTexts)
  const c = useTexts(commonTexts)
  const { [GPU]: gpu = "", cpu = "", memory = "", ...others } = cluster?.sku ?? { cpu: "1", memory: "4Gi" }
  const [resources, setResources] = useState<Pair[]>(Object.entries(others))
  const [labels, setLabels] = useState<Pair[]>(Object.entries(cluster?.node_selector ?? {}))
  const machines = useQuery(nodesQuery).data?.items ?? []
  const wanted = Object.entries(asRecord(labels))
  const matching = machines.filter((machine) => wanted.every(([name, value]) => machine.labels[name] === value)).length
  return (
    <FormDialog
      title={w(cluster ? "editCluster" : "newCluster")}
      lead={w("clusterHint")}
      action={cluster ? c("save") : c("create")}
      fields={[
        "name",
        "description",
        "total",
        "team",
        "sku",
        "sku.gpu",
        `sku.${GPU}`,
        "sku.cpu",
        "sku.memory",
        ...resources.map(([name]) => `sku.${name.trim()}`),
        ...labels.map(([name]) => `node_selector.${name.trim()}`),
        "tolerations",
      ]}
      onClose={close}
      onSubmit={async (form) => {
        const name = text(form, "name")
        const total = text(form, "total")
        const sku = asRecord([
          ...(["gpu", "cpu", "memory"] as const).map((each): Pair => [each, text(form, each)]),
          ...resources,
        ])
        for (const [resource, amount] of Object.entries(sku)) if (!amount) delete sku[resource]
        await saveCluster(cluster, {
          name,
          description: text(form, "description"),
          sku,
          node_selector: asRecord(labels),
          tolerations: text(form, "tolerations")
            .split(/[\s,]+/)
            .filter(Boolean),
          total: total === "" ? null : Number(total),
          team: text(form, "team"),
        })
        note(w(cluster ? "saved" : "created", { name }))
        close()
      }}
    >
      {(fault) => (
        <>
          <NameFields fault={fault} name={cluster?.name} description={cluster?.description} />
          <fieldset className="flex flex-col gap-2">
            <legend className="mb-1 text-[13px] font-medium">{w("sku")}</legend>
            <div className="grid gap-2 sm:grid-cols-3">
              <Field label={w("gpu")} error={fault("sku.gpu") ?? fault(`sku.${GPU}`)}>
                {(field) => <Input {...field} name="gpu" inputMode="numeric" placeholder="0" defaultValue={gpu} />}
              </Field>
              <Field label={w("cpu")} error={fault("sku.cpu")}>
                {(field) => <Input {...field} name="cpu" placeholder="10" defaultValue={cpu} />}
              </Field>
              <Field label={w("memory")} error={fault("sku.memory")}>
                {(field) => <Input {...field} name="memory" placeholder="80Gi" defaultValue={memory} />}
              </Field>
            </div>
            {fault("sku") && <p className="text-[13px] text-destructive">{fault("sku")}</p>}
          </fieldset>
          <PairRows
            legend={w("otherResources")}
            nameLabel={w("resourceName")}
            valueLabel={w("amount")}
            add={w("addResource")}
            pairs={resources}
            change={setResources}
            suggestions={[
              ...new Set(machines.flatMap((machine) => machine.amounts.map(({ resource }) => resource))),
            ].filter((name) => name.includes("/"))}
            fault={(name) => fault(`sku.${name.trim()}`)}
          />
          <Field label={w("total")} optional hint={w("totalHint")} error={fault("total")}>
            {(field) => (
              <Input
                {...field}
                name="total"
                type="number"
                min={0}
                max={1_000_000}
                step={1}
                defaultValue={cluster?.total ?? ""}
              />
            )}
          </Field>
          <PairRows
            legend={w("nodeSelector")}
            nameLabel={w("label")}
            valueLabel={w("value")}
            add={w("addLabel")}
            pairs={labels}
            change={setLabels}
            suggestions={[...new Set(machines.flatMap((machine) => Object.keys(machine.labels)))].sort()}
            fault={(name) => fault(`node_selector.${name.trim()}`)}
          />
          <p className={matching ? "-mt-2 text-[13px] text-muted-foreground" : "-mt-2 text-[13px] text-warning"}>
            {w("matching", { n: matching })}
          </p>
          <Field label={w("tolerations")} optional hint={w("tolerationsHint")} error={fault("tolerations")}>
            {(field) => (
              <Input
                {...field}
                name="tolerations"
                placeholder="pool=ml:NoSchedule"
                defaultValue={cluster?.tolerations.join(", ")}
              />
            )}
          </Field>
          <TeamField value={cluster?.team_id} error={fault("team")} />
        </>
      )}
    </FormDialog>
  )
}
