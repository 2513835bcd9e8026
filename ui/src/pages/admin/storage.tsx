import { useQuery } from "@tanstack/react-query"
import { HardDrive } from "lucide-react"
import { useMemo, useState } from "react"
import { deleteStorage, type StorageRoot, saveStorage, storageListQuery, storageQuery } from "@/api/admin"
import { Badge } from "@/components/badge"
import type { Column } from "@/components/data-table"
import { Dialog, FormDialog, text } from "@/components/dialog"
import { ProblemView } from "@/components/feedback"
import { Field, Input, Select, Tick } from "@/components/form"
import { note } from "@/components/toasts"
import { adminTexts } from "@/i18n/admin"
import { commonTexts } from "@/i18n/common"
import { useTexts } from "@/i18n/translate"
import { NameFields, TeamField } from "./fields"
import { ManagedList, useAdminList } from "./managed-list"

export function Storage() {
  const w = useTexts(adminTexts)
  const c = useTexts(commonTexts)
  const { open } = useAdminList()
  const columns = useMemo(
    (): Column<StorageRoot>[] => [
      {
        id: "name",
        header: c("name"),
        sort: "name",
        cell: (root) => (
          <div className="max-w-xs">
            <button type="button" className="font-medium text-primary hover:underline" onClick={() => open(root.id)}>
              {root.name}
            </button>
            {root.description && <div className="truncate text-[13px] text-muted-foreground">{root.description}</div>}
          </div>
        ),
      },
      {
        id: "path",
        header: w("path"),
        sort: "path",
        cell: (root) => <code className="font-mono text-[13px]">{root.path}</code>,
      },
      {
        id: "backing",
        header: w("backing"),
        cell: (root) => (
          <span className="text-[13px]">
            {root.claim ? w("backingClaim") : w("backingPath")}{" "}
            <code className="font-mono">{root.claim || root.host_path || root.path}</code>
          </span>
        ),
      },
      {
        id: "access",
        header: w("access"),
        cell: (root) => <Badge>{root.read_only ? w("readOnly") : w("writable")}</Badge>,
      },
      { id: "who", header: w("who"), cell: (root) => root.team_name ?? w("everybody") },
    ],
    [w, c, open],
  )
  return (
    <ManagedList
      icon={HardDrive}
      label={w("storage")}
      searchLabel={w("searchStorage")}
      createLabel={w("newStorage")}
      empty={{ title: w("noStorage"), help: w("noStorageHelp") }}
      query={storageListQuery}
      columns={columns}
      form={(id, close) => <StorageForm id={id} close={close} />}
      deleteHelp={w("deleteStorageHelp")}
      onDelete={deleteStorage}
    />
  )
}

function StorageForm({ id, close }: { id: string; close: () => void }) {
  const w = useTexts(adminTexts)
  const isNew = id === "new"
  const { data: root, error } = useQuery({ ...storageQuery(id), enabled: !isNew })
  if (!isNew && !root)
    return (
      <Dialog open onClose={close} title={w("editStorage")}>
        <ProblemView error={error} />
      </Dialog>
    )
  return <RootForm root={root} close={close} />
}

function RootForm({ root, close }: { root?: StorageRoot; close: () => void }) {
  const w = useTexts(adminTexts)
  const c = useTexts(commonTexts)
  const [claimed, setClaimed] = useState(Boolean(root?.claim))
  return (
    <FormDialog
      title={w(root ? "editStorage" : "newStorage")}
      action={root ? c("save") : c("create")}
      fields={["name", "description", "path", "host_path", "claim", "team"]}
      onClose={close}
      onSubmit={async (form) => {
        const name = text(form, "name")
        await saveStorage(root, {
          name,
          description: text(form, "description"),
          path: text(form, "path"),
          host_path: text(form, "host_path"),
          claim: text(form, "claim"),
          read_only: form.get("read_only") === "on",
          team: text(form, "team"),
        })
        note(w(root ? "saved" : "created", { name }))
        close()
      }}
    >
      {(fault) => (
        <>
          <NameFields fault={fault} name={root?.name} description={root?.description} />
          <Field label={w("path")} hint={w("pathHint")} error={fault("path")}>
            {(field) => (
              <Input
                {...field}
                name="path"
                required
                className="font-mono"
                spellCheck={false}
                defaultValue={root?.path}
              />
            )}
          </Field>
          <Field label={w("backing")}>
            {(field) => (
              <Select
                {...field}
                value={claimed ? "claim" : "path"}
                onChange={(event) => setClaimed(event.target.value === "claim")}
              >
                <option value="path">{w("backingPath")}</option>
                <option value="claim">{w("backingClaim")}</option>
              </Select>
            )}
          </Field>
          {claimed ? (
            <Field label={w("claim")} error={fault("claim")}>
              {(field) => (
                <Input
                  {...field}
                  name="claim"
                  required
                  className="font-mono"
                  spellCheck={false}
                  defaultValue={root?.claim}
                />
              )}
            </Field>
          ) : (
            <Field label={w("hostPath")} optional hint={w("hostPathHint")} error={fault("host_path")}>
              {(field) => (
                <Input
                  {...field}
                  name="host_path"
                  className="font-mono"
                  spellCheck={false}
                  defaultValue={root?.host_path}
                />
              )}
            </Field>
          )}
          <Tick name="read_only" label={w("readOnly")} defaultChecked={root?.read_only} />
          <TeamField value={root?.team_id} error={fault("team")} />
        </>
      )}
    </FormDialog>
  )
}
