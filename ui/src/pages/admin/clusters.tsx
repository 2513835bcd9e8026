import { keepPreviousData, useQuery } from "@tanstack/react-query"
import { Link } from "@tanstack/react-router"
import { Layers, Pencil, Plus, Trash2 } from "lucide-react"
import { useMemo, useState } from "react"
import { clusterListQuery, deleteCluster, saveCluster } from "@/api/admin"
import { type VirtualCluster, clusterQuery, machinesQuery } from "@/api/cluster"
import { usePreferences } from "@/app/preferences"
import { Button } from "@/components/button"
import type { Column } from "@/components/data-table"
import { Confirm, Dialog } from "@/components/dialog"
import { Empty } from "@/components/feedback"
import { Filters, SearchBox } from "@/components/filters"
import { Field, Input } from "@/components/form"
import { FormDialog, text } from "@/components/form-dialog"
import { Listing } from "@/components/listing"
import { ProblemView } from "@/components/problem-view"
import { note } from "@/components/toasts"
import { skuText } from "@/lib/amounts"
import { adminWords } from "@/words/admin"
import { clusterWords } from "@/words/cluster"
import { commonWords } from "@/words/common"
import { useWords } from "@/words/words"
import { NameFields } from "./name-fields"
import { type Pair, PairRows, asRecord } from "./pair-rows"
import { useAdminPlace } from "./place"
import { TeamField } from "./team-field"

const PIECE = 50
const GPU = "nvidia.com/gpu"

export function Clusters() {
  const w = useWords(adminWords)
  const language = usePreferences((all) => all.language)
  const c = useWords(commonWords)
  const v = useWords(clusterWords)
  const { search, place, filter, onSort, onPages, open, close, clear } = useAdminPlace()
  const sort = search.sort ?? "name"
  const found = useQuery({ ...clusterListQuery({ q: search.q, sort, cursor: place.cursor, limit: PIECE }), placeholderData: keepPreviousData })
  const [dropping, setDropping] = useState<VirtualCluster>()
  const columns = useMemo(
    (): Column<VirtualCluster>[] => [
      {
        id: "name",
        header: c("name"),
        sort: "name",
        cell: (cluster) => (
          <div className="max-w-xs">
            <Link to="/cluster/virtual/$cluster" params={{ cluster: cluster.id }} className="font-medium text-primary hover:underline">
              {cluster.name}
            </Link>
            {cluster.description && <div className="truncate text-[13px] text-muted-foreground">{cluster.description}</div>}
          </div>
        ),
      },
      { id: "sku", header: v("sku"), cell: (cluster) => <span className="whitespace-nowrap">{skuText(cluster.sku, language)}</span> },
      { id: "total", header: v("total"), sort: "total", cell: (cluster) => cluster.total ?? v("unlimited") },
      { id: "used", header: w("inUse"), cell: (cluster) => v("usedOf", { used: cluster.used, total: cluster.available }) },
      { id: "who", header: w("who"), cell: (cluster) => cluster.team_name ?? w("everybody") },
      {
        id: "actions",
        header: c("actions"),
        hideHeader: true,
        className: "w-20 text-right whitespace-nowrap",
        cell: (cluster) => (
          <>
            <Button look="ghost" size="icon" aria-label={`${c("edit")}: ${cluster.name}`} title={c("edit")} onClick={() => open(cluster.id)}>
              <Pencil />
            </Button>
            <Button look="ghost" size="icon" aria-label={w("deleteTitle", { name: cluster.name })} title={c("delete")} onClick={() => setDropping(cluster)}>
              <Trash2 />
            </Button>
          </>
        ),
      },
    ],
    [w, c, v, open, language],
  )
  const create = (
    <Button look="primary" onClick={() => open("new")}>
      <Plus />
      {w("newCluster")}
    </Button>
  )
  return (
    <>
      <Filters>
        <SearchBox label={w("searchClusters")} value={search.q ?? ""} onChange={(q) => filter({ q: q || undefined })} />
        <div className="ml-auto">{create}</div>
      </Filters>
      <Listing
        label={w("clusters")}
        found={found}
        columns={columns}
        rowId={(cluster) => cluster.id}
        sort={sort}
        onSort={onSort}
        place={place}
        piece={PIECE}
        onPages={onPages}
        clear={search.q ? clear : undefined}
        empty={
          <Empty icon={Layers} title={w("noClusters")} actions={create}>
            {w("clusterHint")}
          </Empty>
        }
      />
      {search.open && <EditCluster id={search.open} close={close} />}
      {dropping && (
        <Confirm
          open
          danger
          onClose={() => setDropping(undefined)}
          title={w("deleteTitle", { name: dropping.name })}
          lead={w("deleteClusterHelp")}
          action={c("delete")}
          onConfirm={async () => {
            await deleteCluster(dropping)
            note(w("deleted", { name: dropping.name }))
          }}
        />
      )}
    </>
  )
}

function EditCluster({ id, close }: { id: string; close: () => void }) {
  const w = useWords(adminWords)
  const isNew = id === "new"
  // While somebody edits it, nothing changes under their hands.
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
  const w = useWords(adminWords)
  const c = useWords(commonWords)
  const { [GPU]: gpu = "", cpu = "", memory = "", ...others } = cluster?.sku ?? { cpu: "1", memory: "4Gi" }
  const [resources, setResources] = useState<Pair[]>(Object.entries(others))
  const [labels, setLabels] = useState<Pair[]>(Object.entries(cluster?.node_selector ?? {}))
  const machines = useQuery(machinesQuery).data?.items ?? []
  const wanted = Object.entries(asRecord(labels))
  const matching = machines.filter((machine) => wanted.every(([name, value]) => machine.labels[name] === value)).length
  return (
    <FormDialog
      title={w(cluster ? "editCluster" : "newCluster")}
      lead={w("clusterHint")}
      action={cluster ? c("save") : c("create")}
      fields={[
        "name", "description", "total", "team", "sku", "sku.gpu", `sku.${GPU}`, "sku.cpu", "sku.memory",
        ...resources.map(([name]) => `sku.${name.trim()}`),
        ...labels.map(([name]) => `node_selector.${name.trim()}`),
      ]}
      onClose={close}
      onSubmit={async (form) => {
        const name = text(form, "name")
        const total = text(form, "total")
        const sku = asRecord([...(["gpu", "cpu", "memory"] as const).map((each): Pair => [each, text(form, each)]), ...resources])
        for (const [resource, amount] of Object.entries(sku)) if (!amount) delete sku[resource]
        await saveCluster(cluster, {
          name,
          description: text(form, "description"),
          sku,
          node_selector: asRecord(labels),
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
            suggestions={[...new Set(machines.flatMap((machine) => machine.amounts.map(({ resource }) => resource)))].filter((name) => name.includes("/"))}
            fault={(name) => fault(`sku.${name.trim()}`)}
          />
          <Field label={w("total")} optional hint={w("totalHint")} error={fault("total")}>
            {(field) => <Input {...field} name="total" type="number" min={0} max={1_000_000} step={1} defaultValue={cluster?.total ?? ""} />}
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
          <p className={matching ? "-mt-2 text-[13px] text-muted-foreground" : "-mt-2 text-[13px] text-warning"}>{w("matching", { n: matching })}</p>
          <TeamField value={cluster?.team_id} error={fault("team")} />
        </>
      )}
    </FormDialog>
  )
}
