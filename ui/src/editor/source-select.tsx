/** Where a value comes from: an initial parameter, an output of an earlier node, or a fixed value. */
import { useMemo } from "react"
import { useModuleVersions } from "@/api/options"
import { Field, Select } from "@/components/form"
import type { Output, Source } from "@/graph/document"
import { ancestors, type Drawing, type DrawnNode } from "@/graph/drawing"
import { editorTexts } from "@/i18n/editor"
import { useTexts } from "@/i18n/translate"

export interface Sourced {
  from?: Source
  value?: string
}

export interface Offer {
  node: DrawnNode
  outputs: Output[]
}

const VALUE = "value"

/** The outputs of the nodes that run before this one. */
export function useOffers(drawing: Drawing, node: DrawnNode): Offer[] {
  const before = useMemo(() => {
    const keys = ancestors(drawing, node.key)
    return drawing.nodes.filter((each) => keys.has(each.key))
  }, [drawing, node.key])
  const outputs = useOutputs(drawing.nodes)
  return before.map((each) => ({ node: each, outputs: outputs(each) })).filter((each) => each.outputs.length)
}

/** The outputs of a node: its own, or those of its module. */
export function useOutputs(nodes: DrawnNode[]): (node: DrawnNode) => Output[] {
  const modules = useModuleVersions(
    nodes.flatMap((node) => (node.kind === "module" && node.module ? [node.module] : [])),
  )
  return (node) => {
    if (node.kind !== "module") return node.outputs ?? []
    return (modules.get(`${node.module?.name}@${node.module?.version}`)?.outputs ?? []) as Output[]
  }
}

interface Props {
  label: string
  /** The path of what has the source, in the node. */
  at: string
  source: Sourced
  drawing: Drawing
  offers: Offer[]
  fault: (field: string) => string | undefined
  onChange: (source: Sourced) => void
  /** A file is no source. */
  textOnly?: boolean
  /** A fixed value is no source. */
  referenceOnly?: boolean
  className?: string
}

export function SourceSelect({
  label,
  at,
  source,
  drawing,
  offers,
  fault,
  onChange,
  textOnly,
  referenceOnly,
  className,
}: Props) {
  const w = useTexts(editorTexts)
  const chosen = encoded(source)
  const shown = textOnly ? offers.map(withTexts).filter(({ outputs }) => outputs.length) : offers
  const known = chosen === "" || chosen === VALUE || isOffered(chosen, drawing.parameters, shown)
  const nameOf = (key: string) => drawing.nodes.find((each) => each.key === key)?.name ?? key.replace(/^name:/, "")
  return (
    <Field
      label={label}
      className={className}
      error={
        fault(at) ??
        fault(`${at}.from`) ??
        fault(`${at}.from.output`) ??
        fault(`${at}.from.node`) ??
        fault(`${at}.from.parameter`)
      }
    >
      {(field) => (
        <Select {...field} data-field={at} value={chosen} onChange={(event) => onChange(decoded(event.target.value))}>
          <option value="">{w("chooseSource")}</option>
          {!known && (
            <option value={chosen}>
              {source.from?.node
                ? w("notBefore", { node: nameOf(source.from.node), output: source.from.output ?? "" })
                : source.from?.parameter}
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
          {shown.map((offer) => (
            <optgroup key={offer.node.key} label={w("outputOf", { name: offer.node.name })}>
              {offer.outputs.map((output, place) => (
                <option key={place} value={`n:${offer.node.key}:${output.name}`}>
                  {offer.node.name}.{output.name} ({w(output.type === "file" ? "file" : "text")})
                </option>
              ))}
            </optgroup>
          ))}
          {!referenceOnly && <option value={VALUE}>{w("fixedValue")}</option>}
        </Select>
      )}
    </Field>
  )
}

export function isFixed(source: Sourced): boolean {
  return encoded(source) === VALUE
}

function withTexts({ node, outputs }: Offer): Offer {
  return { node, outputs: outputs.filter(({ type }) => type !== "file") }
}

function encoded({ from, value }: Sourced): string {
  if (from?.parameter !== undefined) return `p:${from.parameter}`
  if (from?.node !== undefined) return `n:${from.node}:${from.output ?? ""}`
  return value === undefined ? "" : VALUE
}

function decoded(chosen: string): Sourced {
  if (chosen === VALUE) return { from: undefined, value: "" }
  if (chosen.startsWith("p:")) return { from: { parameter: chosen.slice(2) }, value: undefined }
  const [, node = "", output = ""] = /^n:(.*):([^:]*)$/.exec(chosen) ?? []
  return node ? { from: { node, output }, value: undefined } : { from: undefined, value: undefined }
}

function isOffered(chosen: string, parameters: { name: string }[], offers: Offer[]): boolean {
  return (
    parameters.some(({ name }) => chosen === `p:${name}`) ||
    offers.some(({ node, outputs }) => outputs.some(({ name }) => chosen === `n:${node.key}:${name}`))
  )
}
