/** The fields of a node that are lists: inputs, outputs, environment variables and storage. */
import { useQuery } from "@tanstack/react-query"
import { rootsQuery } from "@/api/options"
import { Field, Input, Select, Tick } from "@/components/form"
import type { Input as GraphInput, Mount, Output, Variable } from "@/graph/document"
import { commonTexts } from "@/i18n/common"
import { editorTexts } from "@/i18n/editor"
import { useTexts } from "@/i18n/translate"
import { CodeField, Rows } from "./form-parts"
import type { NodeFormProps } from "./node-form"
import { isFixed, SourceSelect, useOffers, useOutputs } from "./source-select"

/** Inputs, each from an initial parameter, an output of an earlier node, or a fixed value. */
export function NodeInputs({ node, drawing, change, fault }: NodeFormProps) {
  const w = useTexts(editorTexts)
  const c = useTexts(commonTexts)
  const offers = useOffers(drawing, node)
  return (
    <>
      <Rows<GraphInput>
        rows={node.inputs ?? []}
        named={(input) => input.name}
        field="inputs"
        fixed={node.kind === "module"}
        change={(inputs, field) => change({ inputs }, field)}
        add={node.kind === "module" ? undefined : { label: w("addInput"), fresh: () => ({ name: "" }) }}
        row={(input, index, set) => {
          const at = `inputs[${index}]`
          return (
            <>
              <CodeField
                label={c("name")}
                field={`${at}.name`}
                fault={fault}
                hint={node.kind === "module" ? input.description : undefined}
                value={input.name}
                readOnly={node.kind === "module"}
                onChange={(name) => set({ name }, "name")}
              />
              <SourceSelect
                label={w("source")}
                at={at}
                source={input}
                drawing={drawing}
                offers={offers}
                fault={fault}
                onChange={(source) => set(source, "from")}
              />
              {isFixed(input) && (
                <Field label={w("value")} error={fault(`${at}.value`)}>
                  {(field) => (
                    <Input
                      {...field}
                      data-field={`${at}.value`}
                      value={input.value ?? ""}
                      onChange={(event) => set({ value: event.target.value }, "value")}
                    />
                  )}
                </Field>
              )}
              {node.kind !== "module" && (
                <Field label={c("description")} optional error={fault(`${at}.description`)}>
                  {(field) => (
                    <Input
                      {...field}
                      data-field={`${at}.description`}
                      value={input.description ?? ""}
                      onChange={(event) => set({ description: event.target.value || undefined }, "description")}
                    />
                  )}
                </Field>
              )}
            </>
          )
        }}
      />
      {offers.length === 0 && (node.inputs?.length ?? 0) > 0 && (
        <p className="text-[13px] text-muted-foreground in-[fieldset:disabled]:hidden">{w("noSources")}</p>
      )}
    </>
  )
}

export function NodeOutputs({ node, drawing, change, fault }: NodeFormProps) {
  const w = useTexts(editorTexts)
  const c = useTexts(commonTexts)
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
              <CodeField
                label={c("name")}
                field={`${at}.name`}
                fault={fault}
                className="min-w-0 flex-1"
                value={output.name}
                readOnly={fixed}
                onChange={(name) => set({ name }, "name")}
              />
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
            <CodeField
              label={w("path")}
              field={`${at}.path`}
              fault={fault}
              value={output.path ?? ""}
              readOnly={fixed}
              placeholder="/tmp/workflow_space/result"
              onChange={(path) => set({ path }, "path")}
            />
          </>
        )
      }}
    />
  )
}

export function NodeVariables({ node, change, fault }: NodeFormProps) {
  const w = useTexts(editorTexts)
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
              <CodeField
                label={w("variable")}
                field={`${at}.name`}
                fault={fault}
                className="min-w-0 flex-1"
                value={variable.name}
                onChange={(name) => set({ name }, "name")}
              />
              <CodeField
                label={w("value")}
                field={`${at}.value`}
                fault={fault}
                className="min-w-0 flex-1"
                type={variable.secret ? "password" : "text"}
                autoComplete="off"
                value={variable.value ?? ""}
                placeholder={variable.secret && variable.value === undefined ? w("secretKept") : ""}
                onChange={(value) => set({ value }, "value")}
              />
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

/** Storage roots as checkboxes. One that no longer exists stays in the list so that it can be removed. */
export function NodeStorage({ node, change, fault }: NodeFormProps) {
  const w = useTexts(editorTexts)
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
