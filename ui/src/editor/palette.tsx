/** The palette: plain and training nodes and modules, to drag onto the canvas. */
import { keepPreviousData, useQuery } from "@tanstack/react-query"
import { Boxes, Network, Search, Terminal } from "lucide-react"
import { type ComponentType, type DragEvent, useDeferredValue, useState } from "react"
import { categoriesQuery, moduleVersionQuery, moduleVersionsQuery, USABLE, usableModulesQuery } from "@/api/options"
import { ProblemView } from "@/components/feedback"
import { Input, Select } from "@/components/form"
import { editorTexts } from "@/i18n/editor"
import { useTexts } from "@/i18n/translate"
import { classes } from "@/lib/classes"
import { DRAGGED, type Template } from "./node-templates"

export function Palette({ add }: { add: (template: Template) => void }) {
  const w = useTexts(editorTexts)
  const [q, setQ] = useState("")
  const [mine, setMine] = useState(false)
  const [category, setCategory] = useState("")
  const categories = useQuery(categoriesQuery)
  const modules = useQuery({
    ...usableModulesQuery({ q: useDeferredValue(q), category, ...(mine ? { mine } : { published: true }) }),
    placeholderData: keepPreviousData,
  })
  const offered = modules.data?.items ?? []
  return (
    <section aria-label={w("palette")} className="flex h-full flex-col gap-2 overflow-y-auto p-3">
      <Piece icon={Terminal} title={w("plainNode")} help={w("plainNodeHelp")} template={{ kind: "plain" }} add={add} />
      <Piece
        icon={Network}
        title={w("trainingNode")}
        help={w("trainingNodeHelp")}
        template={{ kind: "training" }}
        add={add}
      />
      <h2 className="mt-3 text-[13px] text-muted-foreground">{w("modules")}</h2>
      <div role="group" className="flex gap-1">
        <Choice chosen={!mine} choose={() => setMine(false)}>
          {w("published")}
        </Choice>
        <Choice chosen={mine} choose={() => setMine(true)}>
          {w("mine")}
        </Choice>
      </div>
      <div className="relative">
        <Search aria-hidden className="absolute top-2.5 left-2 size-4 text-muted-foreground" />
        <Input
          type="search"
          aria-label={w("searchModules")}
          placeholder={w("searchModules")}
          value={q}
          onChange={(event) => setQ(event.target.value)}
          className="pl-8"
        />
      </div>
      {(categories.data?.items.length ?? 0) > 0 && (
        <Select aria-label={w("category")} value={category} onChange={(event) => setCategory(event.target.value)}>
          <option value="">{w("allCategories")}</option>
          {categories.data?.items.map(({ id, name }) => (
            <option key={id} value={id}>
              {name}
            </option>
          ))}
        </Select>
      )}
      <ProblemView error={modules.error} />
      {offered.map((module) => (
        <ModulePiece
          key={module.id}
          name={module.name}
          number={mine && USABLE.has(module.state) ? module.versions : module.public_number}
          help={module.description || module.category_name}
          add={add}
        />
      ))}
      {modules.data && offered.length === 0 && <p className="text-[13px] text-muted-foreground">{w("noModules")}</p>}
    </section>
  )
}

function Choice({ chosen, choose, children }: { chosen: boolean; choose: () => void; children: string }) {
  return (
    <button
      type="button"
      aria-pressed={chosen}
      onClick={choose}
      className={classes(
        "flex-1 rounded-md px-2 py-1 text-[13px]",
        chosen ? "bg-accent font-medium text-primary" : "hover:bg-muted",
      )}
    >
      {children}
    </button>
  )
}

interface ModuleProps {
  name: string
  /** The number of the version to use; 0 if it is not known yet. */
  number: number
  help: string
  add: (template: Template) => void
}

function ModulePiece({ name, number, help, add }: ModuleProps) {
  const versions = useQuery({ ...moduleVersionsQuery(name), enabled: number === 0 })
  const newest = versions.data?.items.find((version) => USABLE.has(version.state))?.number
  const wanted = String(number || newest || "")
  const version = useQuery({ ...moduleVersionQuery(name, wanted), enabled: wanted !== "", retry: false })
  const template =
    version.data && ({ kind: "module", module: name, version: wanted, inputs: version.data.inputs } as const)
  return <Piece icon={Boxes} title={name} help={help} template={template} add={add} />
}

interface PieceProps {
  icon: ComponentType<{ className?: string }>
  title: string
  help: string
  template: Template | undefined
  add: (template: Template) => void
}

function Piece({ icon: Icon, title, help, template, add }: PieceProps) {
  const w = useTexts(editorTexts)
  const drag = (event: DragEvent) => {
    if (!template) return event.preventDefault()
    event.dataTransfer.setData(DRAGGED, JSON.stringify(template))
    event.dataTransfer.effectAllowed = "copy"
  }
  return (
    <button
      type="button"
      draggable
      onDragStart={drag}
      title={w("dragHint")}
      disabled={!template}
      onClick={() => template && add(template)}
      className="flex cursor-grab! items-center gap-2.5 rounded-lg border bg-card p-2 text-left hover:border-ring"
    >
      <span className="flex size-8 shrink-0 items-center justify-center rounded-md bg-muted text-muted-foreground">
        <Icon className="size-4" />
      </span>
      <span className="min-w-0">
        <span className="block truncate font-medium">{title}</span>
        <span className="line-clamp-2 text-xs text-muted-foreground">{help}</span>
      </span>
    </button>
  )
}
