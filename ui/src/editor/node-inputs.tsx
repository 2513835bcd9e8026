import { useMemo } from "react"
import { useModuleVersions } from "@/api/offers"
import { Field, Input, Select } from "@/components/form"
import type { Input as GraphInput, Output } from "@/graph/document"
import { ancestors, type DrawnNode } from "@/graph/drawing"
import { commonWords } from "@/words/common"
import { editorWords } from "@/words/editor"
import { useWords } from "@/words/words"
import { Rows } from "./form-parts"
import type { NodeFormProps } from "./node-form"

const VALUE = "value"

/** Inputs, each wired to an initial parameter, to an output of a node before this one, or to a value. */
export function NodeInputs({ node, drawing, change, fault }: NodeFormProps) {
  const w = useWords(editorWords)
  const c = useWords(commonWords)
  const before = useMemo(() => {
    const keys = ancestors(drawing, node.key)
    return drawing.nodes.filter((each) => keys.has(each.key))
  }, [drawing, node.key])
  const outputs = useOutputs(drawing.nodes)
  const offers = before.map((each) => ({ node: each, outputs: outputs(each) })).filter((each) => each.outputs.length)
  const nameOf = (key: string) => drawing.nodes.find((each) => each.key === key)?.name ?? key.replace(/^name:/, "")

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
          const chosen = encoded(input)
          const known = chosen === "" || chosen === VALUE || isOffered(chosen, drawing.parameters, offers)
          return (
            <>
              <Field label={c("name")} error={fault(`${at}.name`)} hint={input.description}>
                {(field) => (
                  <Input
                    {...field}
                    data-field={`${at}.name`}
                    value={input.name}
                    readOnly={node.kind === "module"}
                    spellCheck={false}
                    className="font-mono text-[13px]"
                    onChange={(event) => set({ name: event.target.value }, "name")}
                  />
                )}
              </Field>
              <Field
                label={w("source")}
                error={
                  fault(at) ??
                  fault(`${at}.from`) ??
                  fault(`${at}.from.output`) ??
                  fault(`${at}.from.node`) ??
                  fault(`${at}.from.parameter`)
                }
              >
                {(field) => (
                  <Select
                    {...field}
                    data-field={at}
                    value={chosen}
                    onChange={(event) => set(decoded(event.target.value), "from")}
                  >
                    <option value="">{w("chooseSource")}</option>
                    {!known && (
                      <option value={chosen}>
                        {input.from?.node
                          ? w("notBefore", { node: nameOf(input.from.node), output: input.from.output ?? "" })
                          : input.from?.parameter}
                      </option>
                    )}
                    {drawing.parameters.length > 0 && (
                      <optgroup label={w("initialParameters")}>
                        {drawing.parameters.map((parameter, place) => (
                          <option key={place} value={`p:${parameter.name}`}>
                            {parameter.name}
                          </option>
                        ))}
                      </optgroup>
                    )}
                    {offers.map((offer) => (
                      <optgroup key={offer.node.key} label={w("outputOf", { name: offer.node.name })}>
                        {offer.outputs.map((output, place) => (
                          <option key={place} value={`n:${offer.node.key}:${output.name}`}>
                            {offer.node.name}.{output.name} ({w(output.type === "file" ? "file" : "text")})
                          </option>
                        ))}
                      </optgroup>
                    ))}
                    <option value={VALUE}>{w("fixedValue")}</option>
                  </Select>
                )}
              </Field>
              {chosen === VALUE && (
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

/** What a node gives: its own outputs, or its module's. */
export function useOutputs(nodes: DrawnNode[]): (node: DrawnNode) => Output[] {
  const modules = useModuleVersions(
    nodes.flatMap((node) => (node.kind === "module" && node.module ? [node.module] : [])),
  )
  return (node) => {
    if (node.kind !== "module") return node.outputs ?? []
    return (modules.get(`${node.module?.name}@${node.module?.version}`)?.outputs ?? []) as Output[]
  }
}

function encoded({ from, value }: GraphInput): string {
  if (from?.parameter !== undefined) return `p:${from.parameter}`
  if (from?.node !== undefined) return `n:${from.node}:${from.output ?? ""}`
  return value === undefined ? "" : VALUE
}

function decoded(chosen: string): Partial<GraphInput> {
  if (chosen === VALUE) return { from: undefined, value: "" }
  if (chosen.startsWith("p:")) return { from: { parameter: chosen.slice(2) }, value: undefined }
  const [, node = "", output = ""] = /^n:(.*):([^:]*)$/.exec(chosen) ?? []
  return node ? { from: { node, output }, value: undefined } : { from: undefined, value: undefined }
}

function isOffered(
  chosen: string,
  parameters: { name: string }[],
  offers: { node: DrawnNode; outputs: Output[] }[],
): boolean {
  return (
    parameters.some(({ name }) => chosen === `p:${name}`) ||
    offers.some(({ node, outputs }) => outputs.some(({ name }) => chosen === `n:${node.key}:${name}`))
  )
}
