import { Field, Input, Tick } from "@/components/form"
import { mapSources } from "@/graph/control-flow"
import type { Parameter } from "@/graph/document"
import type { Drawing } from "@/graph/drawing"
import { commonTexts } from "@/i18n/common"
import { editorTexts } from "@/i18n/editor"
import { useTexts } from "@/i18n/translate"
import { CodeField, Rows, Section } from "./form-parts"

interface Props {
  drawing: Drawing
  change: (drawing: Drawing, field: string) => void
  fault: (field: string) => string | undefined
}

/** Initial parameters. Inputs keep their source when a parameter is renamed. */
export function Parameters({ drawing, change, fault }: Props) {
  const w = useTexts(editorTexts)
  const c = useTexts(commonTexts)
  return (
    <Section title={w("initialParameters")} count={drawing.parameters.length}>
      <p className="text-[13px] text-muted-foreground in-[fieldset:disabled]:hidden">{w("initialParametersHelp")}</p>
      <Rows<Parameter>
        rows={drawing.parameters}
        named={(parameter) => parameter.name}
        field="parameters"
        change={(parameters, field) => change(renamed(drawing, parameters), field)}
        add={{ label: w("addParameter"), fresh: () => ({ name: "" }) }}
        row={(parameter, index, set) => {
          const at = `parameters[${index}]`
          return (
            <>
              <div className="flex gap-2">
                <CodeField
                  label={c("name")}
                  field={`${at}.name`}
                  fault={fault}
                  className="min-w-0 flex-1"
                  value={parameter.name}
                  onChange={(name) => set({ name }, "name")}
                />
                <Field label={w("default")} className="min-w-0 flex-1">
                  {(field) => (
                    <Input
                      {...field}
                      value={parameter.default ?? ""}
                      onChange={(event) => set({ default: event.target.value || undefined }, "default")}
                    />
                  )}
                </Field>
              </div>
              <Field label={c("description")} optional>
                {(field) => (
                  <Input
                    {...field}
                    value={parameter.description ?? ""}
                    onChange={(event) => set({ description: event.target.value }, "description")}
                  />
                )}
              </Field>
              <Tick
                label={w("requiredParameter")}
                checked={parameter.required ?? false}
                onChange={(event) => set({ required: event.target.checked || undefined }, "required")}
              />
            </>
          )
        }}
      />
    </Section>
  )
}

/** Replaces the parameters. Inputs, conditions and loops follow a parameter that was renamed. */
export function renamed(drawing: Drawing, parameters: Parameter[]): Drawing {
  if (parameters.length !== drawing.parameters.length) return { ...drawing, parameters }
  const names = new Map<string, string>()
  parameters.forEach((parameter, index) => {
    const before = drawing.parameters[index]?.name ?? ""
    const twice = drawing.parameters.filter(({ name }) => name === before).length > 1
    if (before !== parameter.name && before !== "" && !twice) names.set(before, parameter.name)
  })
  if (!names.size) return { ...drawing, parameters }
  const nodes = drawing.nodes.map((node) =>
    mapSources(node, (from) => {
      const parameter = names.get(from.parameter ?? "")
      return parameter === undefined ? from : { parameter }
    }),
  )
  return { ...drawing, parameters, nodes }
}
