import { useQuery } from "@tanstack/react-query"
import { moduleVersionQuery, moduleVersionsQuery, USABLE } from "@/api/offers"
import { queries } from "@/api/query-client"
import { Field, Input, Select } from "@/components/form"
import { noteError } from "@/components/toasts"
import { editorWords } from "@/words/editor"
import { useWords } from "@/words/words"
import type { NodeFormProps } from "./node-form"

/** The module and the version that is pinned. Another version may take other inputs: those of the same name stay. */
export function NodeModule({ node, change, fault }: NodeFormProps) {
  const w = useWords(editorWords)
  const name = node.module?.name ?? ""
  const versions = useQuery({ ...moduleVersionsQuery(name), enabled: name !== "", retry: false })
  const pinned = node.module?.version ?? ""
  const offered = (versions.data?.items ?? []).filter((version) => USABLE.has(version.state))
  const known = offered.some((version) => String(version.number) === pinned)
  const pin = async (version: string) => {
    try {
      const { inputs } = await queries.fetchQuery(moduleVersionQuery(name, version))
      const before = new Map((node.inputs ?? []).map((input) => [input.name, input]))
      const fitted = inputs.map(
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
        label={w("module")}
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
