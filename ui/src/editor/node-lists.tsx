import { useQuery } from "@tanstack/react-query"
import { rootsQuery } from "@/api/offers"
import { Field, Input, Select, Tick } from "@/components/form"
import type { Mount, Output, Variable } from "@/graph/document"
import { commonWords } from "@/words/common"
import { editorWords } from "@/words/editor"
import { useWords } from "@/words/words"
import { Rows } from "./form-parts"
import type { NodeFormProps } from "./node-form"
import { useOutputs } from "./node-inputs"

export function NodeOutputs({ node, drawing, change, fault }: NodeFormProps) {
  const w = useWords(editorWords)
  const c = useWords(commonWords)
  const outputs = useOutputs(drawing.nodes)
  const fixed = node.kind === "module"
  return (
    <Rows<Output>
      rows={fixed ? outputs(node) : (node.outputs ?? [])}
      named={(output) => output.name}
      field="outputs"
      fixed={fixed}
      change={(outputs, field) => change({ outputs }, field)}
      add={fixed ? undefined : { label: w("addOutput"), fresh: () => ({ name: "", path: "", type: "text" }) }}
      row={(output, index, set) => {
        const at = `outputs[${index}]`
        return (
          <>
            <div className="flex gap-2">
              <Field label={c("name")} error={fault(`${at}.name`)} className="min-w-0 flex-1">
                {(field) => (
                  <Input
                    {...field}
                    data-field={`${at}.name`}
                    value={output.name}
                    readOnly={fixed}
                    spellCheck={false}
                    className="font-mono text-[13px]"
                    onChange={(event) => set({ name: event.target.value }, "name")}
                  />
                )}
              </Field>
              <Field label={w("type")} className="w-28">
                {(field) => (
                  <Select
                    {...field}
                    value={output.type ?? "text"}
                    disabled={fixed}
                    onChange={(event) => set({ type: event.target.value as "text" | "file" }, "type")}
                  >
                    <option value="text">{w("text")}</option>
                    <option value="file">{w("file")}</option>
                  </Select>
                )}
              </Field>
            </div>
            <Field label={w("path")} error={fault(`${at}.path`)}>
              {(field) => (
                <Input
                  {...field}
                  data-field={`${at}.path`}
                  value={output.path ?? ""}
                  readOnly={fixed}
                  placeholder="/tmp/workflow_space/result"
                  spellCheck={false}
                  className="font-mono text-[13px]"
                  onChange={(event) => set({ path: event.target.value }, "path")}
                />
              )}
            </Field>
          </>
        )
      }}
    />
  )
}

export function NodeVariables({ node, change, fault }: NodeFormProps) {
  const w = useWords(editorWords)
  return (
    <Rows<Variable>
      rows={node.env ?? []}
      named={(variable) => variable.name}
      field="env"
      change={(env, field) => change({ env }, field)}
      add={{ label: w("addVariable"), fresh: () => ({ name: "", value: "" }) }}
      row={(variable, index, set) => {
        const at = `env[${index}]`
        return (
          <>
            <div className="flex gap-2">
              <Field label={w("variable")} error={fault(`${at}.name`)} className="min-w-0 flex-1">
                {(field) => (
                  <Input
                    {...field}
                    data-field={`${at}.name`}
                    value={variable.name}
                    spellCheck={false}
                    className="font-mono text-[13px]"
                    onChange={(event) => set({ name: event.target.value }, "name")}
                  />
                )}
              </Field>
              <Field label={w("value")} error={fault(`${at}.value`)} className="min-w-0 flex-1">
                {(field) => (
                  <Input
                    {...field}
                    data-field={`${at}.value`}
                    type={variable.secret ? "password" : "text"}
                    autoComplete="off"
                    value={variable.value ?? ""}
                    placeholder={variable.secret && variable.value === undefined ? w("secretKept") : ""}
                    spellCheck={false}
                    className="font-mono text-[13px]"
                    onChange={(event) => set({ value: event.target.value }, "value")}
                  />
                )}
              </Field>
            </div>
            <Tick
              label={w("secret")}
              checked={variable.secret ?? false}
              onChange={(event) => set({ secret: event.target.checked || undefined }, "secret")}
            />
          </>
        )
      }}
    />
  )
}

/** Storage roots that can be ticked. One that is not there any more stays to be unticked. */
export function NodeStorage({ node, change, fault }: NodeFormProps) {
  const w = useWords(editorWords)
  const roots = useQuery(rootsQuery).data?.items ?? []
  const mounts = node.storage ?? []
  const names = [
    ...new Set([...roots.filter((root) => root.usable).map((root) => root.name), ...mounts.map((mount) => mount.root)]),
  ]
  const set = (storage: Mount[]) => change({ storage }, "storage")
  if (!names.length) return <p className="text-[13px] text-muted-foreground">{w("noStorage")}</p>
  return names.map((name) => {
    const root = roots.find((each) => each.name === name)
    const index = mounts.findIndex((mount) => mount.root === name)
    const mount = mounts[index]
    const at = `storage[${index}]`
    const edit = (what: Partial<Mount>) => set(mounts.map((each) => (each.root === name ? { ...each, ...what } : each)))
    const error = mount && (fault(at) ?? fault(`${at}.root`) ?? fault(`${at}.readOnly`))
    return (
      <div key={name} className="flex flex-col gap-2 rounded-md border bg-background p-2.5">
        <Tick
          label={
            <>
              <span className="font-medium">{name}</span>
              {root && <span className="ml-1.5 font-mono text-xs text-muted-foreground">{root.path}</span>}
            </>
          }
          data-field={at}
          checked={index >= 0}
          onChange={(event) =>
            set(
              event.target.checked
                ? [...mounts, { root: name, ...(root?.read_only ? { readOnly: true } : {}) }]
                : mounts.filter((each) => each.root !== name),
            )
          }
        />
        {error && <p className="text-[13px] text-destructive">{error}</p>}
        {mount && (
          <>
            <Field label={w("mountPath")} error={fault(`${at}.path`)} optional>
              {(field) => (
                <Input
                  {...field}
                  data-field={`${at}.path`}
                  value={mount.path ?? ""}
                  placeholder={root?.path}
                  className="font-mono text-[13px]"
                  onChange={(event) => edit({ path: event.target.value || undefined })}
                />
              )}
            </Field>
            <Tick
              label={w("readOnly")}
              checked={mount.readOnly ?? false}
              onChange={(event) => edit({ readOnly: event.target.checked || undefined })}
            />
          </>
        )}
      </div>
    )
  })
}
